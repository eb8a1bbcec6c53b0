"""Passes HTTP requests of platforms to the accounts in their paths.

`/channels/<channel>/<account>` needs no gateway token, since platforms cannot have it: each adapter
checks the signatures of its platform. This module applies limits before that check.
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

MAX_BYTES: Final = 4 << 20
"""Maximum size of a body in bytes; the largest, of WhatsApp, is below 3 MiB."""
MAX_CONCURRENT: Final = 16
"""Maximum number of concurrent requests of one account. While their bodies arrive, a new request
replaces the oldest, so that a slow sender does not block the platform."""
ANSWER_SECONDS: Final = 25.0
"""Seconds for a response; platforms stop waiting after 5 to 30 and repeat the event."""
_METHODS: Final = frozenset({"GET", "POST"})


class Posts(Struct):
    """Serves HTTP requests of platforms for one gateway."""

    context: GatewayContext
    _open: Counter[tuple[str, str]] = field(default_factory=Counter)
    _arriving: dict[tuple[str, str], list[anyio.CancelScope]] = field(default_factory=dict)
    """Requests whose bodies are arriving, oldest first."""

    async def serve(self, request: Request) -> Response:
        """Returns the response of the account's adapter."""
        try:
            answer = await self._answer(request)
        except RefusedPost as refused:
            return Response(str(refused), refused.status, refused.headers, "text/plain")
        return Response(answer.body, answer.status, media_type=answer.content_type)

    async def _answer(self, request: Request) -> PostAnswer:
        channel, account, rest = self._address(request.path_params["path"])
        channels = self.context.channels
        adapter = channels.adapter(channel, account) if channels is not None else None
        if not isinstance(adapter, TakesPosts):
            raise RefusedPost(404, "no account receives requests at this path")
        if request.method not in _METHODS:
            raise RefusedPost(405, "use GET or POST", {"allow": "GET, POST"})
        head = _head(request, rest)
        if isinstance(adapter, ChecksHeaders):
            refusal = await _within_limit(adapter.refuses(head), request)
            if refusal is not None:
                return refusal
        key = (channel, account)
        post = replace(head, body=await self._body(request, key))
        self._refuse_crowd(self._open[key])
        self._open[key] += 1
        try:
            return await _within_limit(adapter.posted(post), request)
        finally:
            self._open[key] -= 1
            self._open += Counter()  # removes zero counts

    async def _body(self, request: Request, key: tuple[str, str]) -> bytes:
        arriving = self._arriving.setdefault(key, [])
        if len(arriving) >= MAX_CONCURRENT:
            arriving.pop(0).cancel()
        with anyio.CancelScope() as scope:
            arriving.append(scope)
            try:
                return await read_body(request, MAX_BYTES)
            finally:
                if scope in arriving:
                    arriving.remove(scope)
                if not self._arriving.get(key):
                    self._arriving.pop(key, None)
        raise RefusedPost(503, "newer requests replaced this one", {"retry-after": "5"})

    @staticmethod
    def _refuse_crowd(count: int) -> None:
        if count >= MAX_CONCURRENT:
            raise RefusedPost(503, "too many requests at once", {"retry-after": "5"})

    @staticmethod
    def _address(path: str) -> tuple[str, str, str]:
        """Returns channel, account and the remaining path."""
        channel, _, rest = path.partition("/")
        account, _, subpath = rest.partition("/")
        return channel, account or "default", subpath


def _head(request: Request, rest: str) -> Post:
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Post(request.method, rest, dict(request.query_params), headers, b"")


async def _within_limit(answer: Awaitable[T], request: Request) -> T:
    """Returns the response of an adapter within the time limit."""
    retry_headers = {"retry-after": "5"}
    try:
        with anyio.fail_after(ANSWER_SECONDS):
            return await answer
    except (BusyError, StateError, TimeoutError) as error:
        raise RefusedPost(503, "not processed; send it again", retry_headers) from error
    except Exception as error:
        # A defect of one adapter must not stop the others; the platform repeats the event.
        # The log omits the rest of the path, which may contain the secret of a webhook.
        address = "/".join(request.path_params["path"].split("/")[:2])
        logger.exception("a request for %s failed", address)
        raise RefusedPost(503, "not processed; send it again", retry_headers) from error


def make(context: GatewayContext) -> Posts:
    """Returns the object that serves the requests of platforms."""
    return Posts(context)
