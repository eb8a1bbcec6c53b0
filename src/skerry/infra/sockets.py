"""TCP and TLS streams for the HTTP client, on asyncio's transports.

A stream that pauses and resumes its socket and opens a cancel scope for every read, as httpcore2's
does, pays 45 us of CPU for each chunk of a model's answer. This one leaves the socket readable and
keeps a buffer.
"""

import asyncio
import ipaddress
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from itertools import chain, zip_longest

import anyio
import httpx2

_BUFFER = 256 * 1024
_UNSENT = 64 * 1024
_NEXT_ADDRESS = 0.25  # seconds that one address has before the next is tried too (RFC 8305)


class StaleConnectionError(httpx2.ReadError):
    """The server had closed the kept connection before anything of the request was sent."""


async def connect(host: str, port: int, seconds: float | None) -> "Stream":
    """Returns a stream to the fastest of the host's addresses.

    Raises:
        httpx2.ConnectTimeout: none answered within `seconds`.
        httpx2.ConnectError: all refused, or the name has no address.
    """
    try:
        with anyio.fail_after(seconds):
            return await _race(await _resolve(host, port))
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"no connection within {seconds} s") from error
    except OSError as error:
        raise httpx2.ConnectError(str(error)) from error


async def connect_addresses(addresses: Iterable[str], port: int, seconds: float | None) -> "Stream":
    """Returns a stream to the fastest of these addresses; resolves no name.

    Raises:
        httpx2.ConnectTimeout: none answered within `seconds`.
        httpx2.ConnectError: all refused, or the other side has an address that is none of them.
    """
    targets = [ipaddress.ip_address(address) for address in addresses]
    try:
        with anyio.fail_after(seconds):
            stream = await _race([(str(address), port) for address in targets])
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"no connection within {seconds} s") from error
    except OSError as error:
        raise httpx2.ConnectError(str(error)) from error
    if ipaddress.ip_address(stream.peer) not in targets:
        stream.close()
        raise httpx2.ConnectError("the connection leads to another address")
    return stream


Connect = Callable[[str, int, float | None], Awaitable["Stream"]]
"""Opens a connection as `connect` does."""


class Stream(asyncio.Protocol):
    """One connection, with one reader at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._transport: asyncio.Transport
        self._received = bytearray()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._readable: asyncio.Future[None] | None = None
        self._writable: asyncio.Future[None] | None = None
        self._reading = True
        self._writing = True
        self._ended = False
        self._error: Exception | None = None
        self._sent = False  # something was sent since something was received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Notes the transport."""
        # A stream's transport is always a full one, though uvloop's does not inherit from it.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Buffers received bytes; stops reading when there are many."""
        self._received += data
        if len(self._received) > _BUFFER and self._reading:
            self._reading = False
            self._transport.pause_reading()
        _wake(self._readable)

    def eof_received(self) -> None:
        """Notes the end."""
        self._ended = True
        _wake(self._readable)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notes the end, and why."""
        self._ended = True
        self._error = exc
        _wake(self._readable)
        _wake(self._writable)

    @property
    def peer(self) -> str:
        """Returns the address of the other side."""
        return str(self._transport.get_extra_info("peername")[0])

    def pause_writing(self) -> None:
        """Lets writers wait."""
        self._writing = False

    def resume_writing(self) -> None:
        """Lets writers go on."""
        self._writing = True
        _wake(self._writable)

    async def read(self, max_bytes: int, seconds: float | None) -> bytes:
        """Returns the received bytes, at most `max_bytes`; empty at the end.

        Raises:
            httpx2.ReadTimeout: nothing arrived for `seconds`.
            StaleConnectionError: see there.
            httpx2.ReadError: the connection broke.
        """
        self._send()
        while not self._received:
            if self._ended:
                return self._end()
            self._readable = self._loop.create_future()
            await self._wait(self._readable, seconds, httpx2.ReadTimeout)
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        self._sent = False
        if not self._reading and len(self._received) <= _BUFFER:
            self._reading = True
            self._transport.resume_reading()
        return data

    def _end(self) -> bytes:
        if self._unsent and not self._sent:
            raise StaleConnectionError("the server closed the connection before the request")
        if self._error is not None:
            raise httpx2.ReadError(str(self._error)) from self._error
        return b""

    async def write(self, buffer: bytes, seconds: float | None) -> None:
        """Takes `buffer`; it is sent with the next read, or when the buffer is large.

        So the head and the body of a request are one system call. Waits while the kernel takes no
        more.

        Raises:
            httpx2.WriteTimeout: the other side took nothing for `seconds`.
            httpx2.WriteError: the connection is closed; `read` gives the reason.
        """
        self._unsent.append(buffer)
        self._unsent_bytes += len(buffer)
        if self._ended:
            raise httpx2.WriteError("the connection is closed")
        if self._unsent_bytes < _UNSENT:
            return
        self._send()
        while not self._writing and not self._ended:
            self._writable = self._loop.create_future()
            await self._wait(self._writable, seconds, httpx2.WriteTimeout)
        if self._ended:
            raise httpx2.WriteError("the connection broke while it was written to")

    def flush(self) -> None:
        """Sends what was written; for who writes while somebody else reads."""
        self._send()

    def _send(self) -> None:
        if self._unsent and not self._ended:
            self._transport.writelines(self._unsent)
            self._unsent, self._unsent_bytes = [], 0
            self._sent = True

    async def _wait(
        self,
        change: asyncio.Future[None],
        seconds: float | None,
        late: type[httpx2.TimeoutException],
    ) -> None:
        if seconds is None:
            return await change
        timer = self._loop.call_later(seconds, _expire, change, late, seconds)
        try:
            await change
        finally:
            timer.cancel()

    def close(self) -> None:
        """Closes at once; what was not sent is dropped."""
        self._ended = True
        self._transport.abort()

    async def start_tls(self, context: ssl.SSLContext, host: str, seconds: float | None) -> None:
        """Encrypts what follows, when the other side proves to be `host`.

        Raises:
            httpx2.ConnectError: it did not, or not within `seconds`; the stream is closed.
        """
        try:
            transport = await self._loop.start_tls(
                self._transport,
                self,
                context,
                server_hostname=host,
                ssl_handshake_timeout=seconds,
            )
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, OSError):  # ssl.SSLError and time-outs are OSErrors
                raise httpx2.ConnectError(str(error)) from error
            raise
        self._transport = transport or self._transport

    def has_news(self) -> bool:
        """Returns whether something arrived, or the end; either ends an idle connection."""
        return self._ended or bool(self._received) or self._has_unread()

    def _has_unread(self) -> bool:
        """Returns whether the kernel has something that the event loop did not bring yet."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _expire(
    waiter: asyncio.Future[None], late: type[httpx2.TimeoutException], seconds: float
) -> None:
    if not waiter.done():
        waiter.set_exception(late(f"silent for {seconds:g} s"))


async def _resolve(host: str, port: int) -> list[tuple[str, int]]:
    """Returns the addresses to try, IPv6 and IPv4 in turn."""
    try:
        return [(str(ipaddress.ip_address(host)), port)]
    except ValueError:
        pass
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    by_family = [
        [info[4][0] for info in addresses if info[0] is family]
        for family in (socket.AF_INET6, socket.AF_INET)
    ]
    mixed = chain.from_iterable(zip_longest(*by_family))
    return [(str(address), port) for address in mixed if address is not None]


async def _race(addresses: list[tuple[str, int]]) -> Stream:
    """Returns the first stream that connects; each address gets a head start on the next."""
    loop = asyncio.get_running_loop()
    won: list[Stream] = []
    failed: list[OSError] = []

    async def attempt(address: tuple[str, int], tried: anyio.Event) -> None:
        try:
            _, stream = await loop.create_connection(lambda: Stream(loop), *address)
            won.append(stream)
            group.cancel_scope.cancel()
        except OSError as error:
            failed.append(error)
        tried.set()

    try:
        async with anyio.create_task_group() as group:
            for address in addresses:
                tried = anyio.Event()
                group.start_soon(attempt, address, tried)
                with anyio.move_on_after(_NEXT_ADDRESS):
                    await tried.wait()
    except BaseException:
        for stream in won:
            stream.close()
        raise
    for stream in won[1:]:
        stream.close()
    if not won:
        raise failed[0] if failed else OSError("the host has no address")
    return won[0]
