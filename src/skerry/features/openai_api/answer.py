"""Response to a request: waits for its run, sends the answer whole or as a stream.

A client that disconnects aborts its run, unless the request has an Idempotency-Key: then the run
continues, and a repeated request gets its answer.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

import anyio
import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from skerry.features.openai_api.api_errors import ApiError, failure_of, json_response
from skerry.features.openai_api.follower import RunFollower
from skerry.model.ids import SessionKey
from skerry.model.run import RunResult

QUIET_SECONDS: Final = 15.0
"""Time without text after which a stream gets a comment, so that proxies keep it open."""
SEND_SECONDS: Final = 60.0
"""Time after which a client that reads nothing is disconnected."""
GONE: Final = "the HTTP client (disconnected)"
"""Person or client that aborts the run of a client that has disconnected."""
COMMENT: Final = b": waiting\n\n"
STOPPING: Final = ApiError(
    503, "The gateway stops; the run continues at its next start.", code="request.busy"
)


class AnswerForm(Protocol):
    """Form of an answer in one API."""

    def whole(self, text: str, result: RunResult) -> dict[str, Any]:
        """Returns the answer as one object."""
        ...

    def opening(self) -> Iterable[bytes]:
        """Returns the first events of a stream."""
        ...

    def delta(self, text: str) -> Iterable[bytes]:
        """Returns the events for added text."""
        ...

    def closing(self, text: str, result: RunResult) -> Iterable[bytes]:
        """Returns the last events of a stream; `text` is all text that was sent."""
        ...

    def failure(self, error: ApiError) -> Iterable[bytes]:
        """Returns the events that end a stream with an error."""
        ...


def event(value: Any, name: str = "") -> bytes:
    """Returns a server-sent event with JSON."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


class AnsweredRun(Struct, frozen=True):
    """An accepted run and its client."""

    follower: RunFollower
    key: SessionKey
    continues: bool
    """True for a run that continues without its client."""
    headers: Mapping[str, str]


class RunResponse(Response):
    """Response that waits for a run, when it is called as an ASGI application."""

    def __init__(self, run: AnsweredRun, done: Callable[[], object]) -> None:
        """`done` is called at the end, also of a request that was cancelled."""
        super().__init__()
        self.run = run
        self._done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response; aborts the run of a client that disconnects."""
        follower = self.run.follower
        try:
            async with follower.waiting(receive):
                await self.respond(scope, receive, send)
            if follower.is_gone and not follower.is_over and not self.run.continues:
                follower.context.dispatcher.abort(self.run.key, follower.run_id, GONE)
        finally:
            self._done()

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response."""
        raise NotImplementedError

    async def outcome(self) -> ApiError | RunResult | None:
        """Waits for the end; returns the result, the error if it is no answer, None without client.

        The client may disconnect before the end.
        """
        follower = self.run.follower
        while follower.is_open:
            await follower.change(QUIET_SECONDS)
        return self.ended() if follower.is_over else None

    def ended(self) -> ApiError | RunResult:
        """Returns the result of the ended run, or the error if it is no answer."""
        result = self.run.follower.result
        return STOPPING if result is None else failure_of(result) or result


class RunAnswer(RunResponse):
    """Sends the answer of a run, whole or as a stream."""

    def __init__(
        self, run: AnsweredRun, form: AnswerForm, done: Callable[[], object], *, streams: bool
    ) -> None:
        super().__init__(run, done)
        self._form = form
        self._streams = streams

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the answer."""
        if self._streams:
            await self._stream(scope, receive, send)
            return
        outcome = await self.outcome()
        if isinstance(outcome, ApiError):
            await outcome.response()(scope, receive, send)
        elif outcome is not None:
            value = self._form.whole(self.run.follower.answer, outcome)
            await json_response(value, headers=self.run.headers)(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Streams the answer; a run that fails before its first text gets an HTTP status."""
        follower = self.run.follower
        text = await self._first_text()
        if follower.is_over and not text and isinstance(outcome := self.ended(), ApiError):
            await outcome.response()(scope, receive, send)
        elif not follower.is_gone:
            await self._begin(send)
            sent = await self._send_text(send, text)
            await self._close(send, sent)

    async def _first_text(self) -> str:
        """Returns the first text; empty if the run ends without one, or is silent for a while."""
        follower = self.run.follower
        text = follower.new_text()
        with anyio.move_on_after(QUIET_SECONDS):
            while not text and follower.is_open:
                await follower.change(QUIET_SECONDS)
                text = follower.new_text()
        return text

    async def _send_text(self, send: Send, text: str) -> str:
        """Sends the text as it grows, until the end; returns all sent text."""
        form, follower = self._form, self.run.follower
        await self._send(send, *form.opening())
        sent = ""
        while text or follower.is_open:
            if text:
                await self._send(send, *form.delta(text))
                sent += text
            elif not await follower.change(QUIET_SECONDS):
                await self._send(send, COMMENT)
            text = "" if follower.is_gone else follower.new_text()
        return sent

    async def _close(self, send: Send, sent: str) -> None:
        """Sends the last events, if the client is still there."""
        form, follower = self._form, self.run.follower
        if follower.is_gone:
            return
        outcome = self.ended()
        if isinstance(outcome, ApiError):
            await self._send(send, *form.failure(outcome))
        else:
            await self._send(send, *form.closing(sent, outcome))
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _begin(self, send: Send) -> None:
        headers = {
            "content-type": "text/event-stream; charset=utf-8",
            "cache-control": "no-store",
            "x-accel-buffering": "no",  # nginx passes on each event at once
            **self.run.headers,
        }
        raw = [(name.encode(), text.encode()) for name, text in headers.items()]
        await send({"type": "http.response.start", "status": 200, "headers": raw})

    async def _send(self, send: Send, *events: bytes) -> None:
        """Sends events; a client that reads nothing counts as disconnected."""
        with anyio.move_on_after(SEND_SECONDS) as sending:
            await send({"type": "http.response.body", "body": b"".join(events), "more_body": True})
        if sending.cancelled_caught:
            self.run.follower.is_gone = True
