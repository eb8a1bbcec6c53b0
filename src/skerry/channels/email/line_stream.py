"""Lines of text over a connection, for IMAP and SMTP, under limits of size and time."""

import base64
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

import anyio
import httpx2
from msgspec import Struct, field

from skerry.channels.email.config import Security
from skerry.infra.sockets import Stream
from skerry.net.connect import TargetRefusedError
from skerry.sdk.channel_errors import PlatformError
from skerry.sdk.channel_host import AccountHttp

CONNECT_SECONDS: Final = 10.0
_READ: Final = 65_536
_MAX_LINE: Final = 1 << 20


class UnreadableError(PlatformError):
    """A response is malformed or too long; a repeated request would get it again."""


class Login(Struct, frozen=True):
    """Name, and a password or an access token."""

    name: str
    password: str
    token: str = ""

    @property
    def xoauth2(self) -> str:
        """Returns the first answer of the SASL mechanism XOAUTH2."""
        text = f"user={self.name}\1auth=Bearer {self.token}\1\1"
        return base64.b64encode(text.encode()).decode()


class MailEndpoint(Struct, frozen=True):
    """One mail server, reached through the network policy of the account."""

    http: AccountHttp
    host: str
    port: int
    security: Security

    @property
    def name(self) -> str:
        """Returns the server's name for people."""
        return f"{self.host}:{self.port}"


class LineStream(Struct):
    """A connection whose lines end with CRLF."""

    stream: Stream
    endpoint: MailEndpoint
    _buffer: bytearray = field(default_factory=bytearray)

    async def line(self) -> bytes:
        """Returns the next line without its end; a cancellation loses no bytes.

        Raises:
            PlatformError: the connection ended, or the line has more than a megabyte.
        """
        searched = 0
        while (end := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            if searched > _MAX_LINE:
                message = f"{self.endpoint.name} sent a line of more than {_MAX_LINE} bytes."
                raise UnreadableError(message)
            await self._fill()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line.removesuffix(b"\r")

    async def exactly(self, count: int) -> bytes:
        """Returns exactly `count` bytes. Raises `PlatformError` when the connection ends before."""
        while len(self._buffer) < count:
            await self._fill()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    async def write(self, data: bytes) -> None:
        """Sends bytes. Raises `PlatformError` when the connection is broken."""
        try:
            await self.stream.write(data, CONNECT_SECONDS)
        except httpx2.HTTPError as error:
            raise PlatformError(f"{self.endpoint.name} closed the connection: {error}") from error
        self.stream.flush()

    async def encrypt(self) -> None:
        """Encrypts the connection from here on.

        Raises:
            PlatformError: the server does not prove its name, or sent data before the encryption,
                which an attacker on the way may have added.
        """
        if self._buffer or self.stream.has_news():
            raise PlatformError(f"{self.endpoint.name} sent text before the start of TLS.")
        await _encrypt(self.stream, self.endpoint)

    async def _fill(self) -> None:
        try:
            data = await self.stream.read(_READ, None)
        except httpx2.HTTPError as error:
            raise PlatformError(f"The connection to {self.endpoint.name} broke: {error}") from error
        if not data:
            raise PlatformError(f"{self.endpoint.name} closed the connection.")
        self._buffer += data


@asynccontextmanager
async def connected(endpoint: MailEndpoint) -> AsyncGenerator[LineStream]:
    """Connects for the block, encrypted from the first byte when that is configured.

    Raises:
        PlatformError: the server cannot be reached, or does not prove its name.
    """
    try:
        stream = await endpoint.http.connect(endpoint.host, endpoint.port, CONNECT_SECONDS)
    except (TargetRefusedError, httpx2.HTTPError) as error:
        message = f"{endpoint.name} cannot be reached: {error}"
        raise PlatformError(message, is_sent=False) from error
    try:
        if endpoint.security is Security.TLS:
            await _encrypt(stream, endpoint)
        yield LineStream(stream, endpoint)
    finally:
        stream.close()


async def _encrypt(stream: Stream, endpoint: MailEndpoint) -> None:
    try:
        await stream.start_tls(ssl.create_default_context(), endpoint.host, CONNECT_SECONDS)
    except httpx2.HTTPError as error:
        message = f"{endpoint.name} does not prove its name by its certificate: {error}"
        raise PlatformError(message, is_sent=False) from error


@contextmanager
def within(seconds: float, endpoint: MailEndpoint) -> Generator[None]:
    """Limits the time of the block. Raises `PlatformError` when it is over."""
    try:
        with anyio.fail_after(seconds):
            yield
    except TimeoutError as error:
        raise PlatformError(f"{endpoint.name} did not answer within {seconds:g} s.") from error
