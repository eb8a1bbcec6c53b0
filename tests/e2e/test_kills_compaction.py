"""`kill -9` between the steps of a compaction: the conversation as it was, or compacted; usable."""

import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.client.client import GatewayClient
from skerry.model.errors import GatewayUnreachableError
from skerry.store import DATABASE, compactions, open_store, sessions
from skerry.testing.gateway import EndedEarlyError, GatewayProcess, running_gateway

SAID = [f"message {number} of the blue boat" for number in range(6)]


async def ask(gateway: GatewayProcess, method: str, **params: Any) -> Any:
    async with GatewayClient(gateway.address) as client:
        return await client.request(method, params, expect_final=method == "agent")


async def shown(gateway: GatewayProcess) -> list[str]:
    payload = await ask(gateway, "chat.history", sessionKey="main")
    # A command that a kill cut off is closed by a message without text, which says why.
    silent = [message for message in payload["messages"] if not message["content"]]
    assert all("give the command again" in row["errorMessage"] for row in silent)
    return [
        "".join(block["text"] for block in message["content"]) for message in payload["messages"]
    ]


@pytest.mark.parametrize(
    ("fault", "committed"),
    [
        pytest.param("dispatch.before-change", False, id="before it begins"),
        pytest.param("dispatch.after-change", True, id="when it is committed"),
    ],
)
async def test_a_kill_during_a_compaction_leaves_a_usable_conversation(
    tmp_path: Path, fault: str, *, committed: bool
) -> None:
    async with running_gateway(home=tmp_path, first=("--fault", fault)) as gateway:
        for number, text in enumerate(SAID):
            await ask(
                gateway, "agent", sessionKey="main", message=text, idempotencyKey=f"k{number}"
            )
        with suppress(GatewayUnreachableError):
            await ask(gateway, "sessions.compact", key="main")
        with anyio.fail_after(60):
            assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        texts = await shown(gateway)
        assert [text for text in texts if text.startswith("message")] == SAID
        assert texts.count("Compaction") == committed
        answer = await ask(
            gateway, "agent", sessionKey="main", message="go on", idempotencyKey="k9"
        )
        assert answer["result"]["payloads"][0]["text"] == "echo: go on"
        if not committed:
            done = await ask(gateway, "sessions.compact", key="main")
            assert done["compacted"]
        assert await gateway.stop() == 0
    async with open_store(tmp_path / DATABASE) as store:
        session = await store.read(lambda reader: sessions.find(reader, "agent:main:main"))
        assert session is not None
        state = await store.read(lambda reader: compactions.state(reader, session.session_id))
        assert state.count == 1
        assert state.last is not None
    (file,) = (tmp_path / "agents" / "main" / "sessions").glob("*.jsonl")
    kinds = [msgspec.json.decode(line)["type"] for line in file.read_bytes().splitlines()]
    assert kinds.count("compaction") == 1


async def test_killed_again_and_again_while_it_compacts_by_itself_nothing_is_lost(
    tmp_path: Path,
) -> None:
    """Each life of the gateway ends at another COMMIT of the run that compacts."""
    config = {"agents": {"defaults": {"compaction": {"keepRecentTokens": 50}}}}
    async with running_gateway(home=tmp_path, config=config) as gateway:
        for number, text in enumerate(SAID):
            await ask(
                gateway, "agent", sessionKey="main", message=text, idempotencyKey=f"k{number}"
            )
        assert await gateway.stop() == 0
        for number in range(1, 6):
            params = {"message": f"/compact {number}", "idempotencyKey": f"c{number}"}
            try:
                await gateway.start("--fault", f"store.before-commit:{number}")
                await ask(gateway, "agent", sessionKey="main", **params)
                await gateway.stop()
            except GatewayUnreachableError:
                with anyio.fail_after(60):
                    await gateway.wait()
            except EndedEarlyError:
                pass  # what the life before had left was as many COMMITs
        await gateway.start()
        texts = await shown(gateway)
        assert [text for text in texts if text.startswith("message")] == SAID
        answer = await ask(
            gateway, "agent", sessionKey="main", message="go on", idempotencyKey="k9"
        )
        assert answer["result"]["payloads"][0]["text"] == "echo: go on"
        assert await gateway.stop() == 0
