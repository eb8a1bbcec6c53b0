"""One HTTP/1.1 connection over a stream, parsed by httptools.

httpcore2's connection wraps each step in a trace, a lock and a cancel scope, and needs 400 us of
CPU for a request. This one needs a quarter of that.
"""

import re
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

import httptools
import httpx2
from msgspec import Struct

from skerry.infra.sockets import Stream

_HEAD_LIMIT: Final = 100 * 1024  # bytes of a response's head
_READ = 64 * 1024
_SWITCHED: Final = 101
_OK: Final = 200
_LINE: Final = re.compile(rb"[\w!#-'*+.^`|~-]+ [!-~]+ HTTP/1\.1\r\n")
# A value whose first or last character is a space would be sent without it.
_FIELD: Final = re.compile(rb"[\w!#-'*+.^`|~-]+: (?:[^\0\r\n \t](?:[^\0\r\n]*[^\0\r\n \t])?)?\r\n")


class Head(Struct, frozen=True):
    """Status line and headers of a response."""

    status: int
    reason: bytes
    version: str
    headers: list[tuple[bytes, bytes]]


class PlainRequest(Struct, frozen=True):
    """A request of bytes, which costs a third of the CPU of an `httpx2.Request`."""

    scheme: str
    host: str
    port: int
    method: str
    path: bytes
    """Path and query."""
    fields: list[tuple[bytes, bytes]]
    """Headers with `host`, and with `content-length` where there is a body."""
    body: bytes
    limit: int
    """Limit of the response's body, in bytes."""
    seconds: float
    """Limit of each silence, and of connecting."""


class HttpConnection:
    """Carries one request at a time."""

    __slots__ = ("_answer", "_closes", "_sent", "_silence", "_stream")

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._answer = _Answer(bodiless=True)
        self._silence: float | None = None
        self._sent = False
        self._closes = False

    async def request(self, request: httpx2.Request) -> Head:
        """Sends the request; returns the head of its response.

        Raises:
            StaleConnectionError: the server had closed the connection before anything was sent.
            httpx2.TransportError: any other failure; the connection is closed.
        """
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        self._closes = request.headers.get("connection", "").lower() == "close"
        answer = self._begin(request.method, timeout.get("read"))
        return await self._answered(answer, self._send(request, timeout.get("write")))

    async def exchange(self, plain: PlainRequest) -> Head:
        """Sends a request of bytes; returns the head of its response.

        Raises:
            httpx2.TransportError: as of `request`.
        """
        self._closes = False
        answer = self._begin(plain.method, plain.seconds)
        return await self._answered(answer, self._write(plain))

    def _begin(self, method: str, silence: float | None) -> "_Answer":
        self._silence = silence
        self._sent = False
        self._answer = _Answer(bodiless=method == "HEAD")
        return self._answer

    async def _answered(self, answer: "_Answer", sending: Coroutine[None, None, None]) -> Head:
        try:
            with suppress(httpx2.WriteError):  # a server may answer, and close, in the middle
                await sending
                self._sent = True
            while answer.head is None:
                await self._feed_next()
        except BaseException:
            self.close()
            raise
        return answer.head

    async def _write(self, plain: PlainRequest) -> None:
        head = _joined(plain.method.encode(), plain.path, plain.fields)
        await self._stream.write(head, plain.seconds)
        if plain.body:
            await self._stream.write(plain.body, plain.seconds)

    async def _send(self, request: httpx2.Request, seconds: float | None) -> None:
        write = self._stream.write
        if not isinstance(request.stream, httpx2.AsyncByteStream):
            raise TypeError("the body of a request is sent asynchronously")
        await write(_head_of(request), seconds)
        if "transfer-encoding" in request.headers:
            async for part in request.stream:
                if part:  # an empty chunk would end the body
                    await write(b"%x\r\n%b\r\n" % (len(part), part), seconds)
            await write(b"0\r\n\r\n", seconds)
            return
        remaining = int(request.headers.get("content-length", "0"))
        async for part in request.stream:
            remaining -= len(part)
            if remaining < 0:
                break
            await write(part, seconds)
        if remaining:
            raise httpx2.LocalProtocolError(
                "the length of the body differs from the content-length"
            )

    async def part(self) -> bytes | None:
        """Returns the bytes of the body that the next network read brings; None at the end.

        Raises:
            httpx2.TransportError: the body is incomplete.
        """
        answer = self._answer
        while not answer.body:
            if answer.complete:
                return None
            await self._feed_next()
        return answer.take_body()

    async def _feed_next(self) -> None:
        data = await self._stream.read(_READ, self._silence)
        if data:
            self._answer.feed(data)
        else:
            self._answer.end()

    def release(self) -> bool:
        """Ends the present request; returns True when the connection can carry another.

        Closes the connection otherwise: the response is unread, or one side wants to close.
        """
        answer = self._answer
        if self._sent and not self._closes and answer.reusable and not answer.body:
            return True
        self.close()
        return False

    def is_dead(self) -> bool:
        """Returns True when the server closed the idle connection or sent unexpected bytes."""
        return self._stream.has_news()

    def close(self) -> None:
        """Closes at once."""
        self._stream.close()


class _Answer:
    """One response while it arrives; the parser calls the methods `on_*`.

    A `bodiless` response, to a HEAD, has no body even where its head has a length.
    """

    __slots__ = (
        "_barren",
        "_bodiless",
        "_headers",
        "_parser",
        "_reason",
        "body",
        "complete",
        "head",
        "reusable",
    )

    def __init__(self, *, bodiless: bool) -> None:
        self._bodiless = bodiless
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._barren = 0  # bytes since the last end of a head or part of a body
        self.head: Head | None = None
        self.body: list[bytes] = []
        self.complete = False
        self.reusable = False

    def feed(self, data: bytes) -> None:
        """Parses received bytes.

        Raises:
            httpx2.RemoteProtocolError: they break the protocol, or the head is too long.
        """
        if self._parser is None:
            return
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            if not self.complete:  # bytes after a whole response are ignored
                raise httpx2.RemoteProtocolError(str(error.__context__ or error)) from error
        if self._barren > _HEAD_LIMIT:
            raise httpx2.RemoteProtocolError(f"a head of more than {_HEAD_LIMIT} bytes")

    def end(self) -> None:
        """Handles the end of the stream.

        Raises:
            httpx2.RemoteProtocolError: the response is incomplete.
        """
        if self.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection without a response")
        if not self.complete and _has_length(self.head.headers):
            raise httpx2.RemoteProtocolError("the server closed the connection within a response")
        self._over(reusable=False)

    def take_body(self) -> bytes:
        """Returns and removes the received part of the body."""
        parts, self.body = self.body, []
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def on_message_begin(self) -> None:
        self._headers = []
        self._reason = b""
        if self.complete:  # a second response without a request
            self.reusable = False

    def on_status(self, reason: bytes) -> None:
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value.strip()))

    def on_headers_complete(self) -> None:
        if self._parser is None:
            return
        status = self._parser.get_status_code()
        if status == _SWITCHED:
            raise ValueError("the server switched to another protocol without a request")
        if status < _OK:
            return  # the final response follows
        version = self._parser.get_http_version()
        self.head = Head(status, self._reason, version, self._headers)
        self._barren = 0
        if self._bodiless:
            self._over(reusable=self._parser.should_keep_alive())

    def on_body(self, data: bytes) -> None:
        self._barren = 0
        if self.complete:
            self.reusable = False
        else:
            self.body.append(data)

    def on_message_complete(self) -> None:
        if self.head is not None and self._parser is not None:
            self._over(reusable=self._parser.should_keep_alive())

    def _over(self, *, reusable: bool) -> None:
        self.complete, self.reusable = True, reusable
        self._parser = None  # breaks a reference cycle


def _head_of(request: httpx2.Request) -> bytes:
    """Returns the head of a request as bytes.

    Raises:
        httpx2.LocalProtocolError: the head contains a character that would change its meaning.
    """
    return _joined(request.method.encode(), request.url.raw_path, request.headers.raw)


def _joined(method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    line = b"%b %b HTTP/1.1\r\n" % (method, path)
    fields = [b"%b: %b\r\n" % pair for pair in headers]
    if not _LINE.fullmatch(line) or not all(map(_FIELD.fullmatch, fields)):
        raise httpx2.LocalProtocolError("the head of the request contains a forbidden character")
    return b"".join([line, *fields, b"\r\n"])


def _has_length(headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns True when the headers define the end of the body: a length, or chunks."""
    return any(
        (low := name.lower()) == b"content-length"
        or (low == b"transfer-encoding" and value.lower().endswith(b"chunked"))
        for name, value in headers
    )
