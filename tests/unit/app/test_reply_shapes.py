"""Answers on platforms: additions to their text, and text that is left out."""

from pathlib import Path
from typing import Any

import pytest

from skerry.model.errors import ModelEmptyReplyError
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import AssistantMessage, TextBlock, ThinkingBlock, ToolCall
from skerry.model.run import StopReason
from skerry.model.session import SessionSettings
from skerry.store import runs
from skerry.testing.model import ReplyGate, Step
from tests.support.chat import ACCOUNT, BLOCKS, CHANNEL, ONE, TWO, chat, client_text

# Silence and shape


@pytest.mark.parametrize("defaults", [{}, BLOCKS], ids=["whole", "blocks"])
async def test_nothing_of_a_silent_reply_leaves(tmp_path: Path, defaults: dict[str, Any]) -> None:
    gate = ReplyGate()
    async with chat(tmp_path, [["NO_", gate, "REPLY"]], **defaults) as person:
        await person.write()
        await gate.reached.wait()
        (run,) = await person.core.store.read(runs.unfinished)
        assert run.partial == ""
        gate.open()
        result = await person.end()
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ())
        assert await person.sent() == []
        assert client_text(person.core) == ""
        last = (await person.core.transcript())[-1]
        assert isinstance(last, AssistantMessage)
        assert last.text == "NO_REPLY"  # the model is to know that it said nothing


async def test_thoughts_in_tags_are_thinking_everywhere(tmp_path: Path) -> None:
    async with chat(tmp_path, [["<thi", "nk>hm</th", "ink>\n\nHello"]]) as person:
        assert (await person.ask()).payloads == ("Hello",)
        assert client_text(person.core) == "Hello"
        assert await person.sent() == ["Hello"]
        last = (await person.core.transcript())[-1]
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
        found = [(part.part.text, part.part.to.quote) for part in await person.parts()]
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
    gate = ReplyGate()
    script: list[list[Step]] = [[ThinkingBlock(ONE), gate, ThinkingBlock("Two."), "Yes."]]
    async with chat(tmp_path, script, **BLOCKS) as person:
        await person.change(SessionSettings(reasoning_level="stream"))
        await person.write()
        await gate.reached.wait()
        assert await person.until_sent(1) == [f"Reasoning:\n_{ONE.strip()}_"]
        gate.open()
        result = await person.end()
        assert await person.sent() == [
            f"Reasoning:\n_{ONE.strip()}_",
            "Reasoning:\n_Two._",
            "Yes.",
        ]
        assert result.payloads == ("Yes.",)


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


async def test_groups_receive_no_messages_about_tools(tmp_path: Path) -> None:
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
