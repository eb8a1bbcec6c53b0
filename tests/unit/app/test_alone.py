"""Changes of a session during runs: nothing is written into an archived session."""

import uuid
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.infra.clock import SystemClock
from skerry.model.errors import BusyError
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import Message
from skerry.model.queue import QueueMode
from skerry.model.run import AdmissionStatus, RunResult, StopReason
from skerry.model.session import SessionEntry, SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.runtime import dispatcher
from skerry.runtime.recovery import recover
from skerry.store import archive, outbox, sessions
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request


async def reset(core: Core, key: SessionKey = MAIN) -> str:
    new_id = SessionId(str(uuid.uuid4()))
    await core.dispatch.run_exclusive(
        key,
        lambda: core.store.write(lambda unit: archive.reset(unit, key, new_id, 5)),
        stopping="reset",
    )
    return new_id


async def delete(core: Core, key: SessionKey = MAIN) -> SessionEntry | None:
    return await core.dispatch.run_exclusive(
        key,
        lambda: core.store.write(lambda unit: archive.delete(unit, key, 5)),
        stopping="delete",
    )


async def said_in(core: Core, session_id: str) -> list[str]:
    def texts(messages: list[Message]) -> list[str]:
        return ["".join(getattr(b, "text", "") for b in message.content) for message in messages]

    entries = await core.store.read(lambda reader: sessions.entries(reader, session_id, limit=-1))
    return texts([entry.message for entry in entries])


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def test_a_reset_stops_the_run_and_what_it_said_stays_with_it(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate], ["fresh"]])) as core:
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            new_id = await reset(core)
        old = await ended(core, "one")
        assert (old.stop_reason, old.aborted_by) == (StopReason.ABORTED, "reset")
        assert await said_in(core, old.session_id) == ["one", "half"]
        assert (await core.ask("two")).session_id == new_id
        assert await said_in(core, new_id) == ["two", "fresh"]
        assert await said_in(core, old.session_id) == ["one", "half"]


@pytest.mark.requirement("agent-lifecycle-order")
@pytest.mark.parametrize("mode", list(QueueMode))
async def test_messages_that_wait_are_stopped_too(tmp_path: Path, mode: QueueMode) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            await core.dispatch.submit(request("two", queue_mode=mode))
            new_id = await reset(core)
        waited = await ended(core, "two")
        assert waited.stop_reason is StopReason.ABORTED
        assert waited.session_id != new_id
        assert await said_in(core, new_id) == []


async def test_a_message_that_comes_during_a_reset_enters_the_new_session(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        first = await core.ask("one")
        new_id = SessionId("new")
        admitted: list[AdmissionStatus] = []

        async def work() -> None:
            # It is accepted, and waits, while the change is under way.
            admitted.append((await core.dispatch.submit(request("two"))).status)
            await core.store.write(lambda unit: archive.reset(unit, MAIN, new_id, 5))

        await core.dispatch.run_exclusive(MAIN, work, stopping="reset")
        assert admitted == [AdmissionStatus.ACCEPTED]
        second = await ended(core, "two")
        assert (second.session_id, second.payloads) == (new_id, ("echo: two",))
        assert await said_in(core, first.session_id) == ["one", "echo: one"]
        assert await said_in(core, new_id) == ["two", "echo: two"]
        repeated = await core.dispatch.submit(request("two"))
        assert repeated.status is AdmissionStatus.FINISHED


async def test_a_message_that_waited_for_a_deleted_session_begins_a_new_one(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        first = await core.ask("one")

        async def work() -> None:
            await core.dispatch.submit(request("two"))
            await core.store.write(lambda unit: archive.delete(unit, MAIN, 5))

        await core.dispatch.run_exclusive(MAIN, work, stopping="delete")
        second = await ended(core, "two")
        assert second.session_id != first.session_id
        assert await said_in(core, second.session_id) == ["two", "echo: two"]
        assert await said_in(core, first.session_id) == ["one", "echo: one"]


async def test_a_crash_behind_a_reset_runs_what_waited_in_the_new_session(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        first = await core.ask("one")

        async def work() -> None:
            await core.dispatch.submit(request("two"))
            await core.store.write(lambda unit: archive.reset(unit, MAIN, SessionId("new"), 5))
            core.lanes.close()  # nothing starts any more: the process is gone

        await core.dispatch.run_exclusive(MAIN, work, stopping="reset")
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        for run in await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks):
            core.dispatch.resume(run)
        assert (await ended(core, "two")).session_id == "new"
        assert await said_in(core, "new") == ["two", "echo: two"]
        assert await said_in(core, first.session_id) == ["one", "echo: one"]


async def test_an_open_run_of_an_archived_session_is_closed_and_not_run_again(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        # As if its end could not be stored, and the conversation was reset then.
        await core.store.write(lambda unit: archive.reset(unit, MAIN, SessionId("new"), 5))
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        assert (await ended(core, "one")).stop_reason is StopReason.INTERRUPTED
        assert await said_in(core, "new") == []


async def test_a_change_does_not_wait_for_other_sessions(tmp_path: Path) -> None:
    gate = ReplyGate()
    other = SessionKey.parse("other")
    async with open_core(tmp_path, ScriptedModel([["half", gate]]), limit=1) as core:
        await core.dispatch.submit(request("one", key=other))
        with anyio.fail_after(60):
            await gate.reached.wait()
            assert await delete(core) is None
        gate.open()
        await ended(core, "one")


async def test_a_change_that_stops_nobody_waits_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "EXCLUSIVE_SECONDS", 0.05)
    gate = ReplyGate()
    worked = False

    async def work() -> None:
        nonlocal worked
        worked = True

    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
            with pytest.raises(BusyError, match="still active"):
                await core.dispatch.run_exclusive(MAIN, work)
        gate.open()
        assert (await ended(core, "one")).stop_reason is StopReason.DONE
        assert not worked
        await core.dispatch.drain(1)
        with pytest.raises(BusyError, match="stopping"):
            await core.dispatch.run_exclusive(MAIN, work)


async def test_the_next_run_uses_what_is_set_for_its_session(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        core.models.info = replace(core.models.info, reasoning=True)
        first = await core.ask("one")
        settings = SessionSettings(model="a/b", thinking_level=ThinkingLevel.HIGH)
        await core.store.write(
            lambda unit: archive.change(unit, first.session_id, label="", settings=settings)
        )
        await core.ask("two")
    assert [request.request.thinking for request in model.requests] == [
        ThinkingLevel.LOW,
        ThinkingLevel.HIGH,
    ]
    assert core.models.chosen == [None, "a/b"]


async def test_a_session_that_is_muted_answers_only_in_its_transcript(tmp_path: Path) -> None:
    peer = Peer(PeerKind.DIRECT, "alice")
    to = ReplyTo(ChannelId("memory"), AccountId("default"), peer, "m1")
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        first = await core.ask("one")
        muted = SessionSettings(send_policy="deny")
        await core.store.write(
            lambda unit: archive.change(unit, first.session_id, label="", settings=muted)
        )
        await core.dispatch.submit(replace(request("two"), reply_to=to))
        assert (await ended(core, "two")).payloads == ("echo: two",)
        assert await core.store.read(outbox.counts) == {}
        assert (await said_in(core, first.session_id))[-1] == "echo: two"
