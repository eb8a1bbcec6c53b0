"""What a platform gets of a run: blocks while it goes on, the rest with its end, nothing twice."""

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from skerry.agent.ending import INTERRUPTED, STOPPED
from skerry.agent.replying import BEGUN_ANEW
from skerry.app.recover import recover
from skerry.config.agents import AgentDefaults, AgentsConfig
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    LlmOutput,
    LlmOutputChange,
    MessageSending,
    MessageSendingChange,
)
from skerry.infra.clock import SystemClock
from skerry.model.errors import ModelEmptyReplyError, ModelOverloadedError
from skerry.model.event import TextDelta
from skerry.model.ids import AccountId, ChannelId, RunId, SessionId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from skerry.model.run import RunRequest, RunResult, StopReason
from skerry.model.session import SessionSettings
from skerry.ports.tries import Candidate, OneTry, Wanted
from skerry.store import Unit, archive, outbox, runs, sessions
from skerry.testing.model import Gate, ScriptedModel, ScriptedModels, Step
from tests.support.core import MAIN, Core, open_core
from tests.support.hooks import on

CHANNEL, ACCOUNT = ChannelId("memory"), AccountId("default")
TO = ReplyTo(CHANNEL, ACCOUNT, Peer(PeerKind.DIRECT, "alice"), "m1")
BLOCKS: dict[str, Any] = {
    "blockStreamingDefault": "on",
    "blockStreamingChunk": {"minChars": 10, "maxChars": 40},
    "blockStreamingCoalesce": {"idleMs": 0},
}
ONE, TWO, THREE = "The first paragraph.\n\n", "The second paragraph.\n\n", "The end."


@dataclass
class Chat:
    """A core whose person writes over a platform."""

    core: Core

    async def write(self, text: str = "hi", to: ReplyTo = TO) -> None:
        await self.core.dispatch.submit(RunRequest(RunId(text), MAIN, text, reply_to=to))

    async def end(self, run_id: str = "hi") -> RunResult:
        with anyio.fail_after(10):
            result = await self.core.dispatch.wait(RunId(run_id), None)
        assert result is not None
        return result

    async def ask(self, text: str = "hi", to: ReplyTo = TO) -> RunResult:
        await self.write(text, to)
        return await self.end(text)

    async def sent(self) -> list[str]:
        return [one.part.text for one in await self.parts()]

    async def parts(self) -> list[outbox.WaitingPart]:
        return await self.core.store.read(lambda reader: outbox.waiting(reader, CHANNEL, ACCOUNT))

    async def until_sent(self, count: int) -> list[str]:
        with anyio.fail_after(10):
            while len(found := await self.sent()) < count:  # noqa: ASYNC110 - nobody is told
                await anyio.sleep(0.005)
        return found

    async def change(self, settings: SessionSettings) -> None:
        def write(unit: Unit) -> None:
            session_id, _ = sessions.ensure(unit, MAIN, SessionId("s1"), 1)
            archive.change(unit, session_id, label="", settings=settings)

        await self.core.store.write(write)


@asynccontextmanager
async def chat(
    home: Path,
    script: Sequence[Sequence[Step]],
    hooks: Hooks | None = None,
    **defaults: Any,
) -> AsyncGenerator[Chat]:
    agents = AgentsConfig(defaults=AgentDefaults.model_validate(defaults))
    async with open_core(home, ScriptedModel(script), agents=agents, hooks=hooks) as core:
        yield Chat(core)


def said(core: Core) -> str:
    """Return what clients of the gateway were told."""
    return "".join(one.body.delta for one in core.events if isinstance(one.body, TextDelta))


# Blocks


@pytest.mark.requirement("agent-block-streaming-off-by-default")
async def test_without_configuration_an_answer_leaves_whole_and_when_it_is_there(
    tmp_path: Path,
) -> None:
    gate = Gate()
    async with chat(tmp_path, [[ONE, TWO, gate, THREE]]) as person:
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
    gate = Gate()
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
        assert [one.part.block for one in await person.parts()] == [0, 1, 2]
        assert person.core.woken


async def test_a_short_answer_costs_no_unit_of_its_own(tmp_path: Path) -> None:
    async with chat(tmp_path, [["Short."]], **BLOCKS) as person:
        await person.ask()
        assert await person.sent() == ["Short."]
        assert len(person.core.woken) == 1


async def test_what_was_said_leaves_before_a_tool_begins(tmp_path: Path) -> None:
    gate = Gate()
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
    gate = Gate()
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
    gate = Gate()
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
    gate = Gate()
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
        last = (await person.core.said())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == ONE + "And the"


async def test_plugins_see_each_block_and_may_change_it(tmp_path: Path) -> None:
    hooks, seen = Hooks(), list[str]()

    async def look(draft: MessageSending) -> MessageSendingChange:
        seen.append(draft.content)
        if draft.content == TWO.strip():
            return MessageSendingChange(cancel=True)
        return MessageSendingChange(content=draft.content.upper())

    on(hooks.message_sending, look)
    async with chat(tmp_path, [[ONE, TWO, THREE]], hooks, **BLOCKS) as person:
        await person.ask()
        assert seen == [ONE.strip(), TWO.strip(), THREE]
        assert await person.sent() == [ONE.strip().upper(), THREE.upper()]


async def test_what_a_plugin_takes_out_of_a_message_has_not_left_before(tmp_path: Path) -> None:
    hooks, gate = Hooks(), Gate()

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


# Silence and shape


@pytest.mark.parametrize("defaults", [{}, BLOCKS], ids=["whole", "blocks"])
async def test_nothing_of_a_silent_reply_leaves(tmp_path: Path, defaults: dict[str, Any]) -> None:
    gate = Gate()
    async with chat(tmp_path, [["NO_", gate, "REPLY"]], **defaults) as person:
        await person.write()
        await gate.reached.wait()
        (run,) = await person.core.store.read(runs.unfinished)
        assert run.partial == ""
        gate.open()
        result = await person.end()
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ())
        assert await person.sent() == []
        assert said(person.core) == ""
        last = (await person.core.said())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "NO_REPLY"  # the model is to know that it said nothing


async def test_thoughts_in_tags_are_thinking_everywhere(tmp_path: Path) -> None:
    async with chat(tmp_path, [["<thi", "nk>hm</th", "ink>\n\nHello"]]) as person:
        assert (await person.ask()).payloads == ("Hello",)
        assert said(person.core) == "Hello"
        assert await person.sent() == ["Hello"]
        last = (await person.core.said())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.content == (ThinkingBlock("hm"), TextBlock("Hello"))


async def test_a_reply_of_thoughts_alone_is_an_empty_one(tmp_path: Path) -> None:
    async with chat(tmp_path, [["<think>hm</think>"]]) as person:
        result = await person.ask()
        assert result.error is not None
        assert result.error.code == ModelEmptyReplyError.code


@pytest.mark.parametrize("defaults", [{}, BLOCKS], ids=["whole", "blocks"])
async def test_a_model_says_which_message_it_quotes(
    tmp_path: Path, defaults: dict[str, Any]
) -> None:
    script = [["[[reply_to_current]] Yes, ", "it is."], ["[[reply_to: m0]]No."], ["Plain."]]
    async with chat(tmp_path, script, **defaults) as person:
        for text in ("a", "b", "c"):
            await person.ask(text)
        found = [(one.part.text, one.part.to.quote) for one in await person.parts()]
        assert found == [("Yes, it is.", "m1"), ("No.", "m0"), ("Plain.", None)]


async def test_only_files_of_the_workspace_are_shown(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    text = "See:\nMEDIA: chart.png\nMEDIA: ../secret.txt\nMEDIA: link.txt\nMEDIA: no.png\nBye."
    async with chat(tmp_path, [[text]]) as person:
        (person.core.workspace / "chart.png").write_text("png")
        (person.core.workspace / "link.txt").symlink_to(tmp_path / "secret.txt")
        await person.ask()
        (sent,) = await person.sent()
        assert sent.splitlines() == [
            "See:",
            "📎 chart.png",
            "📎 secret.txt (not sent: it is not in the workspace)",
            "📎 link.txt (not sent: it is not in the workspace)",
            "📎 no.png (not sent: there is no such file)",
            "Bye.",
        ]


# Reasoning, tools, usage


async def test_reasoning_leaves_as_a_message_before_the_words(tmp_path: Path) -> None:
    script: list[list[Step]] = [[ThinkingBlock("One. "), ThinkingBlock("Two."), "Yes."]]
    async with chat(tmp_path, script) as person:
        await person.change(SessionSettings(reasoning_level="on"))
        await person.ask()
        assert await person.sent() == ["Reasoning:\n_One. Two._", "Yes."]


@pytest.mark.requirement("agent-reasoning-streaming")
async def test_reasoning_is_a_stream_of_its_own_in_blocks(tmp_path: Path) -> None:
    gate = Gate()
    script: list[list[Step]] = [[ThinkingBlock(ONE), gate, ThinkingBlock("Two."), "Yes."]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        await person.change(SessionSettings(reasoning_level="stream"))
        await person.write()
        await gate.reached.wait()
        assert await person.until_sent(1) == [f"Reasoning:\n_{ONE.strip()}_"]
        gate.open()
        await person.end()
        assert (await person.sent())[1:] == ["Reasoning:\n_Two._", "Yes."]


async def test_reasoning_stays_where_nobody_asked_for_it(tmp_path: Path) -> None:
    async with chat(tmp_path, [[ThinkingBlock("hm"), "Yes."]]) as person:
        await person.ask()
        assert await person.sent() == ["Yes."]


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("off", ["Looking.", "Done."]),
        ("on", ["🛠️ read: note.txt", "Looking.", "Done."]),
        ("full", ["🛠️ read: note.txt", "✅ read\n```\n1: text\n```", "Looking.", "Done."]),
    ],
)
async def test_tool_calls_are_told_as_messages(
    tmp_path: Path, level: str, expected: list[str]
) -> None:
    call = ToolCall("c1", "read", {"path": "note.txt"})
    script: list[list[Step]] = [["Looking.", call], ["Done."]]
    async with chat(tmp_path, script, verboseDefault=level) as person:
        (person.core.workspace / "note.txt").write_text("text\n")
        await person.ask()
        assert await person.sent() == expected


async def test_groups_hear_nothing_of_tools(tmp_path: Path) -> None:
    call = ToolCall("c1", "read", {"path": "note.txt"})
    group = ReplyTo(CHANNEL, ACCOUNT, Peer(PeerKind.GROUP, "g"), "m1")
    async with chat(tmp_path, [[call], ["Done."]], verboseDefault="full") as person:
        await person.ask("hi", group)
        assert await person.sent() == ["Done."]


@pytest.mark.parametrize(
    ("level", "line"),
    [
        ("tokens", "Usage: 1 in / 1 out"),
        ("full", "Usage: 1 in / 1 out · session agent:main:main"),
    ],
)
async def test_an_answer_says_what_it_took(tmp_path: Path, level: str, line: str) -> None:
    async with chat(tmp_path, [["Yes."]]) as person:
        await person.change(SessionSettings(response_usage=level))
        assert (await person.ask()).payloads == ("Yes.",)
        assert await person.sent() == [f"Yes.\n\n{line}"]


async def test_a_mute_conversation_gets_nothing(tmp_path: Path) -> None:
    async with chat(tmp_path, [[ONE, TWO]], **BLOCKS) as person:
        await person.change(SessionSettings(send_policy="deny", reasoning_level="on"))
        await person.ask()
        assert await person.sent() == []


# What breaks off


class Twice(OneTry):
    """Offers its candidate a second time in a call."""

    asked = 0

    async def next(self) -> Candidate | None:
        self.asked += 1
        self._failed = self.asked > 2
        return await super().next()


@pytest.fixture
def _second_model(monkeypatch: pytest.MonkeyPatch) -> None:
    def tries(models: ScriptedModels, wanted: Wanted) -> Twice:
        return Twice(lambda: models.choose(wanted.reference))

    monkeypatch.setattr(ScriptedModels, "tries", tries)


@pytest.mark.usefixtures("_second_model")
async def test_another_model_begins_anew_with_a_mark_where_a_block_has_left(tmp_path: Path) -> None:
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
    """Open the state again as a start does; return what is in the outbox then."""
    async with open_core(home, ScriptedModel(())) as core:
        again = await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
        assert again == []
        return await Chat(core).sent()


async def test_a_start_closes_a_run_with_blocks_and_says_what_is_left_of_it(tmp_path: Path) -> None:
    gate = Gate()
    async with chat(tmp_path, [[ONE, TWO, "```py\nx = 1\n", gate]], **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        await person.until_sent(2)
        (run,) = await person.core.store.read(runs.unfinished)
        partial = ONE + TWO + "```py\nx = 1\n"
        await person.core.store.write(lambda unit: runs.checkpoint(unit, RunId("hi"), partial))
        assert run.delivered == len(ONE + TWO)
        found = await snapshot(tmp_path)
    assert found == [ONE.strip(), TWO.strip(), "```py\nx = 1", INTERRUPTED]


async def test_a_start_repeats_nothing_that_left_before_a_tool(tmp_path: Path) -> None:
    gate = Gate()
    call = ToolCall("c1", "read", {"path": "note.txt"})
    script: list[list[Step]] = [["Looking.", call], [gate, "Found."]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        await person.write()
        await gate.reached.wait()
        found = await snapshot(tmp_path)
    assert found == ["Looking.", INTERRUPTED]


async def snapshot(home: Path) -> list[str]:
    """Return what a start would leave in the outbox if the process died now."""
    copy = home / "copy"
    copy.mkdir()
    with (
        closing(sqlite3.connect(home / "state.sqlite")) as source,
        closing(sqlite3.connect(copy / "state.sqlite")) as target,
    ):
        source.backup(target)
    return await restarted(copy)
