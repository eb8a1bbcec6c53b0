"""Reads the body of an HTTP request with limits of size and time."""

from collections.abc import Mapping
from typing import Final

import anyio
from starlette.requests import Request

BODY_SECONDS: Final = 10.0
"""Time limit of a body."""


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
