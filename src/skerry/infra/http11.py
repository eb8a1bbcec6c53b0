"""One HTTP/1.1 connection: httptools parses the bytes, a stream transports them.

httpcore2's own connection wraps each step in a trace, a lock and a cancel scope; a request that
costs it 400 us of CPU costs a quarter of that here.
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
    """A request whose parts are bytes: a third of the CPU of one of httpx2's."""

    scheme: str
    host: str
    port: int
    method: str
    path: bytes
    """Path and query."""
    fields: list[tuple[bytes, bytes]]
    """Headers, among them `host`, and `content-length` where there is a body."""
    body: bytes
    limit: int
    """Bytes that the response may have."""
    seconds: float
    """Limit of silence, and of the connecting."""


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
            StaleConnectionError: the server had closed before anything was sent.
            httpx2.TransportError: anything else went wrong; the connection is closed then.
        """
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        self._closes = request.headers.get("connection", "").lower() == "close"
        answer = self._begin(request.method, timeout.get("read"))
        return await self._answered(answer, self._send(request, timeout.get("write")))

    async def exchange(self, plain: PlainRequest) -> Head:
        """Sends a request whose parts are bytes; returns the head of its response.

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
                await self._more()
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
                if part:  # an empty one would end the body
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
        """Returns the next part of the response's body; None at its end, however often it is asked.

        What one network read brought is one part.

        Raises:
            httpx2.TransportError: the body is incomplete.
        """
        answer = self._answer
        while not answer.body:
            if answer.complete:
                return None
            await self._more()
        return answer.take_body()

    async def _more(self) -> None:
        data = await self._stream.read(_READ, self._silence)
        if data:
            self._answer.feed(data)
        else:
            self._answer.end()

    def release(self) -> bool:
        """Ends the present request; returns whether the connection can carry another.

        It cannot when the response was not read to its end, or when one side wants to close.
        """
        answer = self._answer
        if self._sent and not self._closes and answer.reusable and not answer.body:
            return True
        self.close()
        return False

    def is_dead(self) -> bool:
        """Returns whether the server closed the idle connection, or sent something unasked."""
        return self._stream.has_news()

    def close(self) -> None:
        """Closes at once."""
        self._stream.close()


class _Answer:
    """One response while it arrives; the parser calls the methods with `on_`.

    A `bodiless` one has no body, though its head may tell the length of one.
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
        self._barren = 0  # bytes since the last that ended a head or were a body's
        self.head: Head | None = None
        self.body: list[bytes] = []
        self.complete = False
        self.reusable = False

    def feed(self, data: bytes) -> None:
        """Takes received bytes.

        Raises:
            httpx2.RemoteProtocolError: it breaks the rules.
        """
        if self._parser is None:
            return
        self._barren += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.reusable = False
            if not self.complete:  # what follows a whole response is not read
                raise httpx2.RemoteProtocolError(str(error.__context__ or error)) from error
        if self._barren > _HEAD_LIMIT:
            raise httpx2.RemoteProtocolError(f"a head of more than {_HEAD_LIMIT} bytes")

    def end(self) -> None:
        """Takes the end of the stream.

        Raises:
            httpx2.RemoteProtocolError: the response is not whole.
        """
        if self.head is None:
            raise httpx2.RemoteProtocolError("the server closed the connection unanswered")
        if not self.complete and _tells_its_end(self.head.headers):
            raise httpx2.RemoteProtocolError("the server closed the connection in mid-answer")
        self._over(reusable=False)

    def take_body(self) -> bytes:
        """Returns the received part of the body, and drops it."""
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
            raise ValueError("the server switched to another protocol unasked")
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
        self._parser = None  # it refers to this object: a cycle


def _head_of(request: httpx2.Request) -> bytes:
    """Returns the head of a request as bytes.

    Raises:
        httpx2.LocalProtocolError: a part of it would be read as something else.
    """
    return _joined(request.method.encode(), request.url.raw_path, request.headers.raw)


def _joined(method: bytes, path: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    line = b"%b %b HTTP/1.1\r\n" % (method, path)
    fields = [b"%b: %b\r\n" % pair for pair in headers]
    if not _LINE.fullmatch(line) or not all(map(_FIELD.fullmatch, fields)):
        raise httpx2.LocalProtocolError("a character that no head of a request can have")
    return b"".join([line, *fields, b"\r\n"])


def _tells_its_end(headers: list[tuple[bytes, bytes]]) -> bool:
    """Returns whether a response with these headers ends before its connection does."""
    return any(
        (low := name.lower()) == b"content-length"
        or (low == b"transfer-encoding" and value.lower().endswith(b"chunked"))
        for name, value in headers
    )
