"""Messages that arrive during a run, in every queue mode: when they run and how they end."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.config.messages import QueueConfig
from skerry.infra.clock import SystemClock
from skerry.model.event import RunStarted
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import ImageBlock, ToolCall, ToolResultMessage, UserMessage
from skerry.model.origin import Origin
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.run import RunRequest, RunResult, StopReason
from skerry.model.session import SessionSettings
from skerry.model.thinking import ThinkingLevel
from skerry.runtime.recovery import recover
from skerry.store import archive, outbox, runs
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, Step, echo
from tests.support.core import MAIN, Core, open_core, request

COLLECTED = "[Queued messages while agent was busy]\n\n---\nQueued #1\nb\n\n---\nQueued #2\nc"


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


async def words(core: Core) -> list[str]:
    return [message.text for message in await core.transcript() if isinstance(message, UserMessage)]


def by_client(text: str, mode: QueueMode | None = None) -> RunRequest:
    return request(text, queue_mode=mode)


def by_owner(text: str) -> RunRequest:
    """Returns a message of a platform."""
    peer = Peer(PeerKind.DIRECT, "alice")
    to = ReplyTo(ChannelId("memory"), AccountId("default"), peer, text)
    return replace(by_client(text), reply_to=to)


async def begun(core: Core, gate: ReplyGate, *behind: RunRequest) -> None:
    """Starts run `a` until it reaches its gate; then submits the others."""
    await core.dispatch.submit(by_client("a"))
    with anyio.fail_after(60):
        await gate.reached.wait()
        for queued in behind:
            await core.dispatch.submit(queued)


@pytest.mark.requirement("queue-mode-collect")
async def test_two_messages_during_a_run_become_one_prompt_which_the_last_answers(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, "one"], ["both"]])
    async with open_core(tmp_path, model) as core:
        await begun(core, gate, by_client("b"), by_client("c"))
        gate.open()
        guest, host = await ended(core, "b"), await ended(core, "c")
        assert (host.payloads, guest.payloads, guest.joined) == (("both",), (), "c")
        assert await words(core) == ["a", COLLECTED]
        assert len(model.requests) == 2
        assert [result.run_id for result in core.ends()] == ["a", "c", "b"]
        starts = [
            (event.run_id, event.body.joined)
            for event in core.events
            if isinstance(event.body, RunStarted)
        ]
        assert starts == [("a", None), ("c", None), ("b", "c")]
        assert await core.store.read(lambda reader: runs.sharing(reader, "c")) == ["b", "c"]
        assert await core.store.read(runs.unfinished) == []


async def test_what_is_collected_is_asked_with_the_settings_of_the_last_and_all_images(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, "one"], ["all"]])
    images = [ImageBlock("eA==", "image/png"), ImageBlock("eQ==", "image/png")]
    first, last = (
        replace(by_client(name), images=(image,), extra_system_prompt=extra, thinking=thinking)
        for name, image, extra, thinking in (
            ("b", images[0], "Be brief.", ThinkingLevel.HIGH),
            ("c", images[1], "Be kind.", ThinkingLevel.LOW),
        )
    )
    async with open_core(tmp_path, model) as core:
        core.models.info = replace(MODEL, reasoning=True)
        await begun(core, gate, first, last)
        gate.open()
        await ended(core, "c")
    call = model.requests[-1]
    assert call.request.thinking is ThinkingLevel.LOW
    assert call.request.system.endswith("Be kind.")
    assert "Be brief." not in call.request.system
    prompt = call.messages[-1]
    assert isinstance(prompt, UserMessage)
    assert (prompt.text, list(prompt.content[1:])) == (COLLECTED, images)


async def test_one_message_that_waited_alone_stays_as_it_is(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "one"], ["two"]])) as core:
        await begun(core, gate, by_client("b"))
        gate.open()
        assert (await ended(core, "b")).payloads == ("two",)
        assert await words(core) == ["a", "b"]


async def test_what_waits_is_taken_up_when_nothing_more_came_for_a_while(tmp_path: Path) -> None:
    gate, queue = ReplyGate(), QueueConfig(debounce_ms=300)
    async with open_core(tmp_path, ScriptedModel([[gate, "1"], ["2"]]), queue=queue) as core:
        await begun(core, gate, by_client("b"))
        gate.open()
        await ended(core, "a")
        await core.dispatch.submit(by_client("c"))  # the run is over; b still waits for others
        assert (await ended(core, "b")).joined == "c"
        assert await words(core) == ["a", COLLECTED]


async def test_a_free_session_waits_for_nothing(tmp_path: Path) -> None:
    queue = QueueConfig(debounce_ms=60_000)
    async with open_core(tmp_path, ScriptedModel(echo), queue=queue) as core:
        await core.dispatch.submit(by_client("a"))
        assert (await ended(core, "a")).payloads == ("echo: a",)


async def test_stopping_ends_the_waiting_for_company(tmp_path: Path) -> None:
    gate, queue = ReplyGate(), QueueConfig(debounce_ms=60_000)
    async with open_core(tmp_path, ScriptedModel([[gate, "1"]]), queue=queue) as core:
        await begun(core, gate, by_client("b"), by_client("c"))
        gate.open()
        await ended(core, "a")
        assert core.dispatch.abort(MAIN, None, "rpc") == ["b", "c"]
        for name in ("b", "c"):
            result = await ended(core, name)
            assert (result.stop_reason, result.joined) == (StopReason.ABORTED, None)


async def test_a_message_that_is_taken_back_ends_at_once_and_is_never_read(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "1"], ["2"]])) as core:
        await begun(core, gate, by_client("b"), by_client("x"), by_client("c"))
        assert core.dispatch.abort(MAIN, RunId("x"), "rpc") == ["x"]
        assert (await ended(core, "x")).stop_reason is StopReason.ABORTED  # while a is at work
        gate.open()
        assert (await ended(core, "c")).payloads == ("2",)
        assert await words(core) == ["a", COLLECTED]


async def test_a_waiting_message_that_is_stopped_ends_at_once_and_was_never_said(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "one"]])) as core:
        await begun(core, gate, by_client("b"))
        assert core.dispatch.abort(MAIN, RunId("b"), "rpc") == ["b"]
        result = await ended(core, "b")  # while the other is still on
        assert (result.stop_reason, result.aborted_by) == (StopReason.ABORTED, "rpc")
        gate.open()
        await ended(core, "a")
        assert await words(core) == ["a"]


async def test_what_somebody_waits_for_by_its_key_is_not_collected(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "1"], ["2"], ["3"], ["4"]])) as core:
        await begun(core, gate, by_client("b"), request("own"), by_client("c"))
        gate.open()
        answers = [(await ended(core, name)).payloads for name in ("b", "own", "c")]
        assert answers == [("2",), ("3",), ("4",)]


@pytest.mark.parametrize(
    ("mode", "skipped"),
    [
        (QueueMode.STEER, True),
        (QueueMode.STEER_BACKLOG, True),
        (QueueMode.COLLECT, False),
        (QueueMode.FOLLOWUP, False),
        (QueueMode.OWN_RUN, False),
    ],
)
async def test_only_steering_skips_calls_and_every_call_has_its_result(
    tmp_path: Path, mode: QueueMode, *, skipped: bool
) -> None:
    calls = [ToolCall(f"c{n}", "read", {"path": "note.txt"}) for n in range(3)]
    gate = ReplyGate()
    model = ScriptedModel([[gate, *calls], ["done"], ["again"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("text\n")
        await begun(core, gate, by_client("b", mode))
        gate.open()
        await ended(core, "b")
        results = [
            message for message in await core.transcript() if isinstance(message, ToolResultMessage)
        ]
        assert [result.tool_call_id for result in results] == ["c0", "c1", "c2"]
        assert [result.is_error for result in results] == [False, skipped, skipped]


@pytest.mark.parametrize(
    "mode", [QueueMode.STEER, QueueMode.STEER_BACKLOG, QueueMode.COLLECT, QueueMode.FOLLOWUP]
)
async def test_a_strangers_message_enters_no_run_of_the_owners_in_a_group(
    tmp_path: Path, mode: QueueMode
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, "one"], ["two"], ["three"], ["four"]])
    group = replace(by_owner("x"), key=SessionKey.parse("agent:main:memory:group:family"))
    messages = [
        replace(group, run_id=RunId(name), text=name, origin=origin, queue_mode=mode)
        for name, origin in (
            ("a", Origin.OWNER),
            ("b", Origin.STRANGER),
            ("c", Origin.STRANGER),
            ("d", Origin.OWNER),
        )
    ]
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(messages[0])
        with anyio.fail_after(60):
            await gate.reached.wait()
            for message in messages[1:]:
                await core.dispatch.submit(message)
        gate.open()
        for name in "bcd":
            await ended(core, name)
        sent = [
            message
            for message in await core.transcript(group.key)
            if isinstance(message, UserMessage)
        ]
    assert {word for message in sent for word in message.text.split()} >= {*"abcd"}
    for each in sent:
        assert (each.origin is Origin.OWNER) is not bool({"b", "c"} & set(each.text.split()))


async def test_with_a_backlog_a_message_enters_the_run_and_has_its_own_turn_too(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, "one"], ["two"], ["three"]])
    async with open_core(tmp_path, model) as core:
        await begun(core, gate, by_client("b", QueueMode.STEER_BACKLOG))
        gate.open()
        assert (await ended(core, "a")).payloads == ("one", "two")
        result = await ended(core, "b")
        assert (result.payloads, result.joined) == (("three",), None)
        assert await words(core) == ["a", "b", "b"]


async def test_an_interruption_stops_what_runs_and_waits_and_is_answered(tmp_path: Path) -> None:
    model = ScriptedModel([["half", gate := ReplyGate()], ["now"]])
    async with open_core(tmp_path, model) as core:
        await begun(core, gate, by_client("b"), request("own"), by_client("c", QueueMode.INTERRUPT))
        assert (await ended(core, "c")).payloads == ("now",)
        for name in ("a", "b", "own"):
            result = await ended(core, name)
            assert (result.stop_reason, result.aborted_by) == (StopReason.ABORTED, "interrupt")
        assert await words(core) == ["a", "b", "own", "c"]


@pytest.mark.requirement("loop-records-inbound-session")
async def test_a_session_has_its_own_mode(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["0"], [gate, "1"], ["2"], ["3"]])) as core:
        first = await core.ask("first")
        settings = SessionSettings(queue_mode=QueueMode.FOLLOWUP)
        await core.store.write(
            lambda unit: archive.change(unit, first.session_id, label="", settings=settings)
        )
        await begun(core, gate, by_client("b"), by_client("c"))
        gate.open()
        assert [(await ended(core, run_id)).payloads for run_id in "bc"] == [("2",), ("3",)]


async def test_a_channel_has_its_own_mode(tmp_path: Path) -> None:
    gate, queue = ReplyGate(), QueueConfig(debounce_ms=0, by_channel={"memory": QueueMode.FOLLOWUP})
    model = ScriptedModel([[gate, "1"], ["2"], ["3"], ["4"]])
    async with open_core(tmp_path, model, queue=queue) as core:
        await begun(core, gate, by_owner("b"), by_owner("c"), by_client("d"), by_client("e"))
        gate.open()
        answers = [(await ended(core, run_id)).payloads for run_id in "bcde"]
        assert answers == [("2",), ("3",), (), ("4",)]


@pytest.mark.parametrize(
    ("drop", "expected"), [(DropPolicy.OLD, "cd"), (DropPolicy.NEW, "bc")], ids=str
)
async def test_a_message_without_a_place_ends_and_its_person_is_notified_once(
    tmp_path: Path, drop: DropPolicy, expected: str
) -> None:
    gate, queue = ReplyGate(), QueueConfig(debounce_ms=0, cap=2, drop=drop)
    async with open_core(tmp_path, ScriptedModel([[gate, "1"], ["2"]]), queue=queue) as core:
        await begun(
            core, gate, *(by_owner(text) for text in "bcdef"[: 3 if expected == "cd" else 5])
        )
        gate.open()
        dropped = [
            run_id for run_id in "bcdef" if core.dispatch.runtime.running.get(RunId(run_id)) is None
        ]
        assert dropped == (["b", "e", "f"] if expected == "cd" else ["d", "e", "f"])
        result = await ended(core, "b" if expected == "cd" else "d")
        assert result.error is not None
        assert (result.error.code, result.error.retryable) == ("queue.full", True)
        assert (await ended(core, expected[0])).joined == expected[1]
        counts = await core.store.read(outbox.counts)
        assert sum(counts.values()) == 2  # the notice and the answer


async def test_of_messages_over_the_cap_the_model_reads_a_line(tmp_path: Path) -> None:
    gate, queue = ReplyGate(), QueueConfig(debounce_ms=0, cap=1)
    model = ScriptedModel([[gate, "1"], ["2"]])
    async with open_core(tmp_path, model, queue=queue) as core:
        await begun(core, gate, *(by_client(text) for text in "bcd"))
        gate.open()
        assert (await ended(core, "d")).payloads == ("2",)
        dropped = await ended(core, "b")  # beyond twice the cap: no line, but counted
        assert (dropped.stop_reason, dropped.error and dropped.error.code) == (
            "error",
            "queue.full",
        )
        assert (await ended(core, "c")).joined == "d"
        assert (await words(core))[1] == (
            "[Queued messages while agent was busy]\n\n[Queue overflow] Dropped 2 messages due to"
            " cap.\nSummary:\n- c\n\n---\nQueued #1\nd"
        )


async def start_again(core: Core) -> None:
    for run in await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks):
        core.dispatch.resume(run)


@pytest.mark.parametrize("mode", [None, QueueMode.FOLLOWUP], ids=["collect", "followup"])
async def test_what_waits_survives_the_end_of_the_process(
    tmp_path: Path, mode: QueueMode | None
) -> None:
    async with open_core(tmp_path, ScriptedModel([["half", gate := ReplyGate()]])) as core:
        await begun(core, gate, by_client("b", mode), by_client("c", mode))
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await start_again(core)
        await ended(core, "c")
        assert await words(core) == (["a", COLLECTED] if mode is None else ["a", "b", "c"])
        assert await core.store.read(runs.unfinished) == []


@pytest.mark.parametrize("script", [[], ["half"]], ids=["silent", "talking"])
async def test_what_was_collected_is_run_again_with_the_same_prompt(
    tmp_path: Path, script: Sequence[Step]
) -> None:
    gate, second = ReplyGate(), ReplyGate()
    steps: list[Sequence[Step]] = [[gate, "one"], [*script, second]]
    async with open_core(tmp_path, ScriptedModel(steps)) as core:
        await begun(core, gate, by_client("b"), by_client("c"))
        gate.open()
        with anyio.fail_after(60):
            await second.reached.wait()
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await start_again(core)
        host, guest = await ended(core, "c"), await ended(core, "b")
        assert (host.payloads, guest.joined) == ((f"echo: {COLLECTED}",), "c")
        assert await words(core) == ["a", COLLECTED]
        assert [call.last for call in model.requests] == [COLLECTED]
        assert await core.store.read(runs.unfinished) == []


async def test_the_report_shows_what_runs_and_waits(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "one"], ["two"]])) as core:
        assert core.dispatch.queue().sessions == ()
        await begun(core, gate, by_client("b"), by_client("c", QueueMode.STEER))
        report = core.dispatch.queue()
        (session,) = report.sessions
        assert (session.key, session.run_id) == (str(MAIN), "a")
        assert (session.waiting, session.mode) == (2, "collect")
        assert session.since is not None
        assert session.oldest is not None
        assert [(lane.name, lane.running, lane.limit) for lane in report.lanes] == [
            ("main", 1, 4),
            ("subagent", 0, 8),
            ("cron", 0, 1),
        ]
        gate.open()
        await ended(core, "b")
