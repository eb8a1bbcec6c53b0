"""After a compaction a question gets back what only the notes still have: a whole gateway.

The model is a script that knows nothing but the bytes of its request: it answers with the fact if
that stands in the body, and else that it does not know.
"""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.model_server import HttpStep, StubModelServer

FACTS = {
    "Which code opens the vault of the museum?": ("MEMORY.md", "opens with 7731"),
    "Who repairs the sails of the yacht?": ("memory/2024-03-05.md", "Odile in Brest"),
    "What is the blood type of the parrot?": ("memory/2024-05-17.md", "type is PX-9"),
}
NOTES = {
    "MEMORY.md": "# Museum\n\nThe vault of the museum opens with 7731.\n",
    "memory/2024-03-05.md": "# Boats\n\nThe sails of the yacht are repaired by Odile in Brest.\n",
    "memory/2024-05-17.md": "- The parrot saw a doctor; its blood type is PX-9.\n",
}
FENCE = re.compile(r'<(recalled-memory id="[0-9a-f]{16}")>(.*)</\1>', re.DOTALL)
CHATTER = [f"message {number} about the long weather of that week " * 8 for number in range(6)]


def answers(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Answers from the last message; the `MEMORY.md` in the system prompt does not count."""
    text = last(body)
    asked = text.rpartition("</recalled-memory")[2]
    known = (told for question, (_, told) in FACTS.items() if question in asked and told in text)
    return [next(known, "I do not know.")]


def last(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else "".join(row["text"] for row in content)


@asynccontextmanager
async def talking(
    home: Path, **config: Any
) -> AsyncIterator[tuple[GatewayClient, StubModelServer, GatewayProcess]]:
    """Gives a gateway whose owner has notes, and has talked of other things until a summary."""
    workspace = home / "workspace"
    for path, text in NOTES.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_text(text, "utf-8")
    async with StubModelServer(answers) as model:
        server = {"baseUrl": model.base_url, "apiKey": "k", "models": [{"id": "stub"}]}
        defaults = {
            "workspace": str(workspace),
            "model": {"primary": "test/stub"},
            "compaction": {"keepRecentTokens": 50},
        }
        fields = {
            "models": {"providers": {"test": server}},
            "agents": {"defaults": defaults},
            **config,
        }
        opening = running_gateway(home=home, config=fields, arguments=["--model", "configured"])
        async with opening as gateway, GatewayClient(gateway.address) as client:
            yield client, model, gateway


async def ask(client: GatewayClient, text: str) -> str:
    params = {"sessionKey": "main", "message": text, "idempotencyKey": text[:60]}
    payload = await client.request("agent", params, expect_final=True)
    told: str = payload["result"]["payloads"][0]["text"]
    return told


async def test_the_request_has_the_passage_that_the_question_needs(tmp_path: Path) -> None:
    async with talking(tmp_path) as (client, model, _):
        for text in CHATTER:
            await ask(client, text)
        early = next(iter(FACTS))
        assert await ask(client, early) == "I do not know.", "nothing was summarised yet"
        assert (await client.request("sessions.compact", {"key": "main"}))["compacted"]
        for question, (path, told) in FACTS.items():
            asked = f"{question} Please."
            assert await ask(client, asked) == told
            said = last(model.requests[-1].body)
            fence = FENCE.search(said)
            assert fence is not None
            assert f"Source: {path}#L" in fence[2]
            assert told in fence[2]
            assert asked in said[fence.end() :]
        history = await client.request("chat.history", {"sessionKey": "main"})
    assert "recalled-memory" not in json.dumps(history)


async def test_without_a_memory_the_request_has_none_of_it(tmp_path: Path) -> None:
    async with talking(tmp_path, plugins={"slots": {"memory": "none"}}) as (client, model, _):
        for text in CHATTER:
            await ask(client, text)
        assert (await client.request("sessions.compact", {"key": "main"}))["compacted"]
        for question in FACTS:
            assert await ask(client, question) == "I do not know."
    assert not any("recalled-memory" in json.dumps(request.body) for request in model.requests)
