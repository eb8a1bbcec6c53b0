"""Requests of platforms reach the adapter that they are for, under limits, and nobody else."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest

from skerry.client.client import GatewayClient
from skerry.features.channels import posts
from skerry.gateway import request_body
from skerry.hooks.hooks import Hooks
from skerry.model.errors import StateError
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.ports.channel import Inbox, Post, PostAnswer
from skerry.testing.channel import FakePlatform, MemoryChannel
from tests.support.chaos import until
from tests.support.whole import whole_gateway

SIGNED = {"x-secret": "right"}
WRONG = "wrong"


class PostedChannel(MemoryChannel):
    """An account whose platform sends its messages by requests."""

    def __init__(self, platform: FakePlatform) -> None:
        super().__init__(platform)
        self.seen: list[Post] = []
        self.busy = anyio.Event()
        self.inbox: Inbox | None = None

    async def run(self, inbox: Inbox) -> None:
        self.inbox = inbox
        await anyio.sleep_forever()

    async def posted(self, post: Post) -> PostAnswer:
        self.seen.append(post)
        if post.headers.get("x-secret") != "right":
            return PostAnswer(401)
        if post.path == "slow":
            await self.busy.wait()
        if post.path == "broken":
            raise RuntimeError("a fault")
        if post.path == "full":
            raise StateError("no room")
        if post.method == "GET":
            return PostAnswer(200, post.query["challenge"].encode())
        assert self.inbox is not None
        peer = Peer(PeerKind.DIRECT, "ann")
        text = post.body.decode()
        await self.inbox(InboundMessage(self.channel, self.account, peer, "ann", text, text, 0))
        return PostAnswer()


class Rig:
    """A gateway with such an account."""

    def __init__(self, url: str, adapter: PostedChannel, client: httpx2.AsyncClient) -> None:
        self.url = url
        self.adapter = adapter
        self.client = client

    async def post(
        self, path: str, body: bytes = b"", method: str = "POST", **headers: str
    ) -> httpx2.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()} or SIGNED
        return await self.client.request(
            method, f"{self.url}/channels/{path}", content=body, headers=given
        )


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with opened(tmp_path) as made:
        yield made


@asynccontextmanager
async def opened(folder: Path, kind: type[PostedChannel] = PostedChannel) -> AsyncIterator[Rig]:
    adapter = kind(FakePlatform(folder / "platform"))
    async with (
        whole_gateway(folder / "home", Hooks(), config={}, adapters=[adapter]) as (_, address),
        httpx2.AsyncClient(timeout=60) as client,
        GatewayClient(address) as operator,
    ):
        (row,) = (await operator.request("channels.status"))["channelAccounts"]["memory"]
        assert row["webhookPath"] == "/channels/memory/default"
        yield Rig(address.url.replace("ws://", "http://").rstrip("/"), adapter, client)


async def test_a_message_is_taken_before_the_platform_is_told_so(rig: Rig) -> None:
    assert (await rig.post("memory/default", b"hello")).status_code == 200
    platform = rig.adapter.platform
    await until(platform.received)
    assert [message.text for message in platform.received()] == ["echo: hello"]


async def test_the_account_default_may_be_left_out(rig: Rig) -> None:
    answer = await rig.post("memory?challenge=42", method="GET")
    assert (answer.status_code, answer.text) == (200, "42")


async def test_the_adapter_sees_path_query_headers_and_body(rig: Rig) -> None:
    await rig.post("memory/default/a/b?c=1", b"x", x_secret=WRONG, x_more="2")
    (post,) = rig.adapter.seen
    assert (post.method, post.path, post.query, post.body) == ("POST", "a/b", {"c": "1"}, b"x")
    assert (post.headers["x-secret"], post.headers["x-more"]) == (WRONG, "2")


@pytest.mark.parametrize("path", ["telegram/default", "memory/other", ""])
async def test_nobody_else_is_there(rig: Rig, path: str) -> None:
    assert (await rig.post(path, b"x")).status_code == 404
    assert rig.adapter.seen == []


async def test_other_methods_and_large_bodies_never_reach_the_adapter(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await rig.post("memory/default", method="PUT")).status_code == 405
    monkeypatch.setattr(posts, "MAX_BYTES", 10)
    assert (await rig.post("memory/default", b"x" * 11)).status_code == 413
    assert rig.adapter.seen == []
    assert (await rig.post("memory/default", b"x" * 10)).status_code == 200


async def test_a_body_that_takes_too_long_is_refused(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "BODY_SECONDS", 0.05)
    host, port = rig.url.removeprefix("http://").split(":")
    head = f"POST /channels/memory HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 9\r\n\r\nx"
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(head.encode())
        with anyio.fail_after(60):
            assert (await stream.receive()).startswith(b"HTTP/1.1 408 ")
    assert rig.adapter.seen == []


@pytest.mark.parametrize("path", ["broken", "full"])
async def test_what_is_not_taken_is_to_be_sent_again(rig: Rig, path: str) -> None:
    answer = await rig.post(f"memory/default/{path}", b"x")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "fault" not in answer.text


async def test_a_hanging_adapter_costs_a_bounded_number_of_requests(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "MAX_CONCURRENT", 1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.post, "memory/default/slow", b"x")
        await until(lambda: rig.adapter.seen)
        assert (await rig.post("memory/default", b"y")).status_code == 503
        rig.adapter.busy.set()
    assert (await rig.post("memory/default", b"z")).status_code == 200


@pytest.mark.abuse(115)
async def test_bodies_of_strangers_that_never_end_keep_no_platform_out(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "MAX_CONCURRENT", 2)
    host, port = rig.url.removeprefix("http://").split(":")
    head = f"POST /channels/memory HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 9\r\n\r\nx"
    async with AsyncExitStack() as stack:
        answers: list[bytes] = []
        async with anyio.create_task_group() as tasks:

            async def listen(stream: anyio.abc.SocketStream) -> None:
                answers.append(await stream.receive())
                tasks.cancel_scope.cancel()

            for _ in range(3):
                stream = await stack.enter_async_context(await anyio.connect_tcp(host, int(port)))
                await stream.send(head.encode())
                tasks.start_soon(listen, stream)
        assert answers[0].startswith(b"HTTP/1.1 503 ")
        assert (await rig.post("memory/default", b"hello")).status_code == 200
    assert [post.body for post in rig.adapter.seen] == [b"hello"]


async def test_an_answer_that_takes_too_long_is_to_be_asked_for_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "ANSWER_SECONDS", 0.05)
    assert (await rig.post("memory/default/slow", b"x")).status_code == 503


class ProvedChannel(PostedChannel):
    """An account whose platform proves itself in the headers."""

    async def refuses(self, post: Post) -> PostAnswer | None:
        assert post.body == b""
        if post.path == "broken":
            raise RuntimeError("a fault")
        return None if post.headers.get("x-secret") == "right" else PostAnswer(401)


async def test_the_body_of_a_stranger_is_not_read_where_headers_prove_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posts, "MAX_CONCURRENT", 1)
    async with opened(tmp_path, ProvedChannel) as rig:
        host, port = rig.url.removeprefix("http://").split(":")
        head = f"POST /channels/memory HTTP/1.1\r\nhost: {host}:{port}\r\ncontent-length: 9\r\n\r\n"
        async with await anyio.connect_tcp(host, int(port)) as stream:
            await stream.send(head.encode())  # and nothing of its body, ever
            with anyio.fail_after(60):
                assert (await stream.receive()).startswith(b"HTTP/1.1 401 ")
        assert (await rig.post("memory/default/broken", b"x")).status_code == 503
        assert rig.adapter.seen == []
        assert (await rig.post("memory/default", b"hello")).status_code == 200
        assert [post.body for post in rig.adapter.seen] == [b"hello"]
