"""An HTTP proxy for programs without a network: an allowlist, then the policy check each host.

It serves `CONNECT` and plain `http://` requests, one per connection. A request to a host that is
not allowed is answered with 403 and the reason, which the program can show.
"""

import hmac
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import anyio
import anyio.abc
import httpx2
from msgspec import Struct

from skerry.infra.sockets import Stream
from skerry.net.connect import TargetRefusedError
from skerry.policy.urls import Refusal, Target, parse_url

Connect = Callable[[str, int, float | None], Awaitable[Stream]]
"""Opens a connection under the policy; `net.connect.CheckedConnect` implements it."""
Admit = Callable[[Target], Awaitable[Refusal | None]]
"""Returns the reason why a host is not allowed, or None; may wait for a person."""

MAX_HEAD: Final = 32 * 1024
"""Bytes of the head of a request."""
HEAD_SECONDS: Final = 15.0
"""Time limit for the head of a request."""
CONNECT_SECONDS: Final = 30.0
"""Time limit for the connection to the server."""
IDLE_SECONDS: Final = 120.0
"""Time without bytes in either direction after which a connection ends."""
_CHUNK: Final = 64 * 1024
_LINE: Final = re.compile(r"([A-Z]{1,20}) (\S{1,8192}) HTTP/1\.[01]")
_HEADER: Final = re.compile(r"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00\r\n]*)")
_HOP: Final = frozenset(
    {"connection", "host", "keep-alive", "proxy-authenticate", "proxy-authorization"}
    | {"proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"}
)
_SECURE_PORT: Final = 443
_CREDENTIALS: Final = "proxy-authorization"
_UNKNOWN_CALLER: Final = "407 Proxy Authentication Required"


class _Request(Struct, frozen=True):
    """Head of a request, and the bytes that were received with it."""

    method: str
    target: Target
    headers: tuple[tuple[str, str], ...]
    buffered: bytes
    length: int
    """Bytes of the body."""


class _RefusedRequestError(Exception):
    """The request is answered with a status and a reason."""

    def __init__(self, status: str, reason: str) -> None:
        self.status = status
        super().__init__(reason)


def _refused(refusal: Refusal) -> _RefusedRequestError:
    return _RefusedRequestError("403 Forbidden", f"{refusal.reason} [{refusal.rule}]")


class Proxy:
    """Serves connections of programs; call `serve` once for each connection."""

    def __init__(
        self,
        connect: Connect,
        admit: Admit,
        *,
        idle_seconds: float = IDLE_SECONDS,
        credentials: tuple[str, str] | None = None,
    ) -> None:
        self._connect = connect
        self._admit = admit
        self._idle_seconds = idle_seconds
        self._authorization = None if credentials is None else _basic(*credentials)
        """Required value of `Proxy-Authorization`; None where only one program can connect."""

    async def serve(self, client: anyio.abc.ByteStream) -> None:
        """Answers the request of a connection and closes the connection; raises nothing.

        It returns when one side has closed, or when no bytes have passed for `idle_seconds`.
        """
        async with client:
            with suppress(
                anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError
            ):
                await self._serve(client)

    async def _serve(self, client: anyio.abc.ByteStream) -> None:
        try:
            with anyio.fail_after(HEAD_SECONDS):
                request = _parsed(*await _head(client))
            self._authenticate(request)
            upstream = await self._opened(request.target)
        except TimeoutError:
            await _answer(client, "408 Request Timeout", "The request did not arrive in time.")
            return
        except _RefusedRequestError as error:
            await _answer(client, error.status, str(error))
            return
        try:
            await self._carry(client, upstream, request)
        finally:
            upstream.close()

    def _authenticate(self, request: _Request) -> None:
        """Raises `_RefusedRequestError` for a request without the required credentials."""
        if self._authorization is None:
            return
        given = [value for name, value in request.headers if name.lower() == _CREDENTIALS]
        values = [value.encode("latin-1") for value in given]
        if len(values) != 1 or not hmac.compare_digest(values[0], self._authorization):
            raise _RefusedRequestError(_UNKNOWN_CALLER, "The proxy requires its credentials.")

    async def _opened(self, target: Target) -> Stream:
        refusal = await self._admit(target)
        if refusal is not None:
            raise _refused(refusal)
        try:
            return await self._connect(target.host, target.port, CONNECT_SECONDS)
        except TargetRefusedError as error:
            raise _refused(error.refusal) from error
        except httpx2.HTTPError as error:
            reason = f"{target.host} cannot be reached: {error}"
            raise _RefusedRequestError("502 Bad Gateway", reason) from error

    async def _carry(
        self, client: anyio.abc.ByteStream, upstream: Stream, request: _Request
    ) -> None:
        """Passes bytes in both directions until one side closes or no bytes pass for the limit."""
        is_tunnel = request.method == "CONNECT"
        if is_tunnel:
            await client.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
            first, remaining = request.buffered, None
        else:
            # Bytes after the body are another request, which could name another host.
            first = _forwarded(request) + request.buffered[: request.length]
            remaining = max(0, request.length - len(request.buffered))
        with suppress(httpx2.HTTPError):
            await upstream.write(first, self._idle_seconds)
            upstream.flush()
            async with anyio.create_task_group() as group:
                watch = _Watch(group.cancel_scope, self._idle_seconds)
                group.start_soon(self._upwards, client, upstream, remaining, watch)
                await self._downwards(client, upstream, watch)
                group.cancel_scope.cancel()

    async def _downwards(
        self, client: anyio.abc.ByteStream, upstream: Stream, watch: "_Watch"
    ) -> None:
        with suppress(httpx2.HTTPError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            while data := await upstream.read(_CHUNK, None):
                watch.note()
                await client.send(data)

    async def _upwards(
        self,
        client: anyio.abc.ByteStream,
        upstream: Stream,
        remaining: int | None,
        watch: "_Watch",
    ) -> None:
        """Passes on the program's bytes: all if `remaining` is None, else that many of a body."""
        try:
            while remaining is None or remaining > 0:
                data = await client.receive(_CHUNK if remaining is None else min(remaining, _CHUNK))
                watch.note()
                if remaining is not None:
                    remaining -= len(data)
                await upstream.write(data, self._idle_seconds)
                upstream.flush()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            watch.cancel()
        except httpx2.HTTPError:
            return  # the response is still passed on


class _Watch:
    """Ends a connection on which no bytes have passed in either direction for `seconds`."""

    def __init__(self, scope: anyio.CancelScope, seconds: float) -> None:
        self._scope = scope
        self._seconds = seconds
        self.note()

    def note(self) -> None:
        """Restarts the time because bytes have passed."""
        self._scope.deadline = anyio.current_time() + self._seconds

    def cancel(self) -> None:
        """Ends the connection."""
        self._scope.cancel()


async def _head(client: anyio.abc.ByteStream) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data and len(data) <= MAX_HEAD:
        data += await client.receive(_CHUNK)
    head, _, buffered = data.partition(b"\r\n\r\n")
    if len(head) > MAX_HEAD:
        reason = f"The head of the request has more than {MAX_HEAD} bytes."
        raise _RefusedRequestError("431 Request Header Fields Too Large", reason)
    return head.decode("latin-1"), buffered


def _parsed(head: str, buffered: bytes) -> _Request:
    line, *rows = head.split("\r\n")
    match = _LINE.fullmatch(line)
    pairs = [_HEADER.fullmatch(row) for row in rows]
    if match is None or None in pairs:
        raise _RefusedRequestError("400 Bad Request", "The head of the request is not valid HTTP.")
    method, address = match.groups()
    is_tunnel = method == "CONNECT"
    target = parse_url(f"https://{address}" if is_tunnel else address)
    if isinstance(target, Refusal):
        raise _refused(target)
    if is_tunnel and (target.path != "/" or address.endswith("/") or ":" not in address):
        raise _RefusedRequestError("400 Bad Request", "CONNECT requires HOST:PORT.")
    if not is_tunnel and target.scheme != "http":
        raise _RefusedRequestError("400 Bad Request", "Use CONNECT for an https URL.")
    headers = tuple((pair[1], pair[2].rstrip()) for pair in pairs if pair is not None)
    return _Request(method, target, headers, buffered, 0 if is_tunnel else _length(headers))


def _length(headers: tuple[tuple[str, str], ...]) -> int:
    names = [name.lower() for name, _ in headers]
    if "transfer-encoding" in names:
        raise _RefusedRequestError("411 Length Required", "Send the body with Content-Length.")
    lengths = {value for name, value in headers if name.lower() == "content-length"}
    if not lengths:
        return 0
    if len(lengths) > 1 or not (text := lengths.pop()).isascii() or not text.isdecimal():
        raise _RefusedRequestError("400 Bad Request", "Content-Length is not one number.")
    return int(text[:18])


def _forwarded(request: _Request) -> bytes:
    """Returns the head for the server, with its `Host`, for a connection with one request."""
    headers = [f"{name}: {value}" for name, value in request.headers if name.lower() not in _HOP]
    first = f"{request.method} {request.target.path} HTTP/1.1"
    connection_headers = [f"Host: {request.target.authority}", "Connection: close"]
    return "\r\n".join((first, *connection_headers, *headers, "", "")).encode("latin-1")


def _basic(name: str, password: str) -> bytes:
    return b"Basic " + b64encode(f"{name}:{password}".encode())


async def _answer(client: anyio.abc.ByteStream, status: str, reason: str) -> None:
    body = f"{reason}\n".encode()
    challenge = 'Proxy-Authenticate: Basic realm="skerry"\r\n' if status == _UNKNOWN_CALLER else ""
    head = (
        f"HTTP/1.1 {status}\r\n{challenge}Content-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\nX-Proxy-Error: denied\r\n\r\n"
    )
    await client.send(head.encode() + body)
