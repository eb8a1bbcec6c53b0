"""Open runs at a start: they run again or are closed, and each person gets one notice."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from msgspec.structs import replace

from skerry.hooks.payloads import BeforeMessageWrite, BeforeMessageWriteChange
from skerry.infra.clock import SystemClock
from skerry.model import message
from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.message import AssistantMessage, ToolCall, UserMessage
from skerry.model.outbound import Additions, Content
from skerry.model.queue import QueueMode
from skerry.model.run import RunRequest, RunResult, StopReason
from skerry.model.session import SessionSettings
from skerry.runtime.finalize import COMMAND_INTERRUPTED, INTERRUPTED
from skerry.runtime.recovery import MAX_RESTARTS, UNREADABLE, RunFacts, recover
from skerry.store import Reader, Unit, archive, outbox, runs, sessions
from skerry.testing.model import ReplyGate, ScriptedModel, Step, echo
from tests.support.acting import ACT, Act
from tests.support.chaos import transcript_faults
from tests.support.core import MAIN, Core, open_core, request
from tests.support.hooks import on

CALL = ToolCall("c1", "read", {"path": "note.txt"})


def said_by(name: str, message_id: str, mode: QueueMode = QueueMode.OWN_RUN) -> RunRequest:
    peer = Peer(PeerKind.DIRECT, name)
    to = ReplyTo(ChannelId("memory"), AccountId("default"), peer, message_id)
    return replace(request(message_id, queue_mode=mode), reply_to=to)


def notices(reader: Reader) -> list[tuple[str, str]]:
    waiting = outbox.waiting(reader, ChannelId("memory"), AccountId("default"))
    return [(part.part.to.message_id, part.part.text) for part in waiting]


async def begun(core: Core, gate: ReplyGate, *requests: RunRequest) -> None:
    """Submit; return when the model is at the gate."""
    for run_request in requests:
        await core.dispatch.submit(run_request)
    with anyio.fail_after(60):
        await gate.reached.wait()


@asynccontextmanager
async def restarted(home: Path, script: Sequence[Sequence[Step]] = ()) -> AsyncGenerator[Core]:
    """Opens the core again and resumes the open runs."""
    model = ScriptedModel(script) if script else ScriptedModel(echo)
    async with open_core(home, model) as core:
        for run in await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks):
            core.dispatch.resume(run)
        yield core


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def test_a_run_without_a_trace_runs_again_under_its_id(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await begun(core, gate, said_by("alice", "m1"), said_by("alice", "m2"))
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).payloads == ("echo: m1",)
        assert (await ended(core, "m2")).payloads == ("echo: m2",)
        assert await core.store.read(notices) == [("m1", "echo: m1"), ("m2", "echo: m2")]
        assert len(await core.transcript()) == 4


async def test_a_run_that_started_a_tool_is_closed_and_the_person_told(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["looking", ACT]])
    async with open_core(tmp_path, model, tools=(Act(gate),)) as core:
        await begun(core, gate, said_by("alice", "m1"))
    async with restarted(tmp_path) as core:
        result = await ended(core, "m1")
        assert result.stop_reason is StopReason.INTERRUPTED
        assert result.error is not None
        assert result.error.retryable
        assert await core.store.read(notices) == [("m1", "looking"), ("m1", INTERRUPTED)]
        messages = await core.transcript()
        assert transcript_faults("s", messages) == []
        last = messages[-1]
        assert isinstance(last, AssistantMessage)
        assert (last.stop_reason, last.error_message) == ("aborted", INTERRUPTED)
    async with restarted(tmp_path) as core:  # a second start has nothing to add
        assert len(await core.store.read(notices)) == 2
        assert len(await core.transcript()) == len(messages)


async def test_an_open_call_gets_a_result_and_the_partial_text_is_kept(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[ACT]]), tools=(Act(gate),)) as core:
        await begun(core, gate, said_by("alice", "m1"))
        await core.store.write(lambda unit: runs.checkpoint(unit, RunId("m1"), "half an ans"))
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).payloads == ("half an ans",)
        assert (await core.ask("next")).payloads == ("echo: next",)


async def test_messages_that_had_entered_a_run_end_with_it_and_are_told_once(
    tmp_path: Path,
) -> None:
    gate, last = ReplyGate(), ReplyGate()
    script: list[Sequence[Step]] = [["one", gate], [ACT]]
    async with open_core(tmp_path, ScriptedModel(script), tools=(Act(last),)) as core:
        await begun(core, gate, said_by("alice", "m1"))
        for name in ("m2", "m3"):
            await core.dispatch.submit(said_by("alice", name, QueueMode.STEER))
        await core.dispatch.submit(said_by("alice", "m4"))
        gate.open()
        with anyio.fail_after(60):
            await last.reached.wait()
    async with restarted(tmp_path) as core:
        host = await ended(core, "m1")
        assert (host.stop_reason, host.payloads) == (StopReason.INTERRUPTED, ("one",))
        guest = await ended(core, "m2")
        assert (guest.joined, guest.payloads) == ("m1", ())
        assert (await ended(core, "m3")).stop_reason is StopReason.DONE
        assert (await ended(core, "m4")).stop_reason is StopReason.DONE
        assert await core.store.read(notices) == [
            ("m1", "one"),
            ("m1", INTERRUPTED),
            ("m3", "echo: m3"),
            ("m4", "echo: m4"),
        ]
        assert transcript_faults("s", await core.transcript()) == []
        assert await core.store.read(runs.unfinished) == []


async def test_who_gave_a_command_that_was_cut_off_is_told_to_give_it_again(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["looking", ACT]])
    async with open_core(tmp_path, model, tools=(Act(gate),)) as core:
        await begun(core, gate, said_by("alice", "m1"))
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        facts = RunFacts(is_command=lambda _: True)
        await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks, facts=facts)
        assert await core.store.read(notices) == [("m1", "looking"), ("m1", COMMAND_INTERRUPTED)]
        last = (await core.transcript())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.error_message == COMMAND_INTERRUPTED
        assert "/retry" not in COMMAND_INTERRUPTED


async def test_a_run_that_may_be_what_kills_us_is_closed_in_the_end(tmp_path: Path) -> None:
    for life in range(MAX_RESTARTS + 1):
        gate = ReplyGate()
        async with restarted(tmp_path, [["half", gate]]) as core:
            if life == 0:
                await core.dispatch.submit(said_by("alice", "m1"))
            with anyio.fail_after(60):
                await gate.reached.wait()
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED
        assert await core.store.read(notices) == [("m1", INTERRUPTED)]
        assert transcript_faults("s", await core.transcript()) == []


async def test_a_run_whose_message_hooks_keep_back_is_closed_in_the_end_too(tmp_path: Path) -> None:
    def block(payload: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=isinstance(payload.message, UserMessage))

    for life in range(MAX_RESTARTS):
        gate = ReplyGate()
        async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
            on(core.hooks.before_message_write, block)
            for run in await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks):
                core.dispatch.resume(run)
            if life == 0:
                await core.dispatch.submit(said_by("alice", "m1"))
            with anyio.fail_after(60):
                await gate.reached.wait()
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED
        assert await core.store.read(notices) == [("m1", INTERRUPTED)]


async def test_a_mute_session_stays_mute_when_its_run_was_interrupted(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["looking", ACT]])
    async with open_core(tmp_path, model, tools=(Act(gate),)) as core:
        await begun(core, gate, said_by("alice", "m1"))
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        mute = SessionSettings(send_policy="deny")
        await core.store.write(
            lambda unit: archive.change(unit, session.session_id, label="", settings=mute)
        )
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED
        assert await core.store.read(notices) == []


async def test_a_run_that_never_started_may_wait_through_any_number_of_starts(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[ACT]]), tools=(Act(gate),)) as core:
        await begun(core, gate, said_by("alice", "m1"), said_by("alice", "m2"))
    for _ in range(MAX_RESTARTS + 1):
        async with open_core(tmp_path, None) as core:
            resumed = await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
            assert [(run.request.run_id, run.restarts) for run in resumed] == [("m2", 0)]


async def test_a_run_that_its_session_has_left_behind_is_closed(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["partly ", gate]])) as core:
        await begun(core, gate, request("first"))
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        messages = [message.user("later", 1)]
        await core.store.write(
            lambda unit: sessions.append(unit, session.session_id, 1, "later", messages, 1)
        )
    async with restarted(tmp_path) as core:
        result = await ended(core, "first")
        assert result.stop_reason is StopReason.INTERRUPTED
        assert [type(message) for message in await core.transcript()][2:] == [AssistantMessage]


async def test_a_run_whose_request_cannot_be_read_stops_no_start_and_is_closed_and_told(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["half", gate]])) as core:
        await core.dispatch.receive(
            InboundMessage(
                ChannelId("memory"),
                AccountId("default"),
                Peer(PeerKind.DIRECT, "alice"),
                sender_id="alice",
                text="hello",
                message_id="m1",
                received_at=0,
            )
        )
        with anyio.fail_after(60):
            await gate.reached.wait()
        (active,) = core.dispatch.runtime.running.of(None)
        run_id, key = active.request.run_id, active.request.key
        await core.store.write(
            lambda unit: unit.execute(
                "UPDATE run SET request = x'7bff', partial = CAST(x'ff' AS TEXT) WHERE run_id = ?",
                (run_id,),
            )
        )
    async with restarted(tmp_path) as core:
        result = await ended(core, run_id)
        assert result.error is not None
        assert (result.stop_reason, result.error.code) == (StopReason.INTERRUPTED, "run.corrupt")
        assert ("m1", UNREADABLE) in await core.store.read(notices)
        assert not await core.store.read(runs.any_open)
        assert transcript_faults("s", await core.transcript(key)) == []
        assert (await core.ask("next", key=key)).payloads == ("echo: next",)


async def test_a_run_that_is_closed_completes_the_message_that_grew(tmp_path: Path) -> None:
    def grow(unit: Unit) -> None:
        to = said_by("alice", "m1").reply_to
        assert to is not None
        outbox.add(unit, RunId("m1"), 0, to, [Content("One.", Additions(preview=True))], 1)
        runs.note_block(unit, RunId("m1"), ("One. Two.", 0))

    for life in range(MAX_RESTARTS + 1):
        gate = ReplyGate()
        async with restarted(tmp_path, [[gate]]) as core:
            if life == 0:
                await core.dispatch.submit(said_by("alice", "m1"))
            with anyio.fail_after(60):
                await gate.reached.wait()
            if life == MAX_RESTARTS:
                await core.store.write(grow)
    async with restarted(tmp_path) as core:
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED
        parts = await core.store.read(lambda reader: outbox.of_run(reader, RunId("m1")))
        preview, whole, notice = (part.waiting.part for part in parts)
        assert (preview.additions.preview, whole.text, notice.text) == (
            True,
            "One. Two.",
            INTERRUPTED,
        )
        assert (whole.additions.completes, notice.additions.completes) == (preview.serial, 0)
