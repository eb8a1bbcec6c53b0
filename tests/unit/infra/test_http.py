"""The pool and the limits of the HTTP client, against real sockets."""

import os
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest
from anyio.streams.tls import TLSListener

from skerry.infra.http import BODY_LIMIT, BodyTooLargeError, HttpClient, PooledTransport

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Answer = Callable[[anyio.abc.ByteStream, bytes], Awaitable[None]]


class Server:
    """Counts connections and requests; `answer` does the rest of each request."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections: list[anyio.abc.ByteStream] = []
        self.served: list[int] = []
        """For each request, the number of its connection."""
        self.url = ""

    async def serve(self, stream: anyio.abc.ByteStream) -> None:
        self.connections.append(stream)
        number = len(self.connections)
        async with stream:
            try:
                while True:
                    head = await stream.receive()
                    self.served.append(number)
                    await self.answer(stream, head)
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                return


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)
    port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - anyio's
    server.url = f"http{'s' if tls else ''}://localhost:{port}/"
    accept = TLSListener(listener, tls, standard_compatible=False) if tls else listener
    async with listener, anyio.create_task_group() as group:
        group.start_soon(accept.serve, server.serve)
        with anyio.fail_after(60):
            yield server
        group.cancel_scope.cancel()


async def ok(stream: anyio.abc.ByteStream, _: bytes) -> None:
    await stream.send(OK)


async def test_requests_one_after_another_share_a_connection() -> None:
    async with serving(ok) as server, HttpClient() as http:
        for _ in range(3):
            assert (await http.get(server.url)).text == "ok"
    assert server.served == [1, 1, 1]


async def test_the_connection_used_last_is_taken_first() -> None:
    gate = anyio.Event()

    async def gated(stream: anyio.abc.ByteStream, head: bytes) -> None:
        if b"/slow" in head:
            await gate.wait()
        await stream.send(OK)

    async with serving(gated) as server, HttpClient() as http:
        async with anyio.create_task_group() as group:
            group.start_soon(http.get, server.url + "slow")  # opens 1, ends last
            while not server.served:
                await anyio.lowlevel.checkpoint()
            await http.get(server.url)  # opens 2, ends first
            gate.set()
        await http.get(server.url)
    assert server.served == [1, 2, 1]


async def test_a_kept_connection_that_the_server_closed_is_replaced() -> None:
    async with serving(ok) as server, HttpClient() as http:
        await http.get(server.url)
        await server.connections[0].aclose()
        response = await http.post(server.url, content=b"{}")
    assert (response.text, server.served) == ("ok", [1, 2])


async def test_a_request_that_was_sent_is_not_sent_again() -> None:
    async def once(stream: anyio.abc.ByteStream, head: bytes) -> None:
        if head.startswith(b"POST"):
            await stream.aclose()
        await stream.send(OK)

    async with serving(once) as server, HttpClient() as http:
        await http.get(server.url)
        with pytest.raises(httpx2.TransportError):
            await http.post(server.url, content=b"{}")
    assert server.served == [1, 1]


async def test_an_idle_connection_that_is_too_old_is_not_used() -> None:
    now = 0.0
    transport = PooledTransport(idle_seconds=10, monotonic=lambda: now)
    async with serving(ok) as server, httpx2.AsyncClient(transport=transport) as http:
        await http.get(server.url)
        now = 9.0
        await http.get(server.url)
        now = 19.5
        await http.get(server.url)
    assert server.served == [1, 1, 2]


async def test_no_more_than_the_limit_stay_idle() -> None:
    gate = anyio.Event()

    async def gated(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await gate.wait()
        await stream.send(OK)

    transport = PooledTransport(idle_limit=2)
    async with serving(gated) as server, httpx2.AsyncClient(transport=transport) as http:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(http.get, server.url)
            while len(server.served) < 5:
                await anyio.lowlevel.checkpoint()
            gate.set()
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(http.get, server.url)
    assert len(server.connections) == 5 + 3


async def test_cancelling_a_request_closes_its_connection() -> None:
    begun = anyio.Event()
    ended = anyio.Event()

    async def endless(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n")
        begun.set()
        try:
            await stream.receive()
        finally:
            ended.set()

    async with serving(endless) as server, HttpClient() as http:
        async with anyio.create_task_group() as group:
            group.start_soon(http.get, server.url)
            await begun.wait()
            group.cancel_scope.cancel()
        await ended.wait()
    assert server.served == [1]


async def test_a_response_that_was_not_read_to_its_end_loses_its_connection() -> None:
    async def two(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf")

    async with serving(two) as server, HttpClient() as http:
        for _ in range(2):
            async with http.stream("GET", server.url) as response:
                async for part in response.aiter_raw():
                    assert part == b"half"
                    break
    assert server.served == [1, 2]


async def test_a_silent_server_is_left_after_the_requests_own_deadline() -> None:
    async def silent(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await stream.receive()

    async with serving(silent) as server, HttpClient() as http:
        with pytest.raises(httpx2.ReadTimeout, match=r"silent for 0\.05 s"):
            await http.get(server.url, timeout=0.05)


async def test_a_body_over_the_limit_is_refused() -> None:
    async with serving(ok) as server, HttpClient() as http:
        within = await http.get(server.url, extensions={BODY_LIMIT: 2})
        with pytest.raises(BodyTooLargeError, match="larger than 1 bytes"):
            await http.get(server.url, extensions={BODY_LIMIT: 1})
    assert within.text == "ok"


async def test_a_redirect_is_not_followed() -> None:
    async def away(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await stream.send(b"HTTP/1.1 302 F\r\nlocation: /there\r\ncontent-length: 0\r\n\r\n")

    async with serving(away) as server, HttpClient() as http:
        response = await http.get(server.url)
    assert (response.status_code, server.served) == (302, [1])


async def test_a_cookie_is_not_sent_back() -> None:
    heads: list[bytes] = []

    async def set_cookie(stream: anyio.abc.ByteStream, head: bytes) -> None:
        heads.append(head.lower())
        await stream.send(b"HTTP/1.1 200 OK\r\nset-cookie: a=b\r\ncontent-length: 0\r\n\r\n")

    async with serving(set_cookie) as server, HttpClient() as http:
        await http.get(server.url)
        await http.get(server.url)
    assert b"cookie" not in heads[1]


async def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with serving(ok) as server, HttpClient() as http:
        assert (await http.get(server.url)).text == "ok"


@pytest.mark.parametrize("url", ["ftp://localhost/x", "file:///etc/passwd", "ws://localhost/"])
async def test_other_schemes_are_refused(url: str) -> None:
    async with HttpClient() as http:
        with pytest.raises(httpx2.UnsupportedProtocol):
            await http.get(url)


async def test_a_port_where_nobody_listens_is_a_connect_error() -> None:
    async with serving(ok) as server:
        url = server.url
    async with HttpClient() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get(url)


async def test_a_name_that_does_not_resolve_is_a_connect_error() -> None:
    async with HttpClient() as http:
        with pytest.raises(httpx2.ConnectError):
            await http.get("http://nowhere.invalid/")


async def test_a_broken_response_is_a_protocol_error() -> None:
    async def broken(stream: anyio.abc.ByteStream, _: bytes) -> None:
        await stream.send(b"SSH-2.0-OpenSSH\r\n\r\n")

    async with serving(broken) as server, HttpClient() as http:
        with pytest.raises(httpx2.RemoteProtocolError):
            await http.get(server.url)


async def test_a_body_larger_than_every_buffer_arrives_whole() -> None:
    size = 3_000_000

    async def large(stream: anyio.abc.ByteStream, head: bytes) -> None:
        received = len(head) - head.index(b"\r\n\r\n") - 4
        while received < size:
            received += len(await stream.receive())
        await stream.send(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + b"y" * size)

    async with (
        serving(large) as server,
        HttpClient() as http,
        http.stream("POST", server.url, content=b"x" * size) as response,
    ):
        received = 0
        async for part in response.aiter_raw():
            received += len(part)
            await anyio.lowlevel.checkpoint()  # a reader that is slower than the sender
    assert received == size


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    program = shutil.which("openssl")
    assert program is not None
    command = (
        f"{program} req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
        " -addext subjectAltName=DNS:localhost -keyout key.pem -out cert.pem"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", os.fspath(tmp_path / "cert.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    return context


@pytest.mark.full("the program openssl")
async def test_https_is_spoken_over_one_kept_connection(certificate: ssl.SSLContext) -> None:
    async with serving(ok, certificate) as server, HttpClient() as http:
        for _ in range(2):
            assert (await http.get(server.url)).text == "ok"
    assert server.served == [1, 1]


@pytest.mark.full("the program openssl")
async def test_a_certificate_for_another_host_is_refused(certificate: ssl.SSLContext) -> None:
    async with serving(ok, certificate) as server, HttpClient() as http:
        with pytest.raises(httpx2.ConnectError, match="certificate"):
            await http.get(server.url.replace("localhost", "127.0.0.1"))
    assert server.served == []
