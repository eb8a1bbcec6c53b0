"""TCP and TLS streams for the HTTP client, on asyncio's transports.

httpcore2's stream pauses and resumes its socket and opens a cancel scope for every read, which
costs 45 us of CPU for each chunk of a model's answer. This stream keeps reading into a buffer.
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
_NEXT_ADDRESS = 0.25  # seconds before the next address is tried in parallel (RFC 8305)


class StaleConnectionError(httpx2.ReadError):
    """The server had closed the idle connection before anything of the request was sent."""


async def connect(host: str, port: int, seconds: float | None) -> "Stream":
    """Resolves the host and returns a stream to the first address that answers.

    Raises:
        httpx2.ConnectTimeout: no address answered within `seconds`.
        httpx2.ConnectError: all addresses refused, or the name has none.
    """
    try:
        with anyio.fail_after(seconds):
            return await _race(await _resolve(host, port))
    except TimeoutError as error:
        raise httpx2.ConnectTimeout(f"no connection within {seconds} s") from error
    except OSError as error:
        raise httpx2.ConnectError(str(error)) from error


async def connect_addresses(addresses: Iterable[str], port: int, seconds: float | None) -> "Stream":
    """Returns a stream to the first of these IP addresses that answers; resolves no name.

    Raises:
        httpx2.ConnectTimeout: no address answered within `seconds`.
        httpx2.ConnectError: all refused, or the peer has an address that is not listed.
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
"""Opens a stream to a host and port within a number of seconds, as `connect` does."""


class Stream(asyncio.Protocol):
    """One connection; at most one task may read at a time."""

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
        self._sent = False  # bytes were sent since the last were received

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Stores the transport."""
        # The transport of a stream is an asyncio.Transport; uvloop's does not inherit from it.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Buffers received bytes; pauses the transport above 256 KiB."""
        self._received += data
        if len(self._received) > _BUFFER and self._reading:
            self._reading = False
            self._transport.pause_reading()
        _wake(self._readable)

    def eof_received(self) -> None:
        """Records the end of the input."""
        self._ended = True
        _wake(self._readable)

    def connection_lost(self, exc: Exception | None) -> None:
        """Records the end and its error."""
        self._ended = True
        self._error = exc
        _wake(self._readable)
        _wake(self._writable)

    @property
    def peer(self) -> str:
        """Returns the IP address of the peer."""
        return str(self._transport.get_extra_info("peername")[0])

    def pause_writing(self) -> None:
        """Blocks `write` while the send buffer is full."""
        self._writing = False

    def resume_writing(self) -> None:
        """Unblocks `write`."""
        self._writing = True
        _wake(self._writable)

    async def read(self, max_bytes: int, seconds: float | None) -> bytes:
        """Sends the written bytes, then returns received bytes, at most `max_bytes`.

        Returns an empty value at the end of the input.

        Raises:
            httpx2.ReadTimeout: nothing arrived for `seconds`.
            StaleConnectionError: the peer had closed before anything was sent.
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
        """Queues `buffer`; sends at the next `read` or `flush`, or from 64 KiB of queued bytes.

        So the head and the body of a request need one system call. Waits while the send buffer is
        full.

        Raises:
            httpx2.WriteTimeout: the peer accepted nothing for `seconds`.
            httpx2.WriteError: the connection is closed; `read` raises the reason.
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
            raise httpx2.WriteError("the connection broke during a write")

    def flush(self) -> None:
        """Sends the queued bytes at once, for a task that writes while another reads."""
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
        """Closes at once; drops unsent bytes."""
        self._ended = True
        self._transport.abort()

    async def start_tls(self, context: ssl.SSLContext, host: str, seconds: float | None) -> None:
        """Starts TLS on the stream, and verifies the certificate of `host`.

        Raises:
            httpx2.ConnectError: the handshake failed or took more than `seconds`; the stream is
                closed.
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
        """Returns True when bytes or the end arrived; an idle connection is unusable then."""
        return self._ended or bool(self._received) or self._has_unread()

    def _has_unread(self) -> bool:
        """Returns True when the kernel has input that the event loop has not delivered."""
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
    """Returns the addresses to try, IPv6 and IPv4 alternating."""
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
    """Returns the first stream that connects; each address starts 0.25 s after the one before."""
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
