"""Races in the dispatcher: two events at the same moment."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import anyio
import pytest

from skerry.model.errors import BusyError, StoreFailedError
from skerry.model.event import RunEnded, RunEvent, RunStarted
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.model.message import AssistantMessage, ToolCall, UserMessage
from skerry.model.queue import QueueMode
from skerry.model.run import Admission, AdmissionStatus, RunResult, StopReason
from skerry.ports.model import ModelRequest
from skerry.store import runs
from skerry.testing.channel import ACCOUNT, CHANNEL
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, Step, echo
from tests.support.core import MAIN, Core, open_core, request


class Disk:
    """Fails the transactions that a test chooses, or holds them."""

    def __init__(self) -> None:
        self.full = False
        self.fails_next = False
        self.held: threading.Event | None = None
        self.waiting = threading.Event()

    def reach(self, point: str) -> None:
        if point != "store.before-commit":
            return
        if self.held is not None:
            self.waiting.set()
            if not self.held.wait(60):
                self.held = None  # the test has failed; let it end
        if self.full or self.fails_next:
            self.fails_next = False
            raise sqlite3.OperationalError("database or disk is full")

    def hold(self) -> threading.Event:
        """Holds each transaction before its COMMIT until the event is set."""
        self.held = threading.Event()
        return self.held


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def submit(core: Core, run_id: str, outcomes: list[Admission | Exception]) -> None:
    try:
        outcomes.append(await core.dispatch.submit(request("hi", run_id)))
    except StoreFailedError as error:
        outcomes.append(error)


async def test_an_abort_while_the_acceptance_is_written_stops_the_run(tmp_path: Path) -> None:
    disk, model = Disk(), ScriptedModel(echo)
    async with open_core(tmp_path, model, reach=disk.reach) as core:
        commit = disk.hold()
        outcomes: list[Admission | Exception] = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, core, "a", outcomes)
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            assert core.dispatch.abort(MAIN, None, "rpc") == ["a"]
            commit.set()
        assert isinstance(outcomes[0], Admission)
        assert (await ended(core, "a")).stop_reason is StopReason.ABORTED
        assert model.requests == []
        assert [type(message).__name__ for message in await core.transcript()] == [
            *("UserMessage", "AssistantMessage")
        ]


@pytest.mark.requirement("loop-records-inbound-session")
async def test_nobody_is_asked_before_the_session_is_stored(tmp_path: Path) -> None:
    disk, model = Disk(), ScriptedModel(echo)
    peer = Peer(PeerKind.DIRECT, "alice")
    arrived = InboundMessage(CHANNEL, ACCOUNT, peer, "alice", "hi", "m1", 0)
    async with open_core(tmp_path, model, reach=disk.reach) as core:
        commit = disk.hold()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(core.dispatch.receive, arrived)
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            await anyio.wait_all_tasks_blocked()
            assert (model.requests, core.events) == ([], [])
            disk.held = None
            commit.set()
        (run_id,) = core.dispatch.active()
        await ended(core, run_id)
        assert len(await core.transcript(SessionKey.parse("agent:main:memory:direct:alice"))) == 2


async def test_a_twin_takes_over_when_the_first_cannot_be_stored(tmp_path: Path) -> None:
    disk, model = Disk(), ScriptedModel(echo)
    async with open_core(tmp_path, model, reach=disk.reach) as core:
        commit = disk.hold()
        disk.fails_next = True
        outcomes: list[Admission | Exception] = []
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(submit, core, "a", outcomes)
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            await anyio.wait_all_tasks_blocked()
            disk.held = None
            commit.set()
        assert [type(outcome) for outcome in outcomes] == [StoreFailedError, Admission, Admission]
        assert {outcome.status for outcome in outcomes if isinstance(outcome, Admission)} == {
            *(AdmissionStatus.ACCEPTED, AdmissionStatus.IN_FLIGHT)
        }
        assert (await ended(core, "a")).payloads == ("echo: hi",)
        assert len(model.requests) == 1


async def test_nothing_is_accepted_when_the_store_fails_and_the_lane_is_free_after(
    tmp_path: Path,
) -> None:
    disk = Disk()
    async with open_core(tmp_path, ScriptedModel(echo), reach=disk.reach) as core:
        disk.full = True
        with pytest.raises(StoreFailedError):
            await core.dispatch.submit(request("a"))
        disk.full = False
        assert core.dispatch.active() == []
        assert (await core.ask("a")).payloads == ("echo: a",)
        assert len(core.ends()) == 1


async def test_who_waits_for_a_run_that_was_known_gets_its_result(tmp_path: Path) -> None:
    disk = Disk()
    async with open_core(tmp_path, ScriptedModel(echo), reach=disk.reach) as core:
        first = await core.ask("a")
        disk.waiting.clear()
        commit = disk.hold()
        waited: list[RunResult | None] = []

        async def wait() -> None:
            waited.append(await core.dispatch.wait(RunId("a"), 60))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(core.dispatch.submit, request("a"))
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            tasks.start_soon(wait)  # the repeated request is in the table, not yet withdrawn
            await anyio.wait_all_tasks_blocked()
            commit.set()
        assert waited == [first]


async def test_a_message_that_is_stored_while_the_run_ends_has_a_turn_of_its_own(
    tmp_path: Path,
) -> None:
    gate, disk = ReplyGate(), Disk()
    script = ScriptedModel([["one", gate], ["two"]])
    async with open_core(tmp_path, script, reach=disk.reach) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        commit = disk.hold()
        disk.waiting.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(core.dispatch.submit, request("b", queue_mode=QueueMode.STEER))
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            gate.open()  # the run looks for steering, which is not durable yet
            await anyio.wait_all_tasks_blocked()
            disk.held = None
            commit.set()
        assert (await ended(core, "a")).payloads == ("one",)
        assert (await ended(core, "b")).payloads == ("two",)


async def test_messages_that_come_while_a_run_ends_keep_their_order(tmp_path: Path) -> None:
    gate, disk = ReplyGate(), Disk()
    asked: list[str] = []

    def script(one: ModelRequest) -> Sequence[Step]:
        last = one.history.messages[-1]
        assert isinstance(last, UserMessage)
        asked.append(last.text)
        return [gate, "ok"] if asked == ["a"] else ["ok"]

    async with open_core(tmp_path, ScriptedModel(script), reach=disk.reach) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        for name in ("b", "c"):
            await core.dispatch.submit(request(name, queue_mode=QueueMode.FOLLOWUP))
        core.dispatch.abort(MAIN, RunId("a"), "rpc")
        commit = disk.hold()
        disk.waiting.clear()
        await anyio.to_thread.run_sync(disk.waiting.wait, 60)  # the end of `a` is written
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(core.dispatch.submit, request("d", queue_mode=QueueMode.FOLLOWUP))
            await anyio.wait_all_tasks_blocked()
            disk.held = None
            commit.set()
        await ended(core, "d")
        assert asked == ["a", "b", "c", "d"]


async def test_stopping_a_message_that_entered_stops_the_run_that_answers_it(
    tmp_path: Path,
) -> None:
    first, second = ReplyGate(), ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[first, "1"], ["2", second]])) as core:
        await core.dispatch.submit(request("a"))
        await first.reached.wait()
        await core.dispatch.submit(request("b", queue_mode=QueueMode.STEER))
        first.open()
        await second.reached.wait()
        assert core.dispatch.abort(MAIN, RunId("b"), "rpc") == ["b"]
        assert (await ended(core, "a")).stop_reason is StopReason.ABORTED
        assert (await ended(core, "b")).joined == "a"


@pytest.mark.requirement("agent-lifecycle-always-ends")
async def test_a_run_that_cannot_begin_ends_for_those_who_wait(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await core.ask("a")
        await core.store.write(
            lambda unit: unit.execute("UPDATE session SET compacted = 'no number'")
        )
        session = core.events[0].session_id
        core.dispatch.runtime.histories.forget(session)
        result = await core.ask("b")
        assert (result.stop_reason, result.error and result.error.code) == ("error", "internal")
        assert [end.run_id for end in core.ends()] == ["a", "b"]
        assert core.dispatch.active() == []


async def test_an_answer_that_can_never_be_stored_is_not_called_an_answer(tmp_path: Path) -> None:
    gate = ReplyGate()
    script = ScriptedModel([["kept"], [gate, "lost"], ["after"]])
    async with open_core(tmp_path, script) as core:
        await core.ask("a")
        await core.dispatch.submit(request("b"))
        await gate.reached.wait()
        await core.store.write(lambda unit: unit.execute("UPDATE session SET tail = tail + 1"))
        gate.open()
        result = await ended(core, "b")
        assert (result.stop_reason, result.error and result.error.code) == (
            *("error", "state.stale_tail"),
        )
        assert await core.store.read(runs.unfinished) == []  # it ended, as a failure
        # The conversation in memory does not have what the store has not.
        await core.ask("c")
        assert "lost" not in str(script.requests[-1].messages)
        assert "kept" in str(script.requests[-1].messages)


async def test_a_message_that_is_being_accepted_when_the_drain_begins_is_kept(
    tmp_path: Path,
) -> None:
    disk, gate = Disk(), ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "x"]]), reach=disk.reach) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        commit = disk.hold()
        disk.waiting.clear()
        outcomes: list[Admission | Exception] = []
        drained: list[bool] = []

        async def drain() -> None:
            drained.append(await core.dispatch.drain(10))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(submit, core, "b", outcomes)
            await anyio.to_thread.run_sync(disk.waiting.wait, 60)
            tasks.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(BusyError):
                await core.dispatch.submit(request("c"))
            disk.held = None
            commit.set()
            gate.open()
        assert isinstance(outcomes[0], Admission)
        assert outcomes[0].status is AdmissionStatus.ACCEPTED
        assert drained == [True]
        assert [run.request.run_id for run in await core.store.read(runs.unfinished)] == ["b"]


async def test_every_run_ends_exactly_once_whatever_happens(tmp_path: Path) -> None:
    replies: list[list[Step]] = [["1"], [ToolCall("c", "read", {"path": "x"})]]
    replies += [[], ["never", ReplyGate()], ["5"]]

    def script(_: ModelRequest) -> Sequence[Step]:
        steps = replies.pop(0)
        if not steps:
            raise KeyError("a defect of the provider")
        return steps

    clock = FakeClock()
    async with open_core(tmp_path, ScriptedModel(script), clock=clock) as core:
        await core.ask("plain")
        assert (await core.ask("defect")).stop_reason is StopReason.ERROR
        await core.dispatch.submit(request("timeout", timeout=0.5))
        await ended(core, "timeout")
        clock.advance(-60_000)  # a clock that is set back changes no order
        await core.ask("after")
        starts = [event.run_id for event in core.events if isinstance(event.body, RunStarted)]
        assert starts == ["plain", "defect", "timeout", "after"]
        assert [end.run_id for end in core.ends()] == starts
        assert_well_formed(core.events, lambda event: isinstance(event.body, RunEnded))
        assert isinstance((await core.transcript())[-1], AssistantMessage)


def assert_well_formed(events: list[RunEvent], is_end: Callable[[RunEvent], bool]) -> None:
    for run_id in {event.run_id for event in events}:
        own = [event for event in events if event.run_id == run_id]
        assert isinstance(own[0].body, RunStarted)
        assert [is_end(event) for event in own] == [False] * (len(own) - 1) + [True]
