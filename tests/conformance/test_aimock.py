"""The adapter against the formats of the mock server `@copilotkit/aimock`."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from skerry.infra.features import WIRE_FORMATS
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelRequestError,
)
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    user,
)
from skerry.model.tool import ToolSpec
from skerry.ports.model import History, ModelInfo, ModelProvider, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.features import model_apis
from tests.support.mocks import program, started

pytestmark = pytest.mark.full("the mock server aimock")

MODEL = ModelInfo("aimock", "gpt-4o", "Mock")
READ = ToolSpec("read", "Read a file.", {"type": "object", "properties": {"path": {}}})
POEM = 'Snow \N{SNOWMAN} falls, "quoted" and \\ plain;\nevery line a step further down. ' * 5


def error(status: int, message: str, kind: str = "some_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind}, "status": status}


FIXTURES: dict[str, dict[str, Any]] = {
    "poem": {"content": POEM},
    "priced": {
        "content": "ok",
        "usage": {
            "prompt_tokens": 50,
            "completion_tokens": 7,
            "total_tokens": 57,
        },
    },
    "one call": {"toolCalls": [{"name": "read", "arguments": '{"path":"a/b.txt","lines":5}'}]},
    "two calls": {
        "toolCalls": [
            {"name": "read", "arguments": '{"path":"a.txt"}'},
            {"name": "read", "arguments": '{"path":"b.txt"}'},
        ]
    },
    "both": {"content": "I look.", "toolCalls": [{"name": "read", "arguments": '{"path":"c"}'}]},
    "think": {"content": "42", "reasoning": "Six times seven."},
    "long": {"content": "cut", "finishReason": "length"},
    "filtered": {"content": "I must not", "finishReason": "content_filter"},
    "e400": error(400, "bad"),
    "e401": error(401, "bad key", "authentication_error"),
    "e429": error(429, "slow down; maximum context length", "rate_limit_error"),
    "e500": error(500, "broken", "server_error"),
    "e529": error(529, "busy", "overloaded_error"),
    "overflow": error(400, "This model's maximum context length is 128000 tokens."),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    fixtures = [
        {"match": {"userMessage": word, "hasToolResult": False}, "response": response}
        for word, response in FIXTURES.items()
    ]
    fixtures.append(
        {"match": {"toolResultContains": "forty-two"}, "response": {"content": "It says 42."}}
    )
    folder = tmp_path_factory.mktemp("aimock")
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
    command = program("SKERRY_AIMOCK", "tests/conformance/node/node_modules/.bin/llmock")
    with started([command, "-p", "0", "-f", str(folder), "--chunk-size", "8", "--strict"]) as url:
        yield url


@pytest.fixture(params=list(WIRE_FORMATS))
async def provider(server: str, request: pytest.FixtureRequest) -> AsyncIterator[ModelProvider]:
    base = server if request.param == "google-generative-ai" else f"{server}/v1"
    async with HttpClient() as http:
        yield model_apis().open(http, Endpoint("aimock", base, "mock-key", api=request.param))


def request(word: str, *more: Any) -> ModelRequest:
    return ModelRequest(MODEL, "Be brief.", History([user(word, 1), *more]), (READ,))


async def test_text_in_pieces_comes_whole(provider: ModelProvider) -> None:
    texts: list[str] = []
    reply = await provider.complete(request("poem"), ReplyListener(texts.append))
    assert reply.text == "".join(texts) == POEM
    assert (reply.stop_reason, reply.tool_calls) == ("stop", ())


async def test_usage_is_counted(provider: ModelProvider) -> None:
    reply = await provider.complete(request("priced"), ReplyListener())
    assert reply.usage == Usage(input=50, output=7, total_tokens=57)


@pytest.mark.parametrize(
    ("word", "text", "arguments"),
    [
        ("one call", "", [{"path": "a/b.txt", "lines": 5}]),
        ("two calls", "", [{"path": "a.txt"}, {"path": "b.txt"}]),
        ("both", "I look.", [{"path": "c"}]),
    ],
)
async def test_tool_calls_in_pieces_come_whole(
    provider: ModelProvider, word: str, text: str, arguments: list[Any]
) -> None:
    reply = await provider.complete(request(word), ReplyListener())
    assert reply.stop_reason == "toolUse"
    assert reply.text == text
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("read", argument) for argument in arguments
    ]
    assert len({call.id for call in reply.tool_calls}) == len(arguments)


async def test_the_result_of_a_tool_goes_back(provider: ModelProvider) -> None:
    call = ToolCall("call_1", "read", {"path": "a"})
    message = AssistantMessage((call,), "a", "p", "m", Usage(), "toolUse", 1)
    result = ToolResultMessage(
        "call_1", "read", (TextBlock("forty-two"),), is_error=False, timestamp=1
    )
    reply = await provider.complete(request("one call", message, result), ReplyListener())
    assert reply.text == "It says 42."


async def test_thinking_is_no_part_of_the_answer(provider: ModelProvider) -> None:
    assert (await provider.complete(request("think"), ReplyListener())).text == "42"


@pytest.mark.parametrize(
    "provider", [api for api in WIRE_FORMATS if api != "openai-responses"], indirect=True
)
async def test_an_answer_cut_by_its_length_says_so(provider: ModelProvider) -> None:
    assert (await provider.complete(request("long"), ReplyListener())).stop_reason == "length"


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("e400", ModelRequestError),
        ("e401", ModelAuthError),
        ("e429", ModelRateLimitError),
        ("e500", ModelOverloadedError),
        ("e529", ModelOverloadedError),
        ("overflow", ModelOverflowError),
    ],
)
async def test_errors_are_told_apart(
    provider: ModelProvider, word: str, kind: type[ModelError]
) -> None:
    with pytest.raises(ModelError) as caught:
        await provider.complete(request(word), ReplyListener())
    assert type(caught.value) is kind


@pytest.mark.parametrize("provider", ["openai-completions", "google-generative-ai"], indirect=True)
async def test_a_filtered_answer_is_none(provider: ModelProvider) -> None:
    with pytest.raises(ModelRequestError):
        await provider.complete(request("filtered"), ReplyListener())
