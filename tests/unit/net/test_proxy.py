"""The proxy for programs without a network: permitted requests, as each server receives them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import pytest

from skerry.net.proxy import Proxy
from skerry.policy.urls import Refusal, Target
from tests.support.net_lab import OTHER, PUBLIC, Lab, RecordedRequest, lab, reply


async def admit(target: Target) -> Refusal | None:
    if target.host in {"a.example", "inner.example", "gone.example"}:
        return None
    return Refusal("host-not-allowed", f"{target.host} is not allowed.")


@asynccontextmanager
async def proxied(world: Lab, idle_seconds: float = 60.0) -> AsyncIterator[int]:
    """Runs a proxy in the lab; gives its port."""
    proxy = Proxy(world.client().connect, admit, idle_seconds=idle_seconds)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, proxy.serve)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
        group.cancel_scope.cancel()


async def ask(port: int, *parts: bytes) -> bytes:
    """Sends the parts, each after something arrived; returns all that arrived until the end."""
    received = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        for part in parts:
            await stream.send(part)
            if part is not parts[-1]:
                received += await stream.receive()
        try:
            while True:
                received += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return received


async def test_a_request_is_passed_on_with_the_headers_of_its_server() -> None:
    request = (
        b"POST http://a.example/x?y HTTP/1.1\r\nHost: b.example\r\nProxy-Connection: keep-alive\r\n"
        b"Proxy-Authorization: Basic eA==\r\nX-Own: 1\r\nContent-Length: 4\r\n\r\nbody"
    )
    async with lab(a_example=PUBLIC) as world, proxied(world) as port:
        await world.serve(PUBLIC, 80, reply(b"hello", connection="close"))
        world.close_after = True
        answer = await ask(port, request)
    assert answer.endswith(b"hello")
    (asked,) = world.asked
    assert (asked.method, asked.path, asked.body) == ("POST", "/x?y", b"body")
    assert asked.headers == {
        "host": "a.example",
        "connection": "close",
        "x-own": "1",
        "content-length": "4",
    }


async def test_a_tunnel_carries_bytes_both_ways() -> None:
    async def echo(stream: anyio.abc.ByteStream, request: RecordedRequest) -> None:
        await stream.send(b"<" + request.path.encode() + b">")
        await stream.aclose()

    async with lab(a_example=PUBLIC) as world, proxied(world) as port:
        await world.serve(PUBLIC, 443, echo)
        answer = await ask(
            port, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n", b"GET /in HTTP/1.1\r\n\r\n"
        )
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n</in>"
    assert world.connections == [(PUBLIC, 443)]


@pytest.mark.parametrize(
    ("request_line", "status", "reason"),
    [
        ("CONNECT b.example:443", 403, "host-not-allowed"),
        ("GET http://b.example/", 403, "host-not-allowed"),
        ("CONNECT inner.example:443", 403, "address-private"),
        ("GET http://inner.example/", 403, "address-private"),
        ("CONNECT a.example:22", 403, "port"),
        ("CONNECT a.example@b.example:443", 403, "userinfo"),
        ("CONNECT a.example:443/x", 400, "HOST:PORT"),
        ("CONNECT a.example", 400, "HOST:PORT"),
        ("GET https://a.example/", 400, "CONNECT"),
        ("GET /x", 403, "scheme"),
        ("GET ftp://a.example/", 403, "scheme"),
        ("GET http://a.example/ x", 400, "not valid HTTP"),
        ("GET http://gone.example/", 502, "cannot be reached"),
        ("POST http://a.example/ HTTP/1.1\r\nTransfer-Encoding: chunked", 411, "Content-Length"),
        (
            "POST http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
            400,
            "Content-Length",
        ),
        ("POST http://a.example/ HTTP/1.1\r\nContent-Length: -1", 400, "Content-Length"),
        ("GET http://a.example/ HTTP/1.1\r\nX : y", 400, "not valid HTTP"),
        ("GET http://a.example/ HTTP/1.1\r\nX: " + "y" * 40_000, 431, "more than 32768 bytes"),
    ],
)
async def test_what_is_refused_says_why_and_connects_to_nothing(
    request_line: str, status: int, reason: str
) -> None:
    version = "" if "HTTP/" in request_line else " HTTP/1.1"
    async with (
        lab(
            a_example=PUBLIC, b_example=OTHER, inner_example="10.0.0.1", gone_example=OTHER
        ) as world,
        proxied(world) as port,
    ):
        for place in ((PUBLIC, 80), (PUBLIC, 443), ("10.0.0.1", 443), ("10.0.0.1", 80)):
            await world.serve(*place, reply())
        answer = await ask(port, f"{request_line}{version}\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert reason.encode() in answer
    assert world.connections == []


async def test_a_second_request_behind_the_first_reaches_nobody() -> None:
    first = b"GET http://a.example/1 HTTP/1.1\r\n\r\n"
    second = b"GET http://a.example/2 HTTP/1.1\r\nHost: b.example\r\n\r\n"
    async with lab(a_example=PUBLIC) as world, proxied(world) as port:
        await world.serve(PUBLIC, 80, reply(connection="close"))
        world.close_after = True
        await ask(port, first + second)
    assert [request.path for request in world.asked] == ["/1"]


async def test_a_silent_connection_ends() -> None:
    async with lab(a_example=PUBLIC) as world, proxied(world, idle_seconds=0.2) as port:
        await world.serve(PUBLIC, 443, reply())
        answer = await ask(port, b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n"


async def test_the_end_of_the_program_ends_its_connection() -> None:
    async with lab(a_example=PUBLIC) as world, proxied(world) as port:
        await world.serve(PUBLIC, 443, reply())
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"CONNECT a.example:443 HTTP/1.1\r\n\r\n")
            await stream.receive()
        with anyio.fail_after(60):
            await world.ended.wait()
