"""The HTTP server of the relayer: heads that are slow or long end their connection."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.abc
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from skerry_relayer import gate, listen
from skerry_relayer.app import make_app
from skerry_relayer.listen import HEAD_BYTES, HttpProtocol, Listener, bind
from tests.support.relayer import Lab


async def length(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


@pytest.fixture
async def port() -> AsyncIterator[int]:
    app = Starlette(routes=[Route("/", length, methods=["GET", "POST"])])
    async with Listener(app, bind("127.0.0.1", 0)) as listener:
        yield listener.port


async def ended(stream: anyio.abc.SocketStream) -> bytes:
    """Returns the bytes up to the end of the connection."""
    received = b""
    with anyio.fail_after(60):
        while True:
            try:
                received += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return received


async def test_requests_on_one_connection_are_answered(port: int) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc")
        with anyio.fail_after(60):
            first = await stream.receive()
        assert first.startswith(b"HTTP/1.1 200")
        await stream.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        second = await ended(stream)
    assert second.startswith(b"HTTP/1.1 200")
    assert b"server:" not in second.lower()


async def test_an_answer_does_not_wait_for_the_client_to_confirm_its_head(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: list[int] = []

    def note(connection: HttpProtocol, transport: asyncio.Transport) -> None:
        side = transport.get_extra_info("socket")
        options.append(side.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(connection, transport)

    made = HttpProtocol.connection_made
    monkeypatch.setattr(HttpProtocol, "connection_made", note)
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n")
        assert (await ended(stream)).startswith(b"HTTP/1.1 200")
    assert options == [1]


async def test_a_long_head_ends_the_connection(port: int) -> None:
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(b"GET / HTTP/1.1\r\nx: " + b"a" * HEAD_BYTES + b"\r\ny: z\r\n")
        assert await ended(stream) == b""


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nhost"], ids=["nothing", "half"])
async def test_a_slow_head_ends_the_connection(
    port: int, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    monkeypatch.setattr(listen, "HEAD_SECONDS", 0.05)
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        if begun:
            await stream.send(begun)
        assert await ended(stream) == b""


async def test_connections_have_an_upper_number(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listen, "MAX_CONNECTIONS", 1)
    async with await anyio.connect_tcp("127.0.0.1", port) as first:
        await first.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        with anyio.fail_after(60):
            assert (await first.receive()).startswith(b"HTTP/1.1 200")
        async with await anyio.connect_tcp("127.0.0.1", port) as second:
            assert await ended(second) == b""


async def test_a_body_that_does_not_arrive_in_time_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.05)
    lab = Lab(tmp_path)
    headers = lab.me.headers("POST", "/api/stats", b"{}", now=lab.clock())
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with (
        lab.http,
        Listener(make_app(lab.relayer), bind("127.0.0.1", 0)) as listener,
        await anyio.connect_tcp("127.0.0.1", listener.port) as stream,
    ):
        await stream.send(
            f"POST /api/stats HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n{head}\r\n{{".encode()
        )
        with anyio.fail_after(60):
            answer = await stream.receive()
    assert answer.startswith(b"HTTP/1.1 408")
    lab.relayer.nonces.close()
