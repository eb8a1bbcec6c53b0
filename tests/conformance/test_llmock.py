"""The adapter with its retries, broken on purpose and judged by the mock server `llmock`."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import pytest

from skerry.infra.backoff import Backoff
from skerry.infra.features import WIRE_FORMATS
from skerry.infra.http import HttpClient
from skerry.model.errors import (
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelNotFoundError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRequestError,
    ModelStreamCutError,
)
from skerry.model.message import user
from skerry.model.tool import ToolSpec
from skerry.model.unanswered import ModelSilentError
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers.retry import RetryingProvider, RetryPolicy
from skerry.providers.streaming_call import Endpoint
from skerry.providers.wire_format import RAW_ARGUMENTS
from skerry.sdk.features import model_apis
from tests.support.mocks import program, started

pytestmark = pytest.mark.full("the mock server llmock")

REQUEST = ModelRequest(
    ModelInfo("llmock", "gpt-4o", "Mock"), "Be brief.", History([user("Count to ten.", 1)])
)
WEATHER = ToolSpec(
    "get_weather",
    "Get the current weather for a city.",
    {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
SPOKEN = {
    "openai-completions": (1, 3),
    "openai-responses": (1, 6),
    "anthropic-messages": (1, 5),
    "google-generative-ai": (0, 3),
}
"""Events of an answer that say nothing yet, and those with which something is said."""
BASES = {
    "openai-completions": "/v1",
    "openai-responses": "/v1",
    "anthropic-messages": "/anthropic/v1",
    "google-generative-ai": "/gemini",
}


class Judged:
    """Our client, and the server that judges it."""

    def __init__(self, http: HttpClient, url: str, api: str) -> None:
        self.http = http
        self.url = url
        self.texts: list[str] = []
        self.silent, self.spoken = SPOKEN[api]
        endpoint = Endpoint("llmock", f"{url}{BASES[api]}", "mock-key", silence=0.5, api=api)
        self.provider = RetryingProvider(
            model_apis().open(http, endpoint),
            RetryPolicy(backoff=Backoff(base=0.1, cap=8.0, jitter=1.0)),
            chance=lambda: 1.0,
        )

    async def expect(self, *behaviours: dict[str, Any]) -> None:
        sent = await self.http.post(
            f"{self.url}/_llmock/scenario", json={"behaviors": list(behaviours)}
        )
        sent.raise_for_status()

    async def ask(self, request: ModelRequest = REQUEST) -> ModelReply:
        self.texts.clear()
        return await self.provider.complete(request, ReplyListener(self.texts.append))

    async def recorded(self, count: int) -> None:
        """Waits until the server has noticed the end of `count` requests."""
        while (await self.verdict())["attempts"] < count:  # noqa: ASYNC110 - it tells nobody when
            await anyio.sleep(0.02)

    async def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = (await self.http.get(f"{self.url}/_llmock/verdict")).json()
        return verdict


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    command = program("SKERRY_LLMOCK", ".venv-llmock/bin/llmock")
    options = ["serve", "--host", "127.0.0.1", "--port", "0", "--context-window", "2000"]
    # Else a whole answer lies in the socket before we can have stopped reading it.
    options += ["--stream-chunk-delay-ms", "10"]
    with started([command, *options]) as url:
        yield url


@pytest.fixture(params=list(WIRE_FORMATS))
async def judged(server: str, request: pytest.FixtureRequest) -> AsyncIterator[Judged]:
    async with HttpClient() as http:
        (await http.post(f"{server}/_llmock/reset")).raise_for_status()
        yield Judged(http, server, request.param)


def fault(kind: str, after_chunks: int, **more: Any) -> dict[str, Any]:
    return {"type": "stream_fault", "kind": kind, "after_chunks": after_chunks, **more}


@pytest.mark.parametrize(
    "behaviour",
    [
        {"type": "fail", "status": 429, "retry_after": 0.3, "times": 2},
        {"type": "fail", "status": 529, "retry_after": 0.3},
        {"type": "fail", "status": 529, "times": 2},
        {"type": "fail", "status": 503},
        {"type": "fail", "status": 500},
        fault("disconnect", 0),
        fault("truncate", 1),
        fault("malformed", 1),
    ],
    ids=str,
)
async def test_what_breaks_before_the_first_word_is_tried_again_without_blame(
    judged: Judged, behaviour: dict[str, Any]
) -> None:
    if "after_chunks" in behaviour:
        behaviour = {**behaviour, "after_chunks": judged.silent}
    await judged.expect(behaviour)
    reply = await judged.ask()
    verdict = await judged.verdict()
    assert reply.text == "".join(judged.texts) != ""
    assert verdict["findings"] == []
    assert verdict["faults_injected"] == behaviour.get("times", 1)
    assert (verdict["calls"], verdict["attempts"]) == (1, 1 + behaviour.get("times", 1))


async def test_silence_before_the_first_word_is_waited_for_once(judged: Judged) -> None:
    await judged.expect(fault("stall", judged.silent, stall_seconds=5))
    with pytest.raises(ModelSilentError):
        await judged.ask()
    await judged.recorded(1)
    verdict = await judged.verdict()
    assert (verdict["findings"], verdict["attempts"]) == ([], 1)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("disconnect", ModelConnectionError),
        ("truncate", ModelStreamCutError),
        ("malformed", ModelStreamCutError),
        ("stall", ModelConnectionError),
    ],
)
async def test_what_breaks_after_the_first_word_is_an_error_that_may_be_tried_again(
    judged: Judged, kind: str, error: type[ModelError]
) -> None:
    await judged.expect(
        fault(kind, judged.spoken, **({"stall_seconds": 5} if kind == "stall" else {}))
    )
    with pytest.raises(error) as caught:
        await judged.ask()
    assert caught.value.retryable
    assert judged.texts
    await judged.recorded(1)
    assert (await judged.ask()).text  # as the person does who is told
    verdict = await judged.verdict()
    assert verdict["findings"] == []
    assert verdict["faults_injected"] == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, ModelRequestError), (401, ModelAuthError), (404, ModelNotFoundError)],
)
async def test_what_cannot_pass_is_not_tried_again(
    judged: Judged, status: int, error: type[ModelError]
) -> None:
    await judged.expect({"type": "fail", "status": status})
    with pytest.raises(error):
        await judged.ask()
    verdict = await judged.verdict()
    assert (verdict["findings"], verdict["attempts"]) == ([], 1)


async def test_an_outage_ends_after_three_attempts(judged: Judged) -> None:
    await judged.expect({"type": "fail", "status": 503, "times": None})
    with pytest.raises(ModelOverloadedError):
        await judged.ask()
    verdict = await judged.verdict()
    assert (verdict["findings"], verdict["attempts"]) == ([], 3)


async def test_a_prompt_over_the_window_is_an_overflow(judged: Judged) -> None:
    long = ModelRequest(REQUEST.model, "", History([user("word " * 5000, 1)]))
    with pytest.raises(ModelOverflowError):
        await judged.ask(long)
    assert (await judged.verdict())["findings"] == []


async def test_a_tool_call_comes_whole(judged: Judged) -> None:
    call = {"name": "get_weather", "arguments": {"city": "Paris"}}
    await judged.expect({"type": "reply", "tool_calls": [call]})
    reply = await judged.ask(ModelRequest(REQUEST.model, "", REQUEST.history, (WEATHER,)))
    assert reply.stop_reason == "toolUse"
    assert [(tool_call.name, tool_call.arguments) for tool_call in reply.tool_calls] == [
        ("get_weather", {"city": "Paris"})
    ]


@pytest.mark.parametrize(
    "judged", [api for api in WIRE_FORMATS if api != "google-generative-ai"], indirect=True
)
async def test_arguments_that_are_not_json_reach_the_tool_layer(judged: Judged) -> None:
    await judged.expect({"type": "tool_fault", "kind": "malformed_arguments"})
    reply = await judged.ask(ModelRequest(REQUEST.model, "", REQUEST.history, (WEATHER,)))
    assert [set(tool_call.arguments) for tool_call in reply.tool_calls] == [{RAW_ARGUMENTS}]
