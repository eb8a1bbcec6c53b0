"""TCP and TLS streams for the HTTP client, on asyncio's transports.

httpcore2's own backend pauses and resumes the socket and opens a cancel scope for every read: 45 us
of CPU for each chunk of a model's answer. This one leaves the socket readable and keeps a buffer.
"""

import asyncio
import ipaddress
import select
import socket
import ssl
from collections.abc import Iterable
from itertools import chain, zip_longest
from typing import Any

import anyio
import httpcore2

_BUFFER = 256 * 1024
_UNSENT = 64 * 1024
_NEXT_ADDRESS = 0.25  # seconds that one address has before the next is tried too (RFC 8305)


class StaleConnectionError(httpcore2.ReadError):
    """The server had closed the kept connection before anything of the request was sent."""


class SocketBackend(httpcore2.AsyncNetworkBackend):
    """Opens TCP connections; the fastest of the host's addresses wins."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore2's
        local_address: str | None = None,  # noqa: ARG002 - the client never asks for one
        socket_options: Iterable[Any] | None = None,  # noqa: ARG002 - as above
    ) -> httpcore2.AsyncNetworkStream:
        """Return a connected stream. Raises `ConnectError` or `ConnectTimeout` of httpcore2."""
        try:
            with anyio.fail_after(timeout):
                return await _race(await _resolve(host, port))
        except TimeoutError as error:
            raise httpcore2.ConnectTimeout(f"no connection within {timeout} s") from error
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error


class _Stream(asyncio.Protocol, httpcore2.AsyncNetworkStream):
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
        self._sent = False  # something was written since something was received
        self._stale = False  # it was not, and then a write came too late

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A stream's transport is always a full one, though uvloop's does not inherit from it.
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) > _BUFFER and self._reading:
            self._reading = False
            self._transport.pause_reading()
        _wake(self._readable)

    def eof_received(self) -> None:
        self._ended = True
        _wake(self._readable)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._error = exc
        _wake(self._readable)
        _wake(self._writable)

    def pause_writing(self) -> None:
        self._writing = False

    def resume_writing(self) -> None:
        self._writing = True
        _wake(self._writable)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return what has come, at most `max_bytes`; empty at the end."""
        self._send()
        while not self._received:
            if self._ended:
                return self._end()
            self._readable = self._loop.create_future()
            await self._wait(self._readable, timeout, httpcore2.ReadTimeout)
        data = bytes(self._received[:max_bytes])
        del self._received[:max_bytes]
        self._sent = False
        if not self._reading and len(self._received) <= _BUFFER:
            self._reading = True
            self._transport.resume_reading()
        return data

    def _end(self) -> bytes:
        if self._stale:
            raise StaleConnectionError("the server closed the connection before the request")
        if self._error is not None:
            raise httpcore2.ReadError(str(self._error)) from self._error
        return b""

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Take `buffer`; it goes out with the next read, or when much has gathered.

        So the head and the body of a request are one system call. Waits while the kernel takes no
        more.
        """
        if self._ended:
            self._stale = not self._sent
            raise httpcore2.WriteError("the connection is closed")
        self._unsent.append(buffer)
        self._unsent_bytes += len(buffer)
        if self._unsent_bytes < _UNSENT:
            return
        self._send()
        while not self._writing and not self._ended:
            self._writable = self._loop.create_future()
            await self._wait(self._writable, timeout, httpcore2.WriteTimeout)
        if self._ended:
            raise httpcore2.WriteError("the connection broke while it was written to")

    def _send(self) -> None:
        if self._unsent and not self._ended:
            self._transport.writelines(self._unsent)
            self._unsent, self._unsent_bytes = [], 0
            self._sent = True

    async def _wait(
        self,
        change: asyncio.Future[None],
        seconds: float | None,
        late: type[httpcore2.TimeoutException],
    ) -> None:
        if seconds is None:
            return await change
        timer = self._loop.call_later(seconds, _expire, change, late, seconds)
        try:
            await change
        finally:
            timer.cancel()

    async def aclose(self) -> None:
        """Close at once; what was not sent is dropped."""
        self._ended = True
        self._transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore2.AsyncNetworkStream:
        """Return this stream, encrypted. Raises `ConnectError` of httpcore2."""
        try:
            transport = await self._loop.start_tls(
                self._transport,
                self,
                ssl_context,
                server_hostname=server_hostname,
                ssl_handshake_timeout=timeout,
            )
        except BaseException as error:
            self._transport.abort()
            if isinstance(error, OSError):  # ssl.SSLError and time-outs are OSErrors
                raise httpcore2.ConnectError(str(error)) from error
            raise
        self._transport = transport or self._transport
        return self

    def get_extra_info(self, info: str) -> Any:
        """Return whether it is readable (of an idle connection: closed), or the TLS object."""
        if info == "is_readable":
            return self._ended or bool(self._received) or self._has_unread()
        return self._transport.get_extra_info(info)

    def _has_unread(self) -> bool:
        """Return whether the kernel has something that the event loop did not bring yet."""
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return bool(poll.poll(0))


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


def _expire(
    waiter: asyncio.Future[None], late: type[httpcore2.TimeoutException], seconds: float
) -> None:
    if not waiter.done():
        waiter.set_exception(late(f"silent for {seconds:g} s"))


async def _resolve(host: str, port: int) -> list[tuple[str, int]]:
    """Return the addresses to try, IPv6 and IPv4 in turn."""
    try:
        return [(str(ipaddress.ip_address(host)), port)]
    except ValueError:
        pass
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    by_family = [
        [info[4][0] for info in found if info[0] is family]
        for family in (socket.AF_INET6, socket.AF_INET)
    ]
    mixed = chain.from_iterable(zip_longest(*by_family))
    return [(str(address), port) for address in mixed if address is not None]


async def _race(addresses: list[tuple[str, int]]) -> _Stream:
    """Return the first stream that connects; each address gets a head start on the next."""
    loop = asyncio.get_running_loop()
    won: list[_Stream] = []
    failed: list[OSError] = []

    async def attempt(address: tuple[str, int], tried: anyio.Event) -> None:
        try:
            _, stream = await loop.create_connection(lambda: _Stream(loop), *address)
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
            await stream.aclose()
        raise
    for stream in won[1:]:
        await stream.aclose()
    if not won:
        raise failed[0] if failed else OSError("the host has no address")
    return won[0]
