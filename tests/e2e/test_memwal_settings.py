"""The memory plugin in a gateway: its switches, its files, and texts that are not sent."""

import json
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.model.message import ToolCall
from skerry.ports.model import ModelRequest
from skerry.testing.model import ScriptedModel, Step
from tests.e2e.test_memwal import BLOCK, FACT, INSTRUCTION, ask, config, until
from tests.support.fake_relayer import fake_relayer
from tests.support.whole import whole_gateway

SWITCHED = "I prefer small boats to large ones since I can remember"
NOTE = "The spare key is under the third stone."


def answers(_: ModelRequest) -> Sequence[Step]:
    return ["Noted."]


@pytest.mark.requirement("memwal-capture-setting-auto")
@pytest.mark.requirement("memwal-restart-after-config")
async def test_capture_is_switched_by_a_changed_configuration_and_a_restart(tmp_path: Path) -> None:
    home, hooks = tmp_path / "state", Hooks()
    async with fake_relayer() as (relayer, url):
        off = config(url, autoCapture=False)
        async with (
            whole_gateway(home, hooks, config=off, model=ScriptedModel(answers)) as (_, to),
            GatewayClient(to) as client,
        ):
            stats = await client.request("memory-memwal.stats")
            assert (stats["autoCapture"], stats["autoRecall"]) == (False, True)
            await ask(client, FACT, "k1")
        (home / "skerry.json").write_text(json.dumps(config(url)))
        async with (
            whole_gateway(home, Hooks(), model=ScriptedModel(answers)) as (_, to),
            GatewayClient(to) as client,
        ):
            assert (await client.request("memory-memwal.stats"))["autoCapture"] is True
            await ask(client, SWITCHED, "k2")
            await until(lambda: SWITCHED in str(relayer.memories))
    assert [memory.text for memory in relayer.memories if "Noted" not in memory.text] == [SWITCHED]


@pytest.mark.requirement("memwal-hooks-invisible")
async def test_nothing_tells_the_model_who_put_the_memories_there(tmp_path: Path) -> None:
    model = ScriptedModel(answers)
    plain = {key: value for key, value in config("http://x").items() if key != "plugins"}
    plain["plugins"] = {"slots": {"memory": "none"}}
    question = "Which backend language, which prefers TypeScript?"
    async with (
        whole_gateway(tmp_path / "without", Hooks(), config=plain, model=model) as (_, to),
        GatewayClient(to) as client,
    ):
        await ask(client, question, "k1")
    before = model.requests[-1].request
    async with fake_relayer() as (relayer, url):
        relayer.add("User prefers TypeScript for backend work")
        relayer.add("User's company uses <Kubernetes>")
        configuration = config(url, minRelevance=0)
        async with (
            whole_gateway(tmp_path / "with", Hooks(), config=configuration, model=model) as (_, to),
            GatewayClient(to) as client,
        ):
            await ask(client, question, "k1")
    after = model.requests[-1]
    assert after.last == f"{BLOCK}\n\n{question}"
    added = set(after.request.system.splitlines()) - set(before.system.splitlines())
    added = {line for line in added if str(tmp_path) not in line}
    assert added == {INSTRUCTION}
    assert [spec.name for spec in after.request.tools] == [spec.name for spec in before.tools]
    words = f"{BLOCK} {INSTRUCTION}".lower()
    assert not [word for word in ("plugin", "hook", "relayer", "inject") if word in words]


@pytest.mark.requirement("memwal-two-mechanisms")
@pytest.mark.requirement("memwal-turn-sequence")
@pytest.mark.requirement("memwal-coexists-with-files")
async def test_the_model_keeps_its_notes_in_files_while_the_plugin_recalls_and_captures(
    tmp_path: Path,
) -> None:
    calls = [ToolCall("1", "write", {"path": "MEMORY.md", "content": NOTE})]

    def writing(_: ModelRequest) -> Sequence[Step]:
        return [calls.pop()] if calls else ["Noted."]

    model = ScriptedModel(writing)
    async with fake_relayer() as (relayer, url):
        relayer.add("User prefers TypeScript for backend work")
        fields = config(url, minRelevance=0) | {"tools": {"profile": "coding"}}
        async with (
            whole_gateway(tmp_path / "state", Hooks(), config=fields, model=model) as (app, to),
            GatewayClient(to) as client,
        ):
            assert "MEMORY.md" in (tmp_path / "state" / "workspace" / "AGENTS.md").read_text()
            await ask(client, FACT, "k1")
            notes = tmp_path / "state" / "workspace" / "MEMORY.md"
            assert notes.read_text() == NOTE
            await until(lambda: FACT in str(relayer.memories))
            await client.request("sessions.reset", {"key": "main"})
            with anyio.fail_after(60):
                await ask(client, "What do I prefer for backend services?", "k2")
            assert app.context.config().plugins.slots.memory == "memory-memwal"
    request = model.requests[-1]
    assert NOTE in request.request.system
    assert "memwal-memories" in request.last
    assert FACT in request.last
