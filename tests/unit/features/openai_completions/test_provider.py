"""The `openai-completions` adapter against a real loopback server."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import pytest
from msgspec.structs import replace

from skerry.features.openai_completions.provider import CompatProvider
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import ToolCall, Usage, user
from skerry.model.thinking import ThinkingLevel
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers import streaming_call
from skerry.providers.streaming_call import Endpoint
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import Cut, HttpStep, Raw, StatusReply, StubModelServer
from tests.support.sockets import listening

MODEL = ModelInfo("stub", "stub", "Stub")
CALL = ToolCall("c1", "read", {"path": "notes/a long name.txt", "lines": 20})


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        with anyio.fail_after(60):
            yield client


def request(text: str = "hi") -> ModelRequest:
    return ModelRequest(MODEL, "be brief", History([user(text, 1)]))


async def ask(
    http: HttpClient, steps: Sequence[HttpStep], silence: float = 10
) -> tuple[ModelReply | ModelError, list[str]]:
    """Returns the reply or the error, and the texts that were pushed."""
    texts: list[str] = []
    async with StubModelServer([steps]) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url, "key", silence=silence))
        try:
            return await provider.complete(request(), ReplyListener(texts.append)), texts
        except ModelError as error:
            return error, texts


async def test_text_is_pushed_as_it_comes_and_returned_whole(http: HttpClient) -> None:
    gate = ReplyGate()
    texts: list[str] = []
    replies: list[ModelReply] = []
    async with StubModelServer([["Hel", gate, "lo"]]) as stub, anyio.create_task_group() as group:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url))

        async def run() -> None:
            replies.append(await provider.complete(request(), ReplyListener(texts.append)))

        group.start_soon(run)
        await gate.reached.wait()
        while not texts:
            await anyio.lowlevel.checkpoint()
        assert texts == ["Hel"]
        gate.open()
    assert "".join(texts) == "Hello"
    assert replies[0].text == "Hello"
    assert replies[0].stop_reason == "stop"
    assert replies[0].usage == Usage(input=8, output=3, cache_read=4, total_tokens=15)


async def test_pieces_of_one_read_are_pushed_together(http: HttpClient) -> None:
    piece = b'data: {"choices":[{"delta":{"content":"%d "}}]}\n\n'
    reply, texts = await ask(http, [Raw(b"".join(piece % n for n in range(50)))])
    assert len(texts) == 1
    assert isinstance(reply, ModelReply)
    assert reply.text == "".join(f"{n} " for n in range(50))


async def test_a_piece_may_be_cut_inside_a_character(http: HttpClient) -> None:
    data = 'data: {"choices":[{"delta":{"content":"\N{SNOWMAN}"}}]}\n\n'.encode()
    reply, _ = await ask(http, [Raw(data[at : at + 1]) for at in range(len(data))])
    assert isinstance(reply, ModelReply)
    assert reply.text == "\N{SNOWMAN}"


async def test_tool_calls_come_whole_out_of_their_pieces(http: HttpClient) -> None:
    other = ToolCall("c2", "list", {})
    reply, texts = await ask(http, ["Let me see.", CALL, other])
    assert isinstance(reply, ModelReply)
    assert reply.tool_calls == (CALL, other)
    assert (reply.stop_reason, texts) == ("toolUse", ["Let me see."])


async def test_the_request_carries_key_prompt_and_conversation(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url + "/", "key"))
        await provider.complete(request("hello"), ReplyListener())
    sent = stub.requests[0]
    assert (sent.method, sent.path) == ("POST", "/v1/chat/completions")
    assert sent.headers["authorization"] == "Bearer key"
    assert sent.headers["accept-encoding"] == "identity"
    assert [message["content"] for message in sent.body["messages"]] == ["be brief", "hello"]


async def test_without_a_key_no_credential_is_sent(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        await CompatProvider(http, Endpoint("Stub", stub.base_url)).complete(
            request(), ReplyListener()
        )
    assert "authorization" not in stub.requests[0].headers


async def test_calls_share_one_connection(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url))
        for _ in range(3):
            await provider.complete(request(), ReplyListener())
    assert (stub.count, stub.connections) == (3, 1)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, ModelRequestError),
        (401, ModelAuthError),
        (429, ModelRateLimitError),
        (500, ModelOverloadedError),
        (529, ModelOverloadedError),
        (307, ModelNotFoundError),
    ],
)
async def test_a_failing_status_is_the_error_it_means(
    http: HttpClient, status: int, kind: type[ModelError]
) -> None:
    error, texts = await ask(http, [StatusReply(status, headers=(("retry-after", "2"),))])
    assert type(error) is kind
    assert texts == []


async def test_a_status_counts_even_with_a_body_that_cannot_be_read(
    http: HttpClient,
) -> None:
    error, _ = await ask(http, [StatusReply(429, b"no gzip", (("content-encoding", "gzip"),))])
    assert type(error) is ModelRateLimitError


async def test_an_overflow_is_told_apart(http: HttpClient) -> None:
    body = b'{"error":{"message":"maximum context length is 4096 tokens"}}'
    error, _ = await ask(http, [StatusReply(400, body)])
    assert type(error) is ModelOverflowError


async def test_the_hint_of_a_rate_limit_is_kept(http: HttpClient) -> None:
    error, _ = await ask(http, [StatusReply(429, headers=(("retry-after-ms", "1500"),))])
    assert isinstance(error, ModelRateLimitError)
    assert error.retry_after == 1.5


async def test_a_key_in_an_error_is_hidden(http: HttpClient) -> None:
    status_reply = StatusReply(401, b'{"error":"bad key: sk-secret"}')
    async with StubModelServer([[status_reply]]) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url, "sk-secret"))
        with pytest.raises(ModelError, match=r"bad key: \*\*\*$"):
            await provider.complete(request(), ReplyListener())


async def test_a_key_that_is_a_word_changes_nothing_of_what_a_server_says(
    http: HttpClient,
) -> None:
    async with StubModelServer([["content"]]) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url, "content"))
        reply = await provider.complete(request(), ReplyListener())
    assert reply.text == "content"


@pytest.mark.parametrize("connection", [True, False])
async def test_a_stream_that_ends_early_is_retryable_and_keeps_its_text(
    http: HttpClient, *, connection: bool
) -> None:
    error, texts = await ask(http, ["half", Cut(connection=connection)])
    assert isinstance(error, ModelConnectionError if connection else ModelStreamCutError)
    assert error.retryable
    assert texts == ["half"]


async def test_done_without_a_finish_reason_is_not_the_end(http: HttpClient) -> None:
    error, _ = await ask(http, ["half", Raw(b"data: [DONE]\n\n"), Cut()])
    assert isinstance(error, ModelStreamCutError)


@pytest.mark.parametrize("connection", [True, False])
async def test_a_finish_reason_without_done_is_enough(
    http: HttpClient, *, connection: bool
) -> None:
    finish = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    reply, _ = await ask(http, ["all", finish, Cut(connection=connection)])
    assert isinstance(reply, ModelReply)
    assert reply.text == "all"


async def test_a_server_that_finishes_and_holds_the_line_is_not_waited_for(
    http: HttpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_call, "_MORE_SECONDS", 0.05)
    finish = Raw(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
    reply, _ = await ask(http, ["all", finish, ReplyGate()], silence=300)
    assert isinstance(reply, ModelReply)
    assert reply.text == "all"


async def test_a_piece_that_is_not_json_is_a_cut_stream(http: HttpClient) -> None:
    error, texts = await ask(http, ["half", Raw(b'data: {"choices":[{"delt\n\n')])
    assert isinstance(error, ModelStreamCutError)
    assert texts == ["half"]


async def test_text_of_the_read_that_also_fails_is_not_lost(http: HttpClient) -> None:
    both = b'data: {"choices":[{"delta":{"content":"last"}}]}\n\ndata: {"error":"over"}\n\n'
    error, texts = await ask(http, [Raw(both)])
    assert isinstance(error, ModelOverloadedError)
    assert texts == ["last"]


async def test_an_error_inside_the_stream_is_raised(http: HttpClient) -> None:
    error, texts = await ask(http, ["half", ModelError("crashed")])
    assert isinstance(error, ModelOverloadedError)
    assert "crashed" in str(error)
    assert texts == ["half"]


async def test_silence_is_a_broken_connection(http: HttpClient) -> None:
    error, texts = await ask(http, ["half", ReplyGate()], silence=0.05)
    assert isinstance(error, ModelConnectionError)
    assert "silent for 0.05 s" in str(error)
    assert texts == ["half"]


async def test_an_endless_event_is_refused(http: HttpClient) -> None:
    error, _ = await ask(http, [Raw(b"data: " + b"x" * 5_000_000)])
    assert isinstance(error, ModelRequestError)
    assert "more than" in str(error)


async def test_nobody_at_the_address_is_a_connection_error(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        url = stub.base_url
    with pytest.raises(ModelConnectionError, match="Cannot reach Stub"):
        await CompatProvider(http, Endpoint("Stub", url)).complete(request(), ReplyListener())


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"error":{"code":503,"message":"busy"}}', ModelOverloadedError),
        (b'{"choices":[]}', ModelNotFoundError),
        (b"<html>hello</html>", ModelNotFoundError),
    ],
)
async def test_an_answer_that_is_no_stream_is_an_error(
    http: HttpClient, body: bytes, kind: type[ModelError]
) -> None:
    error, _ = await ask(http, [StatusReply(200, body)])
    assert type(error) is kind


async def test_cancelling_closes_the_connection_and_keeps_the_text(
    http: HttpClient,
) -> None:
    gate = ReplyGate()
    texts: list[str] = []
    async with StubModelServer([["half", gate], ["whole"]]) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url))
        async with anyio.create_task_group() as group:
            group.start_soon(provider.complete, request(), ReplyListener(texts.append))
            await gate.reached.wait()
            while not texts:
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        assert texts == ["half"]
        await stub.hung_up.wait()
        assert (await provider.complete(request(), ReplyListener(texts.append))).text == "whole"
        assert stub.connections == 2


async def test_a_client_that_cancelled_receives_no_more_deltas(http: HttpClient) -> None:
    def chunk(text: str) -> bytes:
        data = b"data: %b\n\n" % json.dumps({"choices": [{"delta": {"content": text}}]}).encode()
        return b"%x\r\n%b\r\n" % (len(data), data)

    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    async def burst(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(head + chunk("a") + b"".join([chunk("b" * 9_000)] * 20))  # many reads
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await stream.receive()

    texts: list[str] = []
    async with listening(burst) as port:
        provider = CompatProvider(http, Endpoint("Burst", f"http://127.0.0.1:{port}/v1"))
        with anyio.CancelScope() as scope:

            def listen(text: str) -> None:
                texts.append(text)
                scope.cancel()

            await provider.complete(request(), ReplyListener(listen))
    assert (len(texts), scope.cancelled_caught) == (1, True)


async def test_an_endpoint_may_want_a_connection_for_each_call(http: HttpClient) -> None:
    async with StubModelServer() as stub:
        for reuse, opened in ((False, 2), (True, 3)):
            provider = CompatProvider(http, Endpoint("Stub", stub.base_url, reuse=reuse))
            for _ in range(2):
                await provider.complete(request(), ReplyListener())
            assert stub.connections == opened


async def test_thinking_and_text_of_one_read_are_told_in_their_order(
    http: HttpClient,
) -> None:
    def event(**delta: str) -> bytes:
        return b"data: %b\n\n" % json.dumps({"choices": [{"delta": delta}]}).encode()

    texts: list[str] = []
    listener = ReplyListener(
        lambda text: texts.append(f"text {text}"), lambda one: texts.append(f"hm {one}")
    )
    read = event(reasoning="a") + event(reasoning="b") + event(content="c") + event(content="d")
    async with StubModelServer([[Raw(read)]]) as stub:
        await CompatProvider(http, Endpoint("Stub", stub.base_url)).complete(request(), listener)
    assert texts == ["hm ab", "text cd"]


async def test_a_call_that_is_written_as_text_is_made_and_not_shown(
    http: HttpClient,
) -> None:
    written = '{"name": "read", "arguments": {"path": "a"}}'
    texts: list[str] = []
    async with StubModelServer([[written[:9], written[9:]]]) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url))
        asked = replace(request(), tools=(ToolSpec("read", "", {}),))
        reply = await provider.complete(asked, ReplyListener(texts.append))
    assert texts == []
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [("read", {"path": "a"})]
    assert (reply.text, reply.stop_reason) == ("", "toolUse")


async def test_a_level_of_thinking_that_a_model_refuses_is_lowered_once_and_for_all(
    http: HttpClient,
) -> None:
    refused = {"error": {"message": "Unsupported value: 'reasoning_effort' does not take 'xhigh'"}}

    def reply(body: dict[str, Any]) -> list[Any]:
        if body.get("reasoning_effort") == "xhigh":
            return [StatusReply(400, json.dumps(refused).encode())]
        return ["ok"]

    thinks = replace(MODEL, reasoning=True)
    async with StubModelServer(reply) as stub:
        provider = CompatProvider(http, Endpoint("Stub", stub.base_url))
        asked = replace(request(), model=thinks, thinking=ThinkingLevel.XHIGH)
        for _ in range(2):
            assert (await provider.complete(asked, ReplyListener())).text == "ok"
        sent = [request.body.get("reasoning_effort") for request in stub.requests]
    assert sent == ["xhigh", "high", "high"]
