"""The bytes that a provider caches: the same over edits, notes and a kill of the gateway."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, model_config
from skerry.testing.model_server import StubModelServer

NOTE: Final = 'call memory_write {"text": "The boat is blue.", "section": "Boats"}'


def encoded(message: Any) -> bytes:
    return msgspec.json.encode(message)


class Talk:
    """Says one thing after the other in the main conversation."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway

    async def say(self, *texts: str) -> None:
        async with GatewayClient(self._gateway.address) as client:
            for text in texts:
                sent = {
                    "sessionKey": "main",
                    "message": text,
                    "idempotencyKey": os.urandom(8).hex(),
                }
                with anyio.fail_after(60):
                    await client.request("agent", sent, expect_final=True)

    async def show(self) -> dict[str, Any]:
        async with GatewayClient(self._gateway.address, scopes=("operator.read",)) as client:
            payload: dict[str, Any] = await client.request("prompt.show")
        return payload


def talks(model: StubModelServer) -> list[dict[str, Any]]:
    return [
        request.body for request in model.requests if request.path.endswith("/chat/completions")
    ]


@asynccontextmanager
async def opened(home: Path) -> AsyncGenerator[tuple[GatewayProcess, StubModelServer]]:
    """Gives a gateway, not yet started, and the model that it asks."""
    async with StubModelServer() as model:
        file = home / "skerry.json"
        file.touch(mode=0o600)
        file.write_bytes(encoded(model_config(model.base_url)))
        gateway = GatewayProcess(home, arguments=("--model", "configured"))
        try:
            yield gateway, model
        finally:
            await gateway.end()


def prefixes(bodies: Sequence[dict[str, Any]]) -> list[float]:
    """Returns which part of each request is the one before it, whole and at its begin.

    Raises:
        AssertionError: prompt, tools or an earlier message differ.
    """
    first, *later = bodies
    fixed, *said = map(encoded, first["messages"])
    tools = encoded(first["tools"])
    found = []
    for body in later:
        system, *messages = map(encoded, body["messages"])
        assert (system, encoded(body["tools"])) == (fixed, tools)
        assert messages[: len(said)] == said
        before, all_of_it = (len(fixed + tools + b"".join(part)) for part in (said, messages))
        found.append(before / all_of_it)
        said = messages
    return found


async def test_each_request_begins_with_the_one_before_it_over_edits_and_a_kill(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    async with opened(tmp_path) as (gateway, model):
        talk = Talk(gateway)
        await gateway.start()
        (workspace / "BOOTSTRAP.md").unlink()
        await talk.say("one", "two")
        (workspace / "SOUL.md").write_text("Speak like a pirate.", encoding="utf-8")
        await talk.say("three", NOTE, "four")
        (workspace / "USER.md").write_text("Call me Ada.", encoding="utf-8")
        shown = await talk.show()
        await gateway.kill()
        (workspace / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
        await gateway.start()
        await talk.say("five", 'call read {"path": "SOUL.md"}')
        await talk.say(*(f"more {number}" for number in range(12)))
        bodies = talks(model)
        await talk.say("/context reload", "six")
        reloaded = talks(model)[-1]
    shares = prefixes(bodies)
    assert len(shares) == 20
    assert sum(shares) / len(shares) > 0.95
    texts = [message["content"] for message in bodies[-1]["messages"] if message["role"] == "user"]
    rows = [text for text in texts if text.startswith("[From the gateway: ")]
    assert [one.partition(" changed")[0] for one in rows] == [
        "[From the gateway: SOUL.md",
        "[From the gateway: USER.md and AGENTS.md",
    ]
    assert shown["notes"][0].startswith("SOUL.md, USER.md, MEMORY.md changed after")
    for text in ("Speak like a pirate.", "Call me Ada.", "Be brief.", "The boat is blue."):
        assert text not in bodies[-1]["messages"][0]["content"]
        assert text in reloaded["messages"][0]["content"]
