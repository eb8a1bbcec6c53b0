"""The `anthropic-messages` adapter against a real loopback server."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.features.anthropic_messages.provider import AnthropicProvider
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import TextBlock, ThinkingBlock, ToolCall, Usage, user
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import History, ModelInfo, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint
from skerry.testing.model_server import Cut, HttpStep, Raw, StatusReply, StubModelServer

MODEL = ModelInfo("stub", "claude-opus-5", "Stub", reasoning=True)
THOUGHT = ThinkingBlock("Six times seven.", "c2ln")
STOP = {"type": "message_stop"}
CALLS = ToolCall("t1", "read", {"path": "a long name.txt"}), ToolCall("t2", "list", {})


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        with anyio.fail_after(60):
            yield client


def request(thinking: ThinkingLevel = ThinkingLevel.OFF) -> ModelRequest:
    return ModelRequest(MODEL, "be brief", History([user("hi", 1)]), thinking=thinking)


async def test_a_reply_comes_in_pieces_and_whole(http: HttpClient) -> None:
    hidden = ThinkingBlock("", "ZW5j", redacted=True)
    texts: list[str] = []
    thoughts: list[str] = []
    async with StubModelServer(
        [[THOUGHT, hidden, "It is ", "42.", *CALLS]], events_per_text=3
    ) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url, "sk-1"))
        reply = await provider.complete(request(), ReplyListener(texts.append, thoughts.append))
        sent = stub.requests[0]
    assert reply.content == (THOUGHT, hidden, TextBlock("It is 42."), *CALLS)
    assert (reply.stop_reason, reply.usage) == ("toolUse", Usage(8, 3, 4, 0, 15))
    assert ("".join(texts), "".join(thoughts)) == ("It is 42.", "Six times seven.")
    assert sent.path == "/v1/messages"
    assert (sent.headers["x-api-key"], sent.headers["anthropic-version"]) == ("sk-1", "2023-06-01")
    assert "authorization" not in sent.headers
    assert provider.api == "anthropic-messages"


async def test_the_base_url_may_leave_out_the_version(http: HttpClient) -> None:
    async with StubModelServer([["ok"]]) as stub:
        base = stub.base_url.removesuffix("/v1") + "/anthropic/"
        endpoint = Endpoint("Stub", base, headers=(("anthropic-beta", "x"),))
        assert (
            await AnthropicProvider(http, endpoint).complete(request(), ReplyListener())
        ).text == "ok"
        assert stub.requests[0].path == "/anthropic/v1/messages"
        assert stub.requests[0].headers["anthropic-beta"] == "x"


def failure(kind: str, message: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (StatusReply(529, failure("overloaded_error", "busy")), ModelOverloadedError),
        (StatusReply(500, failure("api_error", "broken")), ModelOverloadedError),
        (StatusReply(429, failure("rate_limit_error", "prompt is too long")), ModelRateLimitError),
        (StatusReply(401, failure("authentication_error", "bad key")), ModelAuthError),
        (
            StatusReply(400, failure("invalid_request_error", "prompt is too long: 9 tokens > 8")),
            ModelOverflowError,
        ),
        (StatusReply(400, failure("invalid_request_error", "bad")), ModelRequestError),
        (Cut(), ModelStreamCutError),
        (ModelOverloadedError("busy"), ModelOverloadedError),
    ],
)
async def test_failures_are_classed(
    http: HttpClient, step: HttpStep, kind: type[ModelError]
) -> None:
    async with StubModelServer([[step]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        with pytest.raises(ModelError) as caught:
            await provider.complete(request(), ReplyListener())
    assert type(caught.value) is kind


async def test_the_providers_hint_to_wait_is_kept(http: HttpClient) -> None:
    limited = StatusReply(429, failure("rate_limit_error", "slow"), (("retry-after", "7"),))
    async with StubModelServer([[limited]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        with pytest.raises(ModelRateLimitError) as caught:
            await provider.complete(request(), ReplyListener())
    assert caught.value.retry_after == 7


async def test_a_model_that_wants_to_be_asked_another_way_is_and_it_is_remembered(
    http: HttpClient,
) -> None:
    def reply(body: dict[str, Any]) -> list[HttpStep]:
        if body.get("thinking", {}).get("type") != "enabled":
            text = "adaptive thinking is not supported on this model"
            return [StatusReply(400, failure("invalid_request_error", text))]
        return ["ok"]

    async with StubModelServer(reply) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        for _ in range(2):
            said = await provider.complete(request(ThinkingLevel.HIGH), ReplyListener())
            assert said.text == "ok"
        kinds = [request.body["thinking"]["type"] for request in stub.requests]
    assert kinds == ["adaptive", "enabled", "enabled"]


async def test_a_refusal_that_is_not_about_thinking_is_told(http: HttpClient) -> None:
    refused = StatusReply(400, failure("invalid_request_error", "no such model"))
    async with StubModelServer([[refused], ["never"]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        with pytest.raises(ModelRequestError, match="no such model"):
            await provider.complete(request(ThinkingLevel.HIGH), ReplyListener())
        assert len(stub.requests) == 1


async def test_an_answer_that_was_refused_is_not_asked_for_again(http: HttpClient) -> None:
    why = {"stop_reason": "refusal", "stop_details": {"explanation": "my reasoning"}}
    ends = {"type": "message_delta", "delta": why}
    events = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in (ends, STOP))
    async with StubModelServer([["half", Raw(events)], ["never"]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        with pytest.raises(ModelRequestError, match="my reasoning"):
            await provider.complete(request(ThinkingLevel.HIGH), ReplyListener())
        assert len(stub.requests) == 1


async def test_a_model_that_does_not_think_is_not_asked_to(http: HttpClient) -> None:
    async with StubModelServer([["ok"]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        plain = replace(request(ThinkingLevel.HIGH), model=replace(MODEL, reasoning=False))
        await provider.complete(plain, ReplyListener())
        assert "thinking" not in stub.requests[0].body


def paused(text: str) -> list[HttpStep]:
    ends = {"type": "message_delta", "delta": {"stop_reason": "pause_turn"}}
    return [text, Raw(b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in (ends, STOP)))]


async def test_an_answer_that_pauses_is_gone_on_with(http: HttpClient) -> None:
    texts: list[str] = []
    payload = request()
    async with StubModelServer([paused("one "), paused("two "), ["three"]]) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        reply = await provider.complete(payload, ReplyListener(texts.append))
        last = stub.requests[2].body["messages"]
    assert (reply.text, "".join(texts)) == ("one two three", "one two three")
    assert (reply.stop_reason, reply.usage.input) == ("stop", 24)
    assert [row["role"] for row in last] == ["user", "assistant"]
    assert [row["text"] for row in last[1]["content"]] == ["one ", "two "]
    assert len(payload.history.messages) == 1


async def test_an_answer_that_only_pauses_ends_as_cut_off(http: HttpClient) -> None:
    async with StubModelServer([paused(".")] * 20) as stub:
        provider = AnthropicProvider(http, Endpoint("Stub", stub.base_url))
        reply = await provider.complete(request(), ReplyListener())
        assert len(stub.requests) == 8
    assert (reply.text, reply.stop_reason) == ("." * 8, "length")
