"""Sub-agents in a whole gateway: an agent starts one, and its report reaches the conversation."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.client.discover import GatewayAddress
from skerry.infra import supervise
from skerry.infra.backoff import Backoff
from skerry.model.errors import StoreFailedError
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ToolCall, ToolResultMessage, UserMessage
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.ports.model import ModelRequest
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels, Step, last_text
from tests.support.chaos import until
from tests.support.moments import Life, Moments, life

MAIN: Final = "agent:main:main"
CONFIG: Final[dict[str, Any]] = {
    "agents": {"defaults": {"subagents": {"maxConcurrent": 8}}},
    "commands": {"ownerAllowFrom": ["memory:ann"]},
    "session": {"dmScope": "main"},
}


def answers(request: ModelRequest) -> Sequence[Step]:
    """Starts a sub-agent for a message that begins with `spawn`; else answers with the message."""
    last = request.history.messages[-1]
    text = last_text(request)
    if isinstance(last, UserMessage) and "spawn " in text:
        task = text.rpartition("spawn ")[2]
        cleanup = "delete" if task.endswith("once") else "keep"
        more = {"task": task, "label": "helper", "cleanup": cleanup}
        return [ToolCall("call_1", "sessions_spawn", more)]
    if isinstance(last, ToolResultMessage):
        return ["started"]
    return [f"did: {text}"]


async def session_messages(address: GatewayAddress, key: str = MAIN) -> list[tuple[str, str]]:
    """Returns role and text of the messages of a session."""
    async with GatewayClient(address) as client:
        history = await client.request("chat.history", {"sessionKey": key})
    return [
        (message["role"], "".join(part.get("text", "") for part in message["content"]))
        for message in history["messages"]
    ]


async def announced(living: Life, number: int = 1) -> list[str]:
    """Returns the announcements in the main session, once there are so many and all is quiet."""
    texts: list[str] = []
    with anyio.fail_after(60):
        while len(texts) < number or living.gateway.dispatch.active():
            await anyio.lowlevel.checkpoint()
            texts = [
                text
                for role, text in await session_messages(living.address)
                if role == "user" and text.startswith("A sub-agent")
            ]
    return texts


def models() -> ScriptedModels:
    return ScriptedModels(ScriptedModel(answers))


async def test_the_report_of_a_sub_agent_reaches_the_conversation_and_its_person(
    tmp_path: Path,
) -> None:
    async with life(tmp_path, models=models(), config=CONFIG) as living:
        living.platform.say("spawn count the boats", peer="ann", message_id="m1")
        (text,) = await announced(living)
        assert "Status: success" in text
        assert "did: count the boats" in text
        assert "session agent:main:subagent:" in text
        await until(lambda: len(living.platform.received()) == 2)
        first, second = [message.text for message in living.platform.received()]
        assert first == "started"
        assert "did: count the boats" in second


POINTS: Final = (
    "dispatch.accepted:2",  # the sub-agent is accepted
    "subagent.before-announce:1",
    "dispatch.accepted:3",  # its report is accepted
    "subagent.announced:1",
)


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> Moments:
    """A life in which a sub-agent starts and reports, at each step."""
    folder = tmp_path_factory.mktemp("subagents")
    kept = Moments(folder / "now", folder / "moments", frozenset(POINTS))

    async def run() -> None:
        async with life(kept.folder, kept.reach, models(), CONFIG) as living:
            kept.turn = living.gateway.context.store._writer.turn
            living.platform.say("spawn count the boats", peer="ann", message_id="m1")
            await announced(living)
            assert kept.reached == kept.wanted

    anyio.run(run)
    return kept


@pytest.mark.requirement("subagents-announce-step")
@pytest.mark.requirement("subagents-registry-persisted")
@pytest.mark.requirement("subagents-await-completion")
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_any_step_loses_no_report_and_doubles_none(
    tmp_path: Path, moments: Moments, point: str
) -> None:
    folder = shutil.copytree(moments[point], tmp_path / "copy")
    async with life(folder, models=models()) as second:
        (text,) = await announced(second)
        assert "did: count the boats" in text
        await until(lambda: reports(second) == 1, second.platform.received)
    async with life(folder, models=models()) as third:
        assert len(await announced(third)) == 1
        assert reports(third) == 1


async def test_a_report_that_the_store_refuses_is_announced_later_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervise, "RESTARTS", Backoff(base=0.01, cap=60.0))
    refusals = [StoreFailedError("The disk is full."), StoreFailedError("The disk is full.")]

    def refuse(point: str) -> None:
        if point == "subagent.before-announce" and refusals:
            raise refusals.pop()

    async with life(tmp_path, refuse, models(), CONFIG) as living:
        living.platform.say("spawn count the boats", peer="ann", message_id="m1")
        (text,) = await announced(living)
        assert "did: count the boats" in text
        assert not refusals


async def test_a_kill_when_a_session_was_archived_archives_it_once(tmp_path: Path) -> None:
    point = "subagent.archived:1"
    kept = Moments(tmp_path / "now", tmp_path / "moments", frozenset({point}))
    async with life(kept.folder, kept.reach, models(), CONFIG) as first:
        kept.turn = first.gateway.context.store._writer.turn
        first.platform.say("spawn count the boats once", peer="ann", message_id="m1")
        await until(lambda: kept.reached == kept.wanted, lambda: kept.reached)
    async with life(kept[point], models=models()) as second:
        await until(lambda: reports(second) == 1, second.platform.received)
        assert len(await announced(second)) == 1
        async with GatewayClient(second.address) as client:
            rows = (await client.request("sessions.list"))["sessions"]
        assert [row["key"] for row in rows] == [MAIN]
        folder = second.home / "agents" / "main" / "sessions"
        await until(
            lambda: len(list(folder.glob("*.deleted.*"))) == 1, lambda: list(folder.iterdir())
        )


def reports(living: Life) -> int:
    """Returns the number of messages on the platform that pass a report on."""
    return sum("did: count the boats" in message.text for message in living.platform.received())


async def test_stopping_the_parent_stops_its_sub_agents_and_nothing_is_announced(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()

    def held(request: ModelRequest) -> Sequence[Step]:
        if "spawn" not in last_text(request) and "hold" in last_text(request):
            return [gate, "late"]
        return answers(request)

    async with life(tmp_path, models=ScriptedModels(ScriptedModel(held)), config=CONFIG) as living:
        await say(living, "r1", "spawn hold on")
        with anyio.fail_after(60):
            await gate.reached.wait()
        assert "Stopped 1 sub-agent." in await say(living, "r2", "/stop")
        with anyio.fail_after(60):
            while living.gateway.dispatch.active():
                await anyio.lowlevel.checkpoint()
        texts = [text for _, text in await session_messages(living.address)]
        assert not any(text.startswith("A sub-agent") for text in texts)


async def say(living: Life, run_id: str, text: str) -> str:
    """Sends a message of the owner; returns the reply."""
    key = SessionKey.main()
    dispatch = living.gateway.dispatch
    with anyio.fail_after(60):
        await dispatch.submit(RunRequest(RunId(run_id), key, text, origin=Origin.OWNER))
        result = await dispatch.wait(RunId(run_id), 60)
    assert result is not None
    return "\n".join(result.payloads)


async def test_the_owner_lists_reads_addresses_and_stops_sub_agents(tmp_path: Path) -> None:
    gate = ReplyGate()

    def held(request: ModelRequest) -> Sequence[Step]:
        return [gate, "late"] if last_text(request) == "hold on" else answers(request)

    async with life(tmp_path, models=ScriptedModels(ScriptedModel(held)), config=CONFIG) as living:
        assert "has started no sub-agent" in await say(living, "r0", "/subagents")
        await say(living, "r1", "spawn count the boats")
        await announced(living)
        assert "helper (success): count the boats" in await say(living, "r2", "/subagents list")
        assert "did: count the boats" in await say(living, "r3", "/subagents log helper")
        assert "- status: success" in await say(living, "r4", "/subagents info 1")
        assert "did: and now" in await say(living, "r5", "/subagents send helper and now")
        assert "No sub-agent has the name" in await say(living, "r6", "/subagents info other")
        await say(living, "r7", "spawn hold on")
        with anyio.fail_after(60):
            await gate.reached.wait()
        assert "1. `" in await say(living, "r8", "/subagents")
        assert await say(living, "r9", "/subagents kill all") == "Stopped 1 sub-agent."
        assert len(await announced(living)) == 1


async def test_the_command_line_and_clients_read_and_stop_sub_agents(tmp_path: Path) -> None:
    async with life(tmp_path, models=models(), config=CONFIG) as living:
        await say(living, "r1", "spawn count the boats")
        await announced(living)
        async with GatewayClient(living.address) as client:
            (row,) = (await client.request("subagents.list"))["subagents"]
            assert (row["status"], row["parentKey"], row["active"]) == ("success", MAIN, False)
            assert row["task"] == "count the boats"
            log = await client.request("subagents.log", {"target": row["key"]})
            assert [message["role"] for message in log["messages"]] == ["user", "assistant"]
            sent = await client.request("subagents.send", {"target": "helper", "message": "more"})
            assert sent["reply"] == "did: more"
            killed = await client.request("subagents.kill", {"sessionKey": "main"})
            assert killed["stopped"] == []
            (session,) = (await client.request("sessions.list", {"spawnedBy": "main"}))["sessions"]
            assert session["key"] == row["key"]
            assert session["spawnedBy"] == MAIN
