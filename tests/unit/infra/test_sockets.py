"""Connections of the HTTP client: closed ones, slow ones, several addresses."""

import socket
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import httpx2
import pytest

from skerry.infra.http import PooledTransport
from skerry.infra.sockets import StaleConnectionError, Stream, connect, connect_addresses
from tests.support.sockets import listening


async def hang_up(stream: anyio.abc.SocketStream) -> None:
    await stream.aclose()


async def test_a_request_on_a_closed_connection_is_told_apart_from_one_that_was_sent() -> None:
    async with listening(hang_up) as port:
        stream = await connect("127.0.0.1", port, 60)
        assert await stream.read(100, 60) == b""
        with pytest.raises(httpx2.WriteError):
            await stream.write(b"GET / HTTP/1.1\r\n\r\n", 60)
        with pytest.raises(StaleConnectionError):
            await stream.read(100, 60)
        stream.close()


async def test_the_end_behind_a_request_that_was_sent_is_no_stale_connection() -> None:
    async def read_and_hang_up(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        await stream.aclose()

    async with listening(read_and_hang_up) as port:
        stream = await connect("127.0.0.1", port, 60)
        await stream.write(b"GET / HTTP/1.1\r\n", 60)
        assert await stream.read(100, 60) == b""
        with pytest.raises(httpx2.WriteError):
            await stream.write(b"\r\n", 60)
        assert await stream.read(100, 60) == b""
        stream.close()


async def test_writing_to_a_peer_that_does_not_read_meets_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # the kernel alone takes what fits
        stream = await connect("127.0.0.1", deaf.getsockname()[1], 60)
        with pytest.raises(httpx2.WriteTimeout):
            await stream.write(b"x" * 50_000_000, 0.05)
        stream.close()


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
        stream = await connect("two.invalid", port, 60)
        await stream.write(b"?", 60)
        assert await stream.read(100, 60) == b"hello"
        stream.close()


async def test_a_connection_that_dies_in_the_last_moment_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    streams: list[Stream] = []

    async def unnoticed(host: str, port: int, seconds: float | None) -> Stream:
        """Returns one that never says that it was closed, as when it happens after the look."""
        stream = await connect(host, port, seconds)
        monkeypatch.setattr(stream, "has_news", lambda: False)
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

    transport = PooledTransport(connect=unnoticed)
    async with listening(answer) as port, httpx2.AsyncClient(transport=transport) as http:
        await http.get(f"http://127.0.0.1:{port}/")
        await served[0].aclose()
        while not streams[0]._ended:
            await anyio.lowlevel.checkpoint()
        response = await http.post(f"http://127.0.0.1:{port}/", content=b"{}")
        assert (response.text, len(served)) == ("ok", 2)


async def test_a_connection_whose_other_end_is_not_the_address_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with listening(hang_up) as port:
        stream = await connect_addresses(["127.0.0.1"], port, 60)
        assert stream.peer == "127.0.0.1"
        stream.close()
        monkeypatch.setattr(Stream, "peer", "127.0.0.2")
        with pytest.raises(httpx2.ConnectError, match="another address"):
            await connect_addresses(["127.0.0.1"], port, 60)


async def test_a_name_is_no_address() -> None:
    with pytest.raises(ValueError, match="localhost"):
        await connect_addresses(["localhost"], 1, 60)
