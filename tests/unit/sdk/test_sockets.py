"""Connections of plugins: to servers that the owner named, line by line, within limits."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from skerry.model.errors import PluginError
from skerry.policy.network import NetworkRules
from skerry.sdk.sockets import MAX_LINE, ConnectionEndedError, PluginSockets

Serve = Callable[[anyio.abc.SocketStream], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve) -> AsyncGenerator[str]:
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(  # noqa: S610 - anyio's, not Django's
        anyio.abc.SocketAttribute.local_port
    )

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await serve(stream)

    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield f"tcp://127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


def sockets(*addresses: str) -> PluginSockets:
    return PluginSockets(NetworkRules, {"servers": list(addresses)})


async def test_lines_arrive_whole_and_what_is_written_is_sent() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.send(b"one\r\ntw")
        await stream.send(await stream.receive())
        await stream.send(b"three")

    async with server(serve) as address:
        connection = await sockets(address).open(address)
        with anyio.fail_after(60):
            assert await connection.read_line(30) == b"one"
            await connection.write(b"o\n")
            assert await connection.read_line(30) == b"two"
            with pytest.raises(ConnectionEndedError, match="closed"):
                await connection.read_line(30)
        connection.close()


async def test_a_silent_server_gives_nothing_and_the_connection_stays() -> None:
    spoken = anyio.Event()

    async def serve(stream: anyio.abc.SocketStream) -> None:
        await spoken.wait()
        await stream.send(b"late\n")
        await stream.receive()

    async with server(serve) as address:
        connection = await sockets(address).open(address)
        with anyio.fail_after(60):
            assert await connection.read_line(0.01) is None
            spoken.set()
            assert await connection.read_line(30) == b"late"
        connection.close()


async def test_a_line_without_an_end_is_given_up() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.send(b"x" * (MAX_LINE + 2))
        await stream.receive()

    async with server(serve) as address:
        connection = await sockets(address).open(address)
        with anyio.fail_after(60), pytest.raises(ConnectionEndedError, match=f"over {MAX_LINE}"):
            await connection.read_line(30)
        connection.close()


async def test_a_server_that_the_owner_did_not_name_is_refused() -> None:
    named = sockets("tcp://127.0.0.1:6667")
    with pytest.raises(PluginError, match="not named in the configuration"):
        await named.open("tcp://127.0.0.1:6668")


@pytest.mark.parametrize("address", ["http://a:1", "tcp://a", "tcp://:1", "tcp://a:x", "a:1"])
async def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(PluginError, match="is not an address"):
        await sockets(address).open(address)


async def test_a_server_that_is_gone_is_said_to_be() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()

    async with server(serve) as address:
        pass
    with pytest.raises(ConnectionEndedError, match="cannot be reached"):
        await sockets(address).open(address)


async def test_an_encrypted_connection_wants_a_server_that_proves_its_name() -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        await stream.receive()
        await stream.send(b"no TLS is spoken here\n")

    async with server(serve) as address:
        encrypted = address.replace("tcp:", "tls:")
        with anyio.fail_after(60), pytest.raises(ConnectionEndedError, match="cannot be reached"):
            await sockets(encrypted).open(encrypted)
