"""Hands the HTTP requests of platforms to the accounts that they are about.

`/channels/<channel>/<account>` is open to whoever reaches the gateway, since platforms cannot have
its token: each adapter checks the signatures of its platform. Here are the limits before that.
"""

import logging
from collections import Counter
from collections.abc import Awaitable
from typing import Final, TypeVar

import anyio
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from skerry.gateway.context import GatewayContext
from skerry.gateway.request_body import RefusedPost, read_body
from skerry.model.errors import BusyError, StateError
from skerry.ports.channel import ChecksHeaders, Post, PostAnswer, TakesPosts

logger = logging.getLogger(__name__)
T = TypeVar("T")

MOST_BYTES: Final = 4 << 20
"""Bytes of a body; WhatsApp, which sends the largest, stays below 3 MiB."""
MOST_AT_ONCE: Final = 16
"""Requests of one account that are answered at the same time. While their bodies arrive, the oldest
gives way to a new one: whoever sends slowly keeps no platform out."""
ANSWER_SECONDS: Final = 25.0
"""Seconds for an answer; platforms give up after 5 to 30 and send the event again."""
_METHODS: Final = frozenset({"GET", "POST"})


class Posts(Struct):
    """Serves the requests of platforms to one gateway."""

    context: GatewayContext
    _open: Counter[tuple[str, str]] = field(default_factory=Counter)
    _arriving: dict[tuple[str, str], list[anyio.CancelScope]] = field(default_factory=dict)
    """Requests whose bodies arrive, oldest first."""

    async def serve(self, request: Request) -> Response:
        """Returns the answer of the account's adapter."""
        try:
            answer = await self._answer(request)
        except RefusedPost as refused:
            return Response(str(refused), refused.status, refused.headers, "text/plain")
        return Response(answer.body, answer.status, media_type=answer.content_type)

    async def _answer(self, request: Request) -> PostAnswer:
        channel, account, rest = self._place(request.path_params["path"])
        channels = self.context.channels
        adapter = channels.adapter(channel, account) if channels is not None else None
        if not isinstance(adapter, TakesPosts):
            raise RefusedPost(404, "no account takes requests here")
        if request.method not in _METHODS:
            raise RefusedPost(405, "use GET or POST", {"allow": "GET, POST"})
        head = _head(request, rest)
        if isinstance(adapter, ChecksHeaders):
            refusal = await _asked(adapter.refuses(head), request)
            if refusal is not None:
                return refusal
        key = (channel, account)
        post = replace(head, body=await self._body(request, key))
        self._refuse_crowd(self._open[key])
        self._open[key] += 1
        try:
            return await _asked(adapter.posted(post), request)
        finally:
            self._open[key] -= 1
            self._open += Counter()  # drops those that are zero

    async def _body(self, request: Request, key: tuple[str, str]) -> bytes:
        arriving = self._arriving.setdefault(key, [])
        if len(arriving) >= MOST_AT_ONCE:
            arriving.pop(0).cancel()
        with anyio.CancelScope() as scope:
            arriving.append(scope)
            try:
                return await read_body(request, MOST_BYTES)
            finally:
                if scope in arriving:
                    arriving.remove(scope)
                if not self._arriving.get(key):
                    self._arriving.pop(key, None)
        raise RefusedPost(503, "newer requests came before this was read", {"retry-after": "5"})

    @staticmethod
    def _refuse_crowd(count: int) -> None:
        if count >= MOST_AT_ONCE:
            raise RefusedPost(503, "too many requests at once", {"retry-after": "5"})

    @staticmethod
    def _place(path: str) -> tuple[str, str, str]:
        """Returns channel, account and the rest of a path."""
        channel, _, rest = path.partition("/")
        account, _, beneath = rest.partition("/")
        return channel, account or "default", beneath


def _head(request: Request, rest: str) -> Post:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Post(request.method, rest, dict(request.query_params), headers, b"")


async def _asked(answer: Awaitable[T], request: Request) -> T:
    """Returns the answer of an adapter, which has limited time."""
    again = {"retry-after": "5"}
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            return await answer
    except (BusyError, StateError, TimeoutError) as error:
        raise RefusedPost(503, "not taken; send it again", again) from error
    except Exception as error:
        # The code of one platform must not end the others; the platform sends the event again.
        # Its path is not named: behind the account it may have the secret of a webhook.
        place = "/".join(request.path_params["path"].split("/")[:2])
        logger.exception("a request of %s was not taken", place)
        raise RefusedPost(503, "not taken; send it again", again) from error


def make(context: GatewayContext) -> Posts:
    """Returns the object that serves the requests of platforms."""
    return Posts(context)
