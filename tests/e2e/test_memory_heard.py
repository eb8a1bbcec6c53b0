"""Memories that the prompt contains already are left out of recalls, in a whole gateway."""

import json
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway

QUESTION = "Where does the key of the shed hang?"
NOTE = "The key of the shed hangs behind the clock.\n"
ASKED = f"{QUESTION} Please."
SEARCH = f"call memory_search {json.dumps({'query': QUESTION})}"


async def say(client: GatewayClient, key: str, text: str, number: int) -> str:
    """Says it; returns the answer."""
    params = {"sessionKey": key, "message": text, "idempotencyKey": f"{key}{number}"}
    payload = await client.request("agent", params, expect_final=True)
    answer: str = payload["result"]["payloads"][0]["text"]
    return answer


async def search_results(client: GatewayClient, key: str) -> list[dict[str, Any]]:
    """Returns the results of the last search of the tool in a conversation."""
    history = await client.request("chat.history", {"sessionKey": key})
    *_, last = [message for message in history["messages"] if message["role"] == "toolResult"]
    results: list[dict[str, Any]] = json.loads(last["content"][0]["text"])["results"]
    return results


async def indexed(client: GatewayClient, text: str) -> None:
    """Waits until a conversation with the text is found by a person."""
    with anyio.fail_after(60):
        while True:
            await client.request("memory.sync", {})
            answer = await client.request("memory.search", {"query": text, "source": "sessions"})
            if any(text in result["text"] for result in answer["results"]):
                return
            await anyio.sleep(0.2)


async def found_for(client: GatewayClient, key: str, number: int) -> list[str]:
    """Searches by the tool; returns the snippets of what was said."""
    await say(client, key, SEARCH, number)
    return [
        row["snippet"] for row in await search_results(client, key) if row["source"] == "sessions"
    ]


def gateway(home: Path) -> AbstractAsyncContextManager[GatewayProcess]:
    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    (workspace / "MEMORY.md").write_text(NOTE, "utf-8")
    search = {"provider": "none", "sync": {"sessions": {"deltaBytes": 1, "deltaMessages": 1}}}
    compaction = {"keepRecentTokens": 100}
    defaults = {"workspace": str(workspace), "memorySearch": search, "compaction": compaction}
    return running_gateway(home=home, config={"agents": {"defaults": defaults}})


async def test_the_present_conversation_takes_no_place_and_another_does(tmp_path: Path) -> None:
    async with gateway(tmp_path) as process, GatewayClient(process.address) as client:
        for number in range(8):
            await say(client, "main", f"{QUESTION} I ask for the {number}. time.", number)
        await indexed(client, "I ask for the 7. time.")
        await say(client, "main", SEARCH, 100)
        (payload,) = await search_results(client, "main")
        assert payload["path"] == "MEMORY.md", "neither the questions nor their echo"
        await say(client, "agent:main:other", SEARCH, 101)
        sources = {row["source"] for row in await search_results(client, "agent:main:other")}
        assert sources == {"memory", "sessions"}, "there they were not heard"


async def test_of_what_nobody_noted_nothing_is_found(tmp_path: Path) -> None:
    async with gateway(tmp_path) as process, GatewayClient(process.address) as client:
        params = {"query": "Which opera did the composer of the anthem finish last?"}
        await say(client, "main", f"call memory_search {json.dumps(params)}", 1)
        assert await search_results(client, "main") == []
        answer = await client.request("memory.search", {**params, "source": "memory"})
        assert answer["results"] == []
        near = {"query": "the clock of the opera", "minScore": 0}
        assert (await client.request("memory.search", near))["results"]


async def shown_by_tool(client: GatewayClient) -> str:
    return "\n".join(await found_for(client, "main", 8))


async def recalled(client: GatewayClient) -> str:
    """Returns the text before the question in the prompt; the model repeats it."""
    (fence,) = re.findall(
        r"<(recalled-memory .+?)>(.*)</\1>", await say(client, "main", ASKED, 8), re.DOTALL
    )
    text: str = fence[1]
    return text


@pytest.mark.parametrize("way", [shown_by_tool, recalled])
async def test_what_was_summarised_is_found_again_and_what_was_said_since_is_not(
    tmp_path: Path, way: Callable[[GatewayClient], Awaitable[str]]
) -> None:
    async with gateway(tmp_path) as process, GatewayClient(process.address) as client:
        await say(client, "main", "The key of the shed has a twin: it hangs in the mill.", 0)
        for number in range(1, 6):
            await say(client, "main", f"message {number} about that long weather " * 12, number)
        await say(client, "main", f"{QUESTION} I ask for the last time.", 6)
        await indexed(client, "I ask for the last time.")
        assert await found_for(client, "main", 7) == [], "all of it is before the model"
        assert (await client.request("sessions.compact", {"key": "main"}))["compacted"]
        found = await way(client)
        assert "it hangs in the mill" in found
        assert "for the last time" not in found
