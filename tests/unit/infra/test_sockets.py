"""Connections of the HTTP client: closed ones, slow ones, several addresses."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import httpcore2
import httpx2
import pytest

from skerry.infra.http import PooledTransport
from skerry.infra.sockets import SocketBackend, StaleConnectionError
from tests.support.sockets import listening


async def hang_up(stream: anyio.abc.SocketStream) -> None:
    await stream.aclose()


async def test_a_request_on_a_closed_connection_is_told_apart_from_one_that_was_sent() -> None:
    async with listening(hang_up) as port:
        stream = await SocketBackend().connect_tcp("127.0.0.1", port)
        assert await stream.read(100, timeout=60) == b""
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"GET / HTTP/1.1\r\n\r\n")
        with pytest.raises(StaleConnectionError):
            await stream.read(100, timeout=60)
        await stream.aclose()


async def test_the_end_behind_a_request_that_was_sent_is_no_stale_connection() -> None:
    async def read_and_hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        await stream.aclose()

    async with listening(read_and_hang_up) as port:
        stream = await SocketBackend().connect_tcp("127.0.0.1", port)
        await stream.write(b"GET / HTTP/1.1\r\n")
        assert await stream.read(100, timeout=60) == b""
        with pytest.raises(httpcore2.WriteError):
            await stream.write(b"\r\n")
        assert await stream.read(100, timeout=60) == b""
        await stream.aclose()


async def test_writing_to_a_peer_that_does_not_read_meets_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel alone takes what fits
        stream = await SocketBackend().connect_tcp("127.0.0.1", deaf.getsockname()[1])
        with pytest.raises(httpcore2.WriteTimeout):
            await stream.write(b"x" * 50_000_000, timeout=0.05)
        await stream.aclose()


async def test_an_address_that_refuses_gives_way_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def greet(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(b"hello")

    def two_addresses(_host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        dead = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.99", port))
        return [dead, (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    async with listening(greet) as port:
        monkeypatch.setattr(socket, "getaddrinfo", two_addresses)
        stream = await SocketBackend().connect_tcp("two.invalid", port, timeout=60)
        await stream.write(b"?")
        assert await stream.read(100, timeout=60) == b"hello"
        await stream.aclose()


async def test_a_connection_that_dies_in_the_last_moment_is_replaced() -> None:
    streams: list[Any] = []

    class Unnoticed(SocketBackend):
        """Its streams never say that they were closed, as when it happens right after the look."""

        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,  # noqa: ASYNC109 - the interface is httpcore2's
            local_address: str | None = None,
            socket_options: Iterable[Any] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            stream = await super().connect_tcp(host, port, timeout, local_address, socket_options)
            monkey: Any = stream
            monkey.get_extra_info = lambda _: None
            streams.append(stream)
            return stream

    served: list[anyio.abc.SocketStream] = []

    async def answer(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            served.append(stream)
            with suppress(anyio.EndOfStream, anyio.ClosedResourceError):
                while True:
                    await stream.receive()
                    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    transport = PooledTransport(backend=Unnoticed())
    async with listening(answer) as port, httpx2.AsyncClient(transport=transport) as http:
        await http.get(f"http://127.0.0.1:{port}/")
        await served[0].aclose()
        while not streams[0]._ended:
            await anyio.lowlevel.checkpoint()
        response = await http.post(f"http://127.0.0.1:{port}/", content=b"{}")
        assert (response.text, len(served)) == ("ok", 2)
