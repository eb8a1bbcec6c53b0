"""The dispatcher: admission, repeated ids, order, steering, abort."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.model.errors import (
    BusyError,
    KeyReusedError,
    ModelOverloadedError,
    UnconfiguredAgentError,
)
from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from skerry.model.queue import QueueMode
from skerry.model.run import AdmissionStatus, StopReason
from skerry.store import runs, sessions
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request


def shape(messages: Sequence[object]) -> list[str]:
    return [type(message).__name__.removesuffix("Message") for message in messages]


async def test_a_message_is_answered_and_the_transcript_has_both(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["Hel", "lo"]])) as core:
        result = await core.ask("hi")
        assert result.stop_reason is StopReason.DONE
        assert result.payloads == ("Hello",)
        messages = await core.transcript()
        assert shape(messages) == ["User", "Assistant"]
        assert [type(event.body) for event in core.events[:3]] == [RunStarted, TextDelta, TextDelta]
        assert len(core.ends()) == 1


async def test_the_model_sees_what_was_said_before(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        for text in ("one", "two", "three"):
            await core.ask(text)
    assert shape(model.requests[-1].messages) == ["User", "Assistant"] * 2 + ["User"]


async def test_the_conversation_goes_on_after_a_restart(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        await core.ask("one")
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        await core.ask("two")
        assert len(await core.transcript()) == 4
    assert shape(model.requests[0].messages) == ["User", "Assistant", "User"]


async def test_twins_run_once(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        admissions = []

        async def submit() -> None:
            admissions.append(await core.dispatch.submit(request("hi", "twin")))

        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(submit)
        await core.dispatch.wait(RunId("twin"), 60)
        statuses = sorted(admission.status for admission in admissions)
        assert statuses == [AdmissionStatus.ACCEPTED] + [AdmissionStatus.IN_FLIGHT] * 4
        assert len(model.requests) == 1


async def test_a_known_key_gives_the_stored_result_even_after_a_restart(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        first = await core.ask("hi", "key")
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model) as core:
        repeated = await core.dispatch.submit(request("hi", "key"))
        assert repeated.status is AdmissionStatus.FINISHED
        assert repeated.result == first
        assert await core.dispatch.wait(RunId("key"), 0) == first
        assert model.requests == []
        assert core.dispatch.active() == []
        assert (await core.ask("next")).stop_reason is StopReason.DONE


async def test_a_key_with_other_content_is_refused_in_flight_and_after_a_restart(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "late"]])) as core:
        await core.dispatch.submit(request("hi", "key"))
        for different in (
            request("other words", "key"),
            request("hi", "key", SessionKey.parse("b")),
        ):
            with pytest.raises(KeyReusedError):
                await core.dispatch.submit(different)
        gate.open()
        with anyio.fail_after(60):
            await core.dispatch.wait(RunId("key"), None)
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        with pytest.raises(KeyReusedError):
            await core.dispatch.submit(request("other words", "key"))
        assert core.dispatch.active() == []
        assert (await core.ask("next")).payloads == ("echo: next",)


async def test_accepted_means_that_the_store_has_it(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "late"]])) as core:
        admission = await core.dispatch.submit(request("hi"))
        assert admission.status is AdmissionStatus.ACCEPTED
        (open_run,) = await core.store.read(runs.unfinished)
        assert open_run.request.text == "hi"
        assert open_run.entry == 1
        gate.open()
        await core.dispatch.wait(RunId("hi"), 60)
        assert await core.store.read(runs.unfinished) == []


async def test_a_waiting_message_enters_the_transcript_when_its_turn_comes(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "first"], ["second"]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b"))
        assert shape(await core.transcript()) == ["User"]
        gate.open()
        await core.dispatch.wait(RunId("b"), 60)
        messages = await core.transcript()
        assert shape(messages) == ["User", "Assistant", "User", "Assistant"]


@pytest.mark.requirement("queue-mode-steer")
async def test_steering_skips_the_remaining_calls_and_the_model_sees_it(tmp_path: Path) -> None:
    calls = [ToolCall(f"c{n}", "read", {"path": "note.txt"}) for n in range(3)]
    gate = ReplyGate()
    model = ScriptedModel([[gate, *calls], ["as you wish"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("text\n")
        await core.dispatch.submit(request("work"))
        await gate.reached.wait()
        steer = request("stop that", queue_mode=QueueMode.STEER)
        await core.dispatch.submit(steer)
        gate.open()
        result = await core.dispatch.wait(RunId("work"), 60)
        assert result is not None
        assert result.payloads == ("as you wish",)
        messages = await core.transcript()
        assert shape(messages) == [
            *("User", "Assistant", "ToolResult", "ToolResult", "ToolResult", "User", "Assistant")
        ]
        results = [message for message in messages if isinstance(message, ToolResultMessage)]
        assert [result.is_error for result in results] == [False, True, True]
        assert results[1].text == "Skipped due to queued user message."
        assert model.requests[1].last == "stop that"
        joined = await core.dispatch.wait(RunId("stop that"), 60)
        assert joined is not None
        assert joined.joined == "work"
        assert joined.payloads == ()
        entries = await core.store.read(
            lambda reader: sessions.entries(reader, joined.session_id, limit=-1)
        )
        assert [entry.run_id for entry in entries][-2:] == ["stop that", "work"]


@pytest.mark.requirement("queue-mode-followup")
async def test_a_follow_up_waits_for_the_end_and_has_a_turn_of_its_own(tmp_path: Path) -> None:
    gate = ReplyGate()
    call = ToolCall("c1", "read", {"path": "note.txt"})
    model = ScriptedModel([[gate, call], ["one"], ["two"], ["three"], ["four"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("text\n")
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b", queue_mode=QueueMode.FOLLOWUP))
        await core.dispatch.submit(request("c", queue_mode=QueueMode.FOLLOWUP))
        await core.dispatch.submit(request("d", queue_mode=QueueMode.STEER))  # b and c are before
        gate.open()
        for name, answer in (("a", "one"), ("b", "two"), ("c", "three"), ("d", "four")):
            result = await core.dispatch.wait(RunId(name), 60)
            assert result is not None
            assert (result.payloads, result.joined) == ((answer,), None)
        first = ["User", "Assistant", "ToolResult", "Assistant"]
        assert shape(await core.transcript()) == first + ["User", "Assistant"] * 3
        assert [call.last for call in model.requests[2:]] == ["b", "c", "d"]


async def test_what_did_not_get_in_becomes_a_run_of_its_own(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, ModelOverloadedError("busy")], ["answered"]])
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b", queue_mode=QueueMode.STEER))
        gate.open()
        result = await core.dispatch.wait(RunId("b"), 60)
        assert result is not None
        assert result.joined is None
        assert result.payloads == ("answered",)


async def test_an_abort_keeps_the_partial_text_and_frees_the_lane(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["so far", gate], ["next"]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        assert core.dispatch.abort(MAIN, None, "rpc") == ["a"]
        result = await core.dispatch.wait(RunId("a"), 60)
        assert result is not None
        assert result.stop_reason is StopReason.ABORTED
        assert result.payloads == ("so far",)
        assert result.aborted_by == "rpc"
        last = (await core.transcript())[-1]
        assert isinstance(last, AssistantMessage)
        assert (last.stop_reason, last.text) == ("aborted", "so far")
        assert (await core.ask("b")).payloads == ("next",)


async def test_a_waiting_run_can_be_aborted_and_never_asks_the_model(tmp_path: Path) -> None:
    gate = ReplyGate()
    model = ScriptedModel([[gate, "one"]])
    async with open_core(tmp_path, model) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b"))
        assert core.dispatch.abort(MAIN, RunId("b"), "rpc") == ["b"]
        result = await core.dispatch.wait(RunId("b"), 60)
        assert result is not None
        assert (result.stop_reason, result.aborted_by) == (StopReason.ABORTED, "rpc")
        gate.open()
        await core.dispatch.wait(RunId("a"), 60)
        assert len(model.requests) == 1
        assert shape(await core.transcript()) == ["User", "Assistant"]


async def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["thinking", ReplyGate()], ["ok"]])) as core:
        await core.dispatch.submit(request("a", timeout=2.0))
        result = await core.dispatch.wait(RunId("a"), 60)
        assert result is not None
        assert result.stop_reason is StopReason.TIMEOUT
        assert result.payloads == ("thinking",)
        assert result.error is not None
        assert (await core.ask("b")).stop_reason is StopReason.DONE


@pytest.mark.requirement("agent-run-timeout-600s")
async def test_a_run_without_a_limit_of_its_own_has_the_configured_one(tmp_path: Path) -> None:
    limit = AgentsConfig(defaults=AgentDefaults(timeout_seconds=0.05))
    async with open_core(tmp_path, ScriptedModel([[ReplyGate()]]), agents=limit) as core:
        assert (await core.ask("a")).stop_reason is StopReason.TIMEOUT


async def test_a_run_with_the_limit_zero_has_none(tmp_path: Path) -> None:
    limit, gate = AgentsConfig(defaults=AgentDefaults(timeout_seconds=0.01)), ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "done"]]), agents=limit) as core:
        await core.dispatch.submit(request("a", timeout=0))
        await gate.reached.wait()
        await anyio.sleep(0.02)  # past the configured limit, which must not hold
        gate.open()
        assert (await core.ask("a")).stop_reason is StopReason.DONE


async def test_a_model_failure_is_a_result_and_the_next_run_works(tmp_path: Path) -> None:
    model = ScriptedModel([["par", ModelOverloadedError("overloaded")], ["fine"]])
    async with open_core(tmp_path, model) as core:
        result = await core.ask("a")
        assert result.stop_reason is StopReason.ERROR
        assert result.error is not None
        assert (result.error.code, result.error.retryable) == ("model.overloaded", True)
        assert (await core.ask("b")).payloads == ("fine",)
        assert shape(await core.transcript()) == ["User", "Assistant"] * 2


async def test_without_a_model_the_person_is_told_what_to_do(tmp_path: Path) -> None:
    async with open_core(tmp_path, None) as core:
        result = await core.ask("a")
        assert result.error is not None
        assert result.error.code == "model.unavailable"
        assert isinstance((await core.transcript())[-1], AssistantMessage)


async def test_an_empty_answer_is_a_failure(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["  "]])) as core:
        result = await core.ask("a")
        assert result.error is not None
        assert result.error.code == "model.empty_reply"


async def test_one_session_never_runs_twice_at_a_time_and_others_go_on(tmp_path: Path) -> None:
    gates = {"a1": ReplyGate(), "b1": ReplyGate()}
    running: list[str] = []

    def script(model_request: object) -> list[object]:
        last = model_request.history.messages[-1]  # type: ignore[attr-defined]
        assert isinstance(last, UserMessage)
        text = last.text
        running.append(text)
        return [gates[text], text] if text in gates else [text]

    async with open_core(tmp_path, ScriptedModel(script)) as core:  # type: ignore[arg-type]
        for text in ("a1", "a2", "b1"):
            await core.dispatch.submit(request(text, key=SessionKey.parse(text[0])))
        with anyio.fail_after(60):
            await gates["a1"].reached.wait()
            await gates["b1"].reached.wait()
        assert sorted(running) == ["a1", "b1"]
        for gate in gates.values():
            gate.open()
        await core.dispatch.wait(RunId("a2"), 60)
        assert running[-1] == "a2"


async def test_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        with pytest.raises(UnconfiguredAgentError):
            await core.dispatch.submit(request("a", key=SessionKey.parse("agent:nobody:main")))


async def test_a_draining_gateway_takes_nothing_and_ends_what_runs(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "done"]])) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b"))
        drained: list[bool] = []

        async def drain(core: Core) -> None:
            drained.append(await core.dispatch.drain(5))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain, core)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(BusyError):
                await core.dispatch.submit(request("c"))
            gate.open()
        assert drained == [True]
        unfinished = await core.store.read(runs.unfinished)
        assert [run.request.text for run in unfinished] == ["b"]
