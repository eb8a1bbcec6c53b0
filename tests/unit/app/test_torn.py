"""An answer of which blocks had left when the gateway died goes on behind them, as one answer."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import LlmOutput, LlmOutputChange
from skerry.infra.clock import SystemClock
from skerry.model.errors import ModelOverloadedError
from skerry.model.message import AssistantMessage, TextBlock, ToolCall, UserMessage
from skerry.model.run import StopReason
from skerry.ports.model_candidates import CallTarget, ModelCandidate, SingleCandidate
from skerry.runtime.block_streaming import BEGUN_ANEW
from skerry.runtime.continuation import GO_ON
from skerry.runtime.recovery import recover
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels, Step
from tests.support.chaos import transcript_faults
from tests.support.chat import BLOCKS, ONE, THREE, TWO, Chat, chat, client_text
from tests.support.core import MAIN
from tests.support.hooks import on

FOUR = "Nothing more.\n\n"
LOOK = ToolCall("c1", "read", {"path": "note.txt"})


@asynccontextmanager
async def torn(
    home: Path, script: Sequence[Sequence[Step]], left: int, **defaults: object
) -> AsyncGenerator[list[str]]:
    """Lets a run die at the gate that ends its script, with so many blocks; gives what was sent."""
    gate = ReplyGate()
    *before, last = script
    async with chat(home, [*before, [*last, gate]], **(BLOCKS | defaults)) as person:
        await person.write()
        await at(gate)
        sent = await person.until_sent(left)
    yield sent


@asynccontextmanager
async def again(
    home: Path,
    script: Sequence[Sequence[Step]],
    hooks: Hooks | None = None,
    **defaults: object,
) -> AsyncGenerator[Chat]:
    """Starts a new process on the open state."""
    async with chat(home, script, hooks, **(BLOCKS | defaults)) as person:
        core = person.core
        for run in await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks):
            core.dispatch.resume(run)
        yield person


async def at(gate: ReplyGate) -> None:
    with anyio.fail_after(60):
        await gate.reached.wait()


async def answers(person: Chat) -> list[str]:
    """Returns the model's messages in the transcript, which must be valid."""
    assert transcript_faults("s", await person.core.transcript()) == []
    return [
        message.text
        for message in await person.core.transcript()
        if isinstance(message, AssistantMessage)
    ]


async def test_an_answer_goes_on_behind_the_last_block_and_is_one_in_the_transcript(
    tmp_path: Path,
) -> None:
    async with torn(tmp_path, [[ONE, TWO, "And th"]], 2) as sent:
        assert sent == [ONE.strip(), TWO.strip()]
    async with again(tmp_path, [[THREE]]) as person:
        result = await person.end()
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, (ONE + TWO + THREE,))
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]
        assert [part.part.block for part in await person.parts()] == [0, 1, 2]
        assert await answers(person) == [ONE + TWO + THREE]
        assert client_text(person.core) == ONE + TWO + THREE  # whoever looks now sees all of it
        model = person.core.models.provider
        assert isinstance(model, ScriptedModel)
        prompt, begun, note = model.requests[0].messages
        assert isinstance(prompt, UserMessage)
        assert isinstance(begun, AssistantMessage)
        assert isinstance(note, UserMessage)
        assert (begun.text, note.text) == ((ONE + TWO).rstrip(), GO_ON)


async def test_it_survives_one_restart_after_the_other(tmp_path: Path) -> None:
    async with torn(tmp_path, [[ONE, "And th"]], 1):
        pass
    gate = ReplyGate()
    async with again(tmp_path, [["nothing that leaves", gate]]) as person:
        await at(gate)
    gate = ReplyGate()
    async with again(tmp_path, [[TWO, gate]]) as person:
        await at(gate)
        await person.until_sent(2)
    async with again(tmp_path, [[THREE]]) as person:
        assert (await person.end()).payloads == (ONE + TWO + THREE,)
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]
        assert await answers(person) == [ONE + TWO + THREE]


async def test_a_model_that_starts_over_all_the_same_repeats_nothing(tmp_path: Path) -> None:
    async with torn(tmp_path, [[ONE, TWO]], 2):
        pass
    async with again(tmp_path, [[ONE, TWO, THREE]]) as person:
        assert (await person.end()).payloads == (ONE + TWO + THREE,)
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE]


async def test_code_that_was_cut_goes_on_inside_its_fence(tmp_path: Path) -> None:
    lines = [f"line_{number} = {number}\n" for number in range(4)]
    async with torn(tmp_path, [["```py\n", *lines, "line_4"]], 1) as sent:
        assert sent[0].startswith("```py\nline_0")
        left = "\n".join(sent).count("line_")
    async with again(tmp_path, [[*lines, "line_4 = 4\n", "```"][left:]]) as person:
        await person.end()
        blocks = await person.sent()
        assert all(block.count("```") == 2 for block in blocks)
        words = [word for block in blocks for word in block.split("\n") if "```" not in word]
        assert words == [*(line.strip() for line in lines), "line_4 = 4"]


async def test_what_left_before_a_tool_is_not_said_again(tmp_path: Path) -> None:
    async with torn(tmp_path, [["Looking.", LOOK], [TWO]], 2) as sent:
        assert sent == ["Looking.", TWO.strip()]
    async with again(tmp_path, [[THREE]]) as person:
        assert (await person.end()).payloads == ("Looking.", TWO + THREE)
        assert await person.sent() == ["Looking.", TWO.strip(), THREE]


async def test_without_blocks_from_now_on_the_end_has_only_the_rest(tmp_path: Path) -> None:
    async with torn(tmp_path, [["Looking.", LOOK], [TWO]], 2):
        pass
    async with again(tmp_path, [[FOUR, THREE]], blockStreamingDefault="off") as person:
        await person.end()
        assert await person.sent() == ["Looking.", TWO.strip(), FOUR + THREE]
        assert await answers(person) == ["Looking.", TWO + FOUR + THREE]


async def test_with_blocks_from_now_on_what_had_waited_for_the_end_is_said(tmp_path: Path) -> None:
    async with torn(tmp_path, [["Looking.", LOOK], [TWO]], 0, blockStreamingDefault="off"):
        pass
    async with again(tmp_path, [[ONE, THREE]]) as person:
        await person.end()
        assert await person.sent() == ["Looking.", ONE.strip(), THREE]


async def test_a_plugin_that_changes_the_whole_does_not_make_it_come_twice(tmp_path: Path) -> None:
    async with torn(tmp_path, [[ONE, TWO]], 2):
        pass
    hooks = Hooks()

    async def shout(draft: LlmOutput) -> LlmOutputChange:
        clean = (TextBlock(draft.last_assistant.text.replace(THREE, THREE.upper())),)
        return LlmOutputChange(message=replace(draft.last_assistant, content=clean))

    on(hooks.llm_output, shout)
    async with again(tmp_path, [[THREE]], hooks) as person:
        await person.end()
        assert await person.sent() == [ONE.strip(), TWO.strip(), THREE.upper()]


class RepeatingCandidate(SingleCandidate):
    """Offers its candidate a second time in a call."""

    asked = 0

    async def next(self) -> ModelCandidate | None:
        self.asked += 1
        self._failed = self.asked > 2
        return await super().next()


@pytest.mark.parametrize(
    ("first", "sent"),
    [
        ([], [ONE.strip(), TWO.strip(), THREE]),
        ([FOUR, "more"], [ONE.strip(), FOUR.strip(), BEGUN_ANEW, TWO.strip(), THREE]),
    ],
)
async def test_a_second_model_goes_on_too_unless_the_first_had_said_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: list[Step], sent: list[str]
) -> None:
    def tries(models: ScriptedModels, expected: CallTarget) -> RepeatingCandidate:
        return RepeatingCandidate(lambda: models.choose(expected.reference))

    monkeypatch.setattr(ScriptedModels, "tries", tries)
    async with torn(tmp_path, [[ONE]], 1):
        pass
    async with again(tmp_path, [[*first, ModelOverloadedError("busy")], [TWO, THREE]]) as person:
        result = await person.end()
        assert await person.sent() == sent
        assert result.payloads == ((TWO + THREE) if first else (ONE + TWO + THREE),)


async def test_an_answer_that_is_stopped_before_it_goes_on_keeps_what_was_read(
    tmp_path: Path,
) -> None:
    async with torn(tmp_path, [[ONE]], 1):
        pass
    gate = ReplyGate()
    async with again(tmp_path, [[gate]]) as person:
        await at(gate)
        person.core.dispatch.abort(MAIN, None, "stop")
        await person.end()
        assert await answers(person) == [ONE]
