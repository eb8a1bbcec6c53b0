"""A whole gateway whose QMD hangs or loses its index: the model's tool is answered all the same."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from tests.support.fake_qmd import FakeQmd
from tests.support.whole import whole_gateway

ASKED = {"query": "When does the harbour open?"}
FOUND = "The harbour opens at seven."


@asynccontextmanager
async def remembering(home: Path, fake: FakeQmd, **qmd: object) -> AsyncIterator[GatewayClient]:
    """Gives a client of a gateway with the fake QMD in the slot, and one fact in its memory."""
    config = {
        "memory": {"backend": "qmd", "qmd": {"command": str(fake.command), **qmd}},
        "agents": {"defaults": {"memorySearch": {"provider": "none"}}},
    }
    async with (
        whole_gateway(home, Hooks(), config=config, environ=fake.environ) as (_, address),
        GatewayClient(address) as client,
    ):
        await client.request("memory.write", {"text": FOUND, "section": "Places"})
        report = await client.request("memory.sync", {"force": True}, timeout=60)
        assert (report["backend"], report["fallback"]) == ("qmd", None)
        yield client


async def tool(client: GatewayClient, run: str) -> dict[str, Any]:
    """Returns the result of the tool in the run."""
    message = f"call memory_search {json.dumps(ASKED)}"
    params = {"sessionKey": "main", "idempotencyKey": run, "message": message}
    await client.request("chat.send", params)
    await client.request("agent.wait", {"runId": run, "timeoutMs": 60_000}, timeout=60)
    history = await client.request("chat.history", {"sessionKey": "main"})
    results = [message for message in history["messages"] if message["role"] == "toolResult"]
    payload: dict[str, Any] = json.loads(results[-1]["content"][0]["text"])
    return payload


@pytest.mark.requirement("qmd-fallback-manager")
@pytest.mark.parametrize("daemon", [False, True])
async def test_a_qmd_that_hangs_is_replaced_for_the_tool_too(
    tmp_path: Path, *, daemon: bool
) -> None:
    fake = FakeQmd(tmp_path / "program")
    async with remembering(tmp_path / "home", fake, daemon=daemon) as client:
        assert (await tool(client, "1"))["backend"] == "qmd"
        fake.behave(query="hang", asked="hang")
        for run in ("2", "3"):
            with anyio.fail_after(60):
                payload = await tool(client, run)
            assert payload["backend"] == "builtin", payload
            assert FOUND in payload["results"][0]["snippet"]
            assert payload["fallback"]["from"] == "qmd"
            assert "did not answer within" in payload["fallback"]["reason"]
        status = await client.request("memory.status")
        assert (status["backend"], status["fallback"]["from"]) == ("builtin", "qmd")
        fake.behave()
        report = await client.request("memory.sync", {"force": True}, timeout=60)
        assert report["backend"] == "qmd"
        assert (await tool(client, "4"))["backend"] == "qmd"


async def test_a_damaged_index_of_qmd_heals_and_a_forced_sync_says_whose_it_made(
    tmp_path: Path,
) -> None:
    home, fake = tmp_path / "home", FakeQmd(tmp_path / "program")
    limits = {"timeoutMs": 30_000}
    async with remembering(home, fake, daemon=False, limits=limits) as client:
        (home / "agents/main/qmd/xdg-cache/qmd/index.sqlite").write_bytes(b"rot" * 2000)
        payload = await client.request("memory.search", ASKED, timeout=60)
        assert payload["backend"] == "builtin"
        assert payload["fallback"]["reason"] == (
            "qmd query failed with code 1: SqliteError: file is not a database"
        )
        report = await client.request("memory.sync", {"force": True}, timeout=60)
        assert (report["backend"], report["fallback"]) == ("qmd", None)
        payload = await client.request("memory.search", ASKED, timeout=60)
        assert (payload["backend"], payload["fallback"]) == ("qmd", None)
        assert "rebuilt" in (await client.request("memory.status"))["notes"][0]
        fake.behave(collection="die", update="die", query="die")
        await client.request("memory.search", ASKED, timeout=60)
        report = await client.request("memory.sync", {"force": True}, timeout=60)
        assert (report["backend"], report["fallback"]["from"]) == ("builtin", "qmd")
