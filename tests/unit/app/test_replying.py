"""Blocks of an answer: each leaves once, and the end has the rest, whatever breaks off."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    LlmOutput,
    LlmOutputChange,
    MessageSending,
    MessageSendingChange,
)
from skerry.infra.clock import SystemClock
from skerry.model.errors import ModelOverloadedError
from skerry.model.ids import RunId
from skerry.model.message import AssistantMessage, TextBlock, ToolCall
from skerry.model.run import StopReason
from skerry.ports.model_candidates import CallTarget, ModelCandidate, SingleCandidate
from skerry.runtime.block_streaming import BEGUN_ANEW
from skerry.runtime.finalize import INTERRUPTED, STOPPED
from skerry.runtime.recovery import MAX_RESTARTS, recover
from skerry.store import runs
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels, Step
from tests.support.acting import ACT, Act
from tests.support.chat import BLOCKS, ONE, THREE, TWO, Chat, chat
from tests.support.core import MAIN, open_core
from tests.support.hooks import on

# Blocks


@pytest.mark.requirement("agent-block-streaming-off-by-default")
async def test_without_configuration_an_answer_leaves_whole_and_when_it_is_there(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    sizes = {name: value for name, value in BLOCKS.items() if name != "blockStreamingDefault"}
    async with chat(tmp_path, [[ONE, TWO, gate, THREE]], **sizes) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.sent() == []
        assert not (await person.core.store.read(runs.unfinished))[0].left_trace
        gate.open()
        await person.end()
        assert await person.sent() == [ONE + TWO + THREE]


@pytest.mark.requirement("agent-block-streaming-off-by-default")
async def test_blocks_leave_while_the_answer_is_written_and_the_end_has_the_rest(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with chat(tmp_path, [[ONE, TWO, gate, THREE]], **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.until_sent(2) == [ONE.strip(), TWO.strip()]
        (run,) = await person.core.store.read(runs.unfinished)
        assert (run.left_trace, run.partial, run.delivered) == (True, ONE + TWO, len(ONE + TWO))
        gate.open()
        result = await person.end()
        assert result.payloads == (ONE + TWO + THREE,)
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]
        assert [part.part.block for part in await person.parts()] == [0, 1, 2]
        assert person.core.woken


async def test_a_short_answer_costs_no_unit_of_its_own(tmp_path: Path) -> None:
    async with chat(tmp_path, [["Short."]], **BLOCKS) as person:
        await person.ask()
        assert await person.sent() == ["Short."]
        assert len(person.core.woken) == 1


async def test_what_was_said_leaves_before_a_tool_begins(tmp_path: Path) -> None:
    gate = ReplyGate()
    call = ToolCall("c1", "read", {"path": "note.txt"})
    script: list[list[Step]] = [["Looking.", call], [gate, "Found."]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.sent() == ["Looking."]
        (run,) = await person.core.store.read(runs.unfinished)
        assert (run.partial, run.delivered) == ("", 0)
        gate.open()
        assert (await person.end()).payloads == ("Looking.", "Found.")
        assert await person.sent() == ["Looking.", "Found."]


async def test_blocks_can_wait_for_the_whole_message(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with chat(
        tmp_path, [[ONE, TWO, gate, THREE]], **BLOCKS, blockStreamingBreak="message_end"
    ) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.sent() == []
        gate.open()
        await person.end()
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]


async def test_blocks_are_joined_while_the_model_is_quick(tmp_path: Path) -> None:
    quick = {**BLOCKS, "blockStreamingCoalesce": {"maxChars": 50}}
    async with chat(tmp_path, [[ONE, TWO, THREE]], **quick) as person:
        await person.ask()
        assert await person.sent() == [(ONE + TWO).strip(), THREE]


async def test_a_silence_of_the_model_sends_what_waits(tmp_path: Path) -> None:
    gate = ReplyGate()
    quick = {**BLOCKS, "blockStreamingCoalesce": {"idleMs": 1}}
    async with chat(tmp_path, [[ONE, gate, THREE]], **quick) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.until_sent(1) == [ONE.strip()]
        gate.open()
        await person.end()
        assert await person.sent() == [ONE.strip(), THREE]


async def test_a_person_who_types_pauses_between_blocks(tmp_path: Path) -> None:
    slow = {**BLOCKS, "humanDelay": {"mode": "custom", "minMs": 1, "maxMs": 2}}
    async with chat(tmp_path, [[ONE, TWO, THREE]], **slow) as person:
        await person.ask()
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]
        assert len(person.core.woken) == 3


async def test_an_abort_sends_what_was_said_and_not_sent(tmp_path: Path) -> None:
    gate = ReplyGate()
    async with chat(tmp_path, [[ONE, "And the", gate]], **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        person.core.dispatch.abort(MAIN, None, "rpc")
        assert (await person.end()).payloads == (ONE + "And the",)
        assert await person.sent() == [ONE.strip(), "And the", STOPPED]


async def test_a_failure_after_a_block_is_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    script: list[list[Step]] = [[ONE, "And the", ModelOverloadedError("busy")]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        assert (await person.ask()).stop_reason is StopReason.ERROR
        sent = await person.sent()
        assert sent[:2] == [ONE.strip(), "And the"]
        assert sent[2].startswith("⚠️ I could not answer")
        last = (await person.core.transcript())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == ONE + "And the"


async def test_plugins_see_each_block_and_may_change_it(tmp_path: Path) -> None:
    hooks, texts = Hooks(), list[str]()

    async def look(draft: MessageSending) -> MessageSendingChange:
        texts.append(draft.content)
        if draft.content == TWO.strip():
            return MessageSendingChange(cancel=True)
        return MessageSendingChange(content=draft.content.upper())

    on(hooks.message_sending, look)
    async with chat(tmp_path, [[ONE, TWO, THREE]], hooks, **BLOCKS) as person:
        await person.ask()
        assert texts == [ONE.strip(), TWO.strip(), THREE]
        assert await person.sent() == [ONE.strip().upper(), THREE.upper()]


async def test_what_a_plugin_takes_out_of_a_message_has_not_left_before(tmp_path: Path) -> None:
    hooks, gate = Hooks(), ReplyGate()

    async def redact(draft: LlmOutput) -> LlmOutputChange:
        clean = (TextBlock(draft.last_assistant.text.replace("second", "other")),)
        return LlmOutputChange(message=replace(draft.last_assistant, content=clean))

    on(hooks.llm_output, redact)
    async with chat(tmp_path, [[ONE, TWO, gate, THREE]], hooks, **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        assert await person.sent() == []
        gate.open()
        await person.end()
        assert await person.sent() == [ONE.strip(), TWO.strip().replace("second", "other"), THREE]


# What breaks off


class RepeatingCandidate(SingleCandidate):
    """Offers its candidate a second time in a call."""

    asked = 0

    async def next(self) -> ModelCandidate | None:
        self.asked += 1
        self._failed = self.asked > 2
        return await super().next()


@pytest.fixture
def _second_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def tries(models: ScriptedModels, expected: CallTarget) -> RepeatingCandidate:
        return RepeatingCandidate(lambda: models.choose(expected.reference))

    monkeypatch.setattr(ScriptedModels, "tries", tries)


@pytest.mark.usefixtures("_second_model")
async def test_another_model_starts_over_with_a_mark_where_a_block_has_left(tmp_path: Path) -> None:
    script: list[list[Step]] = [[ONE, "And th", ModelOverloadedError("busy")], [TWO, THREE]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        result = await person.ask()
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, (TWO + THREE,))
        assert await person.sent() == [ONE.strip(), BEGUN_ANEW, TWO.strip(), THREE]


@pytest.mark.usefixtures("_second_model")
async def test_another_model_answers_without_a_mark_where_nothing_has_left(tmp_path: Path) -> None:
    script: list[list[Step]] = [["Too sh", ModelOverloadedError("busy")], [TWO, THREE]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        await person.ask()
        assert await person.sent() == [TWO.strip(), THREE]


async def restarted(home: Path) -> list[str]:
    """Opens the state again, as a start does; returns the contents of the outbox."""
    async with open_core(home, ScriptedModel(())) as core:
        again = await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
        assert again == []
        return await Chat(core).sent()


async def test_a_start_that_closes_a_run_with_blocks_says_what_is_left_of_it(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    async with chat(tmp_path, [[ONE, TWO, "```py\nx = 1\n", gate]], **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        await person.until_sent(2)
        (run,) = await person.core.store.read(runs.unfinished)
        partial = ONE + TWO + "```py\nx = 1\n"
        await person.core.store.write(lambda unit: runs.checkpoint(unit, RunId("hi"), partial))
        assert run.delivered == len(ONE + TWO)
        too_often = "UPDATE run SET restarts = ?"
        await person.core.store.write(lambda unit: unit.execute(too_often, (MAX_RESTARTS,)))
        found = await snapshot(tmp_path)
    assert found == [ONE.strip(), TWO.strip(), "```py\nx = 1", INTERRUPTED]


async def test_a_start_that_closes_a_run_repeats_nothing_that_left_before_a_tool(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    script: list[list[Step]] = [["Looking.", ACT]]
    async with chat(tmp_path, script, tools=(Act(gate),), **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        found = await snapshot(tmp_path)
    assert found == ["Looking.", INTERRUPTED]


async def snapshot(home: Path) -> list[str]:
    """Returns the outbox after a start, if the process died now."""
    copy = home / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(home / "state.sqlite")) as source,
        closing(sqlite3.connect(copy / "state.sqlite")) as target,
    ):
        source.backup(target)
    return await restarted(copy)
