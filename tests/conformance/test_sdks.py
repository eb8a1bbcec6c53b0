"""The official SDKs read the recorded streams as we do: text, thinking, calls, usage, ending."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.infra.http import HttpClient
from skerry.model.message import ThinkingBlock, user
from skerry.ports.model import History, ModelInfo, ModelReply, ModelRequest, ReplyListener
from skerry.providers.streaming_call import Endpoint
from skerry.sdk.features import model_apis
from tests.support.mocks import program
from tests.support.served import serving
from tests.support.streams import REPLIES, recorded

pytestmark = pytest.mark.full("the official SDKs")

READER = Path(__file__).parent / "sdk" / "read.py"
STOPS = {
    "stop": {"stop", "completed", "end_turn", "STOP"},
    "toolUse": {"tool_calls", "completed", "tool_use", "STOP"},
    "length": {"length", "max_output_tokens", "max_tokens", "MAX_TOKENS"},
}


async def ours(api: str, url: str) -> ModelReply:
    base = url if api == "google-generative-ai" else f"{url}/v1"
    request = ModelRequest(ModelInfo("p", "m", "M", api=api), "", History([user("hi", 1)]))
    async with HttpClient() as http:
        return (
            await model_apis()
            .open(http, Endpoint("P", base, "any-key", api=api))
            .complete(request, ReplyListener())
        )


async def theirs(api: str, url: str) -> dict[str, Any]:
    python = program("SKERRY_SDK_PYTHON", ".venv-sdk/bin/python")
    completed = await anyio.run_process([python, str(READER), api, url], stderr=None)
    read: dict[str, Any] = json.loads(completed.stdout)
    return read


@pytest.mark.parametrize("name", REPLIES)
async def test_the_official_sdk_reads_the_stream_as_we_do(name: str) -> None:
    api = name.partition("/")[0]
    with anyio.fail_after(90):
        async with serving(recorded(name)) as served:
            reply = await ours(api, served.url)
            sdk = await theirs(api, served.url)
    thinking = [block.thinking for block in reply.content if isinstance(block, ThinkingBlock)]
    assert (reply.text, "".join(thinking)) == (sdk["text"], sdk["thinking"])
    assert [[call.name, call.arguments] for call in reply.tool_calls] == sdk["calls"]
    for call, theirs_id in zip(reply.tool_calls, sdk["ids"], strict=True):
        assert theirs_id in {call.id, None}
    usage = reply.usage
    assert [usage.input + usage.cache_read + usage.cache_write, usage.output] == sdk["usage"]
    assert usage.cache_read == sdk["cached"]
    assert sdk["stop"] in STOPS[reply.stop_reason]
