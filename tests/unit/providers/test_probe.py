"""Local servers are found by asking them, without a credential."""

from collections.abc import Sequence

import anyio
import anyio.abc
import pytest

from skerry.infra.http import HttpClient
from skerry.providers.builtin_providers import LocalServer
from skerry.providers.probe import probe
from skerry.testing.model_server import StubModelServer
from tests.support.sockets import answering, listening


def server(url: str, name: str = "one") -> LocalServer:
    return LocalServer(name, name, url)


async def models_of(servers: Sequence[LocalServer]) -> list[tuple[str, str]]:
    with anyio.fail_after(60):
        async with HttpClient() as http:
            return [(model.server.id, model.id) for model in await probe(http, servers)]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits for who will answer."""
    monkeypatch.setattr("skerry.providers.probe.PROBE_SECONDS", 60.0)


@pytest.mark.usefixtures("patient")
async def test_a_server_that_answers_gives_its_models() -> None:
    async with StubModelServer() as stub:
        assert await models_of([server(stub.base_url)]) == [("one", "stub")]
    assert [(sent.method, sent.path) for sent in stub.requests] == [("GET", "/v1/models")]
    assert "authorization" not in stub.requests[0].headers


@pytest.mark.usefixtures("patient")
async def test_servers_come_in_their_order_and_absent_ones_not_at_all() -> None:
    async with StubModelServer() as gone:
        absent = server(gone.base_url, "absent")
    async with StubModelServer() as a, StubModelServer() as b:
        servers = [absent, server(b.base_url, "b"), server(a.base_url, "a")]
        assert await models_of(servers) == [("b", "stub"), ("a", "stub")]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"data":{}}',
        b'HTTP/1.1 200 OK\r\ncontent-length: 18\r\n\r\n{"data":[{"id":1}]',
        b'HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{"data":[{"id":"\xff"}]}',
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n",
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 100005\r\n\r\n" + b'{"x":' + b"[" * 100_000,
        b"HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 2_000_000,
        b"",
    ],
    ids=[
        "text",
        "other JSON",
        "cut",
        "no UTF-8",
        "not found",
        "other protocol",
        "deep",
        "huge",
        "silent",
    ],
)
async def test_another_kind_of_server_is_none(answer: bytes) -> None:
    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(answer)
            await anyio.sleep_forever()

    async with listening(serve) as port:
        assert await models_of([server(f"http://127.0.0.1:{port}/v1")]) == []


async def test_embedding_models_are_left_out() -> None:
    body = b'{"data":[{"id":"text-embedding-nomic"},{"id":"llama3"}]}'

    async with answering(body) as port:
        assert await models_of([server(f"http://127.0.0.1:{port}/v1")]) == [("one", "llama3")]
