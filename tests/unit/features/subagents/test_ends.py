"""Ends of sub-agents: time limits, taint, archive, and how they are found."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.features.subagents import tables
from skerry.features.subagents.control import Control
from skerry.features.subagents.tables import Subagent, SubagentOutcome
from skerry.features.subagents.watch import Watch
from skerry.model.ids import SessionId, SessionKey
from skerry.model.message import TextBlock, ToolResultMessage
from skerry.model.origin import Origin
from skerry.ports.model import ModelRequest
from skerry.store import sessions
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, Step, echo, last_text
from tests.support.subagents import archived, config, ended, gateway, session_messages, spawn


@pytest.mark.requirement("subagents-await-completion")
@pytest.mark.requirement("subagents-spawn-tool-params")
@pytest.mark.requirement("subagents-announce-payload")
async def test_its_own_time_limit_ends_a_sub_agent_and_the_report_says_so(tmp_path: Path) -> None:
    gate = ReplyGate()

    def reply(request: ModelRequest) -> Sequence[Step]:
        return ["half", gate] if last_text(request) == "count" else echo(request)

    async with gateway(tmp_path / "h", config(), ScriptedModel(reply)) as application:
        answer = await spawn(application, runTimeoutSeconds=0.05)
        assert (await ended(application, answer["runId"])).status is SubagentOutcome.TIMEOUT
        texts = [message.text for message in await session_messages(application)]
        assert any("Status: timeout" in text for text in texts)


async def test_words_of_others_taint_the_sub_agent_and_return_with_its_report(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "h", config()) as application:
        answer = await spawn(application, taint=frozenset({Origin.WEB}))
        await ended(application, answer["runId"])
        key = SessionKey.parse(answer["childSessionKey"])
        assert (await session_messages(application, key))[0].origin is Origin.WEB
        told = next(
            m for m in await session_messages(application) if m.text.startswith("A sub-agent")
        )
        assert told.origin is Origin.WEB

        answer = await spawn(application, task="clean")
        row = await ended(application, answer["runId"])
        watch = Watch(application.dispatch)
        result = await application.dispatch.wait(row.run_id, 60)
        assert (await watch.report(row, result, row.status)).origin is None
        store = application.dispatch.runtime.store
        page = ToolResultMessage("c", "web_fetch", (TextBlock("x"),), False, 1, Origin.WEB)  # noqa: FBT003
        await store.write(
            lambda unit: sessions.append(
                unit, SessionId(row.session_id), sessions.tail(unit, row.session_id), "r", [page], 1
            )
        )
        assert (await watch.report(row, result, row.status)).origin is Origin.WEB


def files(home: Path, answer: Mapping[str, Any]) -> Callable[[Subagent], list[str]]:
    agent = SessionKey.parse(answer["childSessionKey"]).agent
    folder = home / "agents" / agent / "sessions"
    return lambda row: sorted(path.name for path in folder.glob(f"{row.session_id}*"))


@pytest.mark.requirement("subagents-archive-60min")
@pytest.mark.requirement("subagents-archive-rename")
@pytest.mark.requirement("subagents-registry-persisted")
async def test_its_session_is_archived_an_hour_after_its_end(tmp_path: Path) -> None:
    home, clock = tmp_path / "h", FakeClock()
    async with gateway(home, config(), clock=clock) as application:
        answer = await spawn(application)
        row = await ended(application, answer["runId"])
        assert row.archive_at == clock.now_ms() + 60 * 60_000
    named = files(home, answer)
    assert named(row) == [f"{row.session_id}.jsonl"]
    clock.advance(59 * 60_000)
    async with gateway(home, None, clock=clock) as application:
        await anyio.lowlevel.checkpoint()
    assert named(row) == [f"{row.session_id}.jsonl"]
    clock.advance(60_000)
    async with gateway(home, None, clock=clock) as application:
        await archived(application, row)
    (name,) = named(row)
    assert name.startswith(f"{row.session_id}.jsonl.deleted.")


async def test_cleanup_delete_archives_it_right_after_the_report(tmp_path: Path) -> None:
    home = tmp_path / "h"
    async with gateway(home, config()) as application:
        answer = await spawn(application, cleanup="delete")
        row = await ended(application, answer["runId"])
        await archived(application, row)
        assert any("A sub-agent" in message.text for message in await session_messages(application))
    (name,) = files(home, answer)(row)
    assert ".jsonl.deleted." in name


async def test_a_session_that_is_written_to_again_is_archived_later(tmp_path: Path) -> None:
    home, clock = tmp_path / "h", FakeClock()
    async with gateway(home, config(), clock=clock) as application:
        answer = await spawn(application)
        row = await ended(application, answer["runId"])
        await session_messages(application)
        clock.advance(50 * 60_000)
        control = Control(application.dispatch)
        sent = await control.send(await control.find(answer["runId"]), "and now?")
        assert sent is not None
        assert sent.payloads == ("echo: and now?",)
    clock.advance(20 * 60_000)
    async with gateway(home, None, clock=clock) as application:
        store = application.dispatch.runtime.store
        with anyio.fail_after(60):
            while True:
                now = await store.read(lambda reader: tables.get(reader, row.run_id))
                if now is not None and now.archive_at > row.archive_at:
                    break
                await anyio.lowlevel.checkpoint()
    assert files(home, answer)(row) == [f"{row.session_id}.jsonl"]


async def test_the_registry_forgets_a_sub_agent_after_thirty_days(tmp_path: Path) -> None:
    home, clock = tmp_path / "h", FakeClock()
    async with gateway(home, config(archiveAfterMinutes=0), clock=clock) as application:
        answer = await spawn(application)
        assert (await ended(application, answer["runId"])).archive_at == 0
    clock.advance(31 * 86_400_000)
    async with gateway(home, None, clock=clock) as application:
        store = application.dispatch.runtime.store
        with anyio.fail_after(60):
            while await store.read(lambda reader: tables.get(reader, answer["runId"])):
                await anyio.lowlevel.checkpoint()


async def test_a_sub_agent_is_found_by_number_id_label_and_key(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h", config()) as application:
        answer = await spawn(application, label="boats")
        row = await ended(application, answer["runId"])
        control = Control(application.dispatch)
        uuid = row.key.scope[-1]
        for name in ("1", "#1", "boats", uuid[:8], row.session_key, row.run_id):
            assert (await control.find(name)).subagent == row
        for name in ("2", uuid[:3], "", "ships"):
            with pytest.raises(Exception, match="No sub-agent has the name"):
                await control.find(name)
        assert replace(row, label="") != row
