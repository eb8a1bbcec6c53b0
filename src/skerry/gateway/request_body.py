"""Reads the body of an HTTP request with limits of size and time, or discards it."""

from collections.abc import Mapping
from typing import Final

import anyio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

BODY_SECONDS: Final = 10.0
"""Time limit of a body."""
DISCARD_SECONDS: Final = 2.0
"""Time for which the rest of a refused body is read."""


class RefusedPost(Exception):  # noqa: N818 - an answer
    """The request is refused with an HTTP status."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Returns the body.

    Raises:
        RefusedPost: the body has more than `max_bytes`, or takes longer than `BODY_SECONDS`.
    """
    too_long = RefusedPost(413, f"the body has more than {max_bytes} bytes")
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > max_bytes:
        raise too_long
    body = bytearray()
    with anyio.move_on_after(BODY_SECONDS) as waiting:
        async for chunk in request.stream():
            body += chunk
            if len(body) > max_bytes:
                raise too_long
    if waiting.cancelled_caught:
        raise RefusedPost(408, f"the body took longer than {BODY_SECONDS:.0f} s")
    return bytes(body)


class DiscardingResponse(Response):
    """Response to a request whose body was not read.

    It discards the body for a moment after it was sent: closing the connection while the client
    still sends would reset it, and the client might not receive the response.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends the response, discards the body, and ends the response."""
        del scope
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        with anyio.move_on_after(DISCARD_SECONDS):
            while (await receive()).get("more_body", False):
                pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})
