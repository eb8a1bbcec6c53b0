"""The entries of the transcript: the changes of hooks, and that calls keep their results."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.hooks.payloads import (
    AfterToolCall,
    BeforeMessageWrite,
    BeforeMessageWriteChange,
    ToolResultPersist,
    ToolResultPersistChange,
)
from skerry.model.message import (
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    open_calls,
    user,
)
from skerry.model.queue import QueueMode
from skerry.runtime.conversation import fenced
from skerry.runtime.run_hooks import WITHHELD
from skerry.testing.model import ReplyGate, ScriptedModel
from tests.support.core import open_core, request
from tests.support.hooks import READ, on, results, text
from tests.support.untrusted import within


@pytest.mark.requirement("hooks-07-tool-result-persist")
async def test_the_transcript_gets_what_tool_result_persist_makes(tmp_path: Path) -> None:
    def shorten(payload: ToolResultPersist) -> ToolResultPersistChange:
        assert not payload.is_synthetic
        return ToolResultPersistChange(message=text("short"))

    model = ScriptedModel([[READ], ["done"], ["again"]])
    async with open_core(tmp_path, model) as core:
        (core.workspace / "note.txt").write_text("a long text")
        on(core.hooks.tool_result_persist, shorten)
        await core.ask("hi")
        messages = await core.transcript()
        await core.ask("more")
    assert results(messages) == ["short"]
    assert "a long text" in model.requests[1].last  # this run has the unchanged result
    assert [within(message) for message in results(model.requests[2].messages)] == [
        "short"
    ]  # the next sees the transcript


def block(kind: type) -> Any:
    def handler(payload: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=isinstance(payload.message, kind))

    return handler


@pytest.mark.requirement("hooks-12-before-message-write")
async def test_every_entry_passes_before_message_write_the_persons_too(tmp_path: Path) -> None:
    names: list[str] = []

    def watch(payload: BeforeMessageWrite) -> BeforeMessageWriteChange | None:
        names.append(type(payload.message).__name__)
        if isinstance(payload.message, UserMessage):
            return BeforeMessageWriteChange(message=user(payload.message.text.upper(), 0))
        return None

    async with open_core(tmp_path, ScriptedModel([[READ], ["done"]])) as core:
        on(core.hooks.before_message_write, watch)
        await core.ask("hi")
        messages = await core.transcript()
    expected = ["UserMessage", "AssistantMessage", "ToolResultMessage", "AssistantMessage"]
    assert (names, [type(message).__name__ for message in messages]) == (expected, expected)
    assert isinstance(messages[0], UserMessage)
    assert messages[0].text == "HI"


@pytest.mark.parametrize("kind", [UserMessage, AssistantMessage, ToolResultMessage])
async def test_a_blocked_entry_leaves_every_call_with_its_result(
    tmp_path: Path, kind: type
) -> None:
    model = ScriptedModel([[READ], ["done"], ["again"]])
    async with open_core(tmp_path, model) as core:
        on(core.hooks.before_message_write, block(kind))
        first = await core.ask("hi")
        messages = await core.transcript()
        second = await core.ask("more")
    assert (first.payloads, second.payloads) == (("done",), ("again",))
    assert open_calls(messages) == []
    answered = {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage)
        for call in message.tool_calls
    }
    assert {
        message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)
    } == answered
    if kind is ToolResultMessage:
        assert results(messages) == [WITHHELD]
    else:
        assert not any(isinstance(message, kind) for message in messages)
    sent = list(model.requests[2].messages)
    assert sent[: len(messages)] == [
        fenced(message) for message in messages
    ]  # the next run reads the transcript


async def test_a_message_that_entered_a_run_passes_as_its_own_runs(tmp_path: Path) -> None:
    entries: list[tuple[str, str]] = []

    def watch(payload: BeforeMessageWrite) -> None:
        if isinstance(payload.message, UserMessage):
            entries.append((payload.context.run_id, payload.message.text))

    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([["a", gate], ["b"]])) as core:
        on(core.hooks.before_message_write, watch)
        await core.dispatch.submit(request("one"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        await core.dispatch.submit(request("two", queue_mode=QueueMode.STEER))
        gate.open()
        await core.dispatch.wait(request("two").run_id, 60)
    assert entries == [("one", "one"), ("two", "two")]


async def test_results_that_no_tool_made_are_marked(tmp_path: Path) -> None:
    results: list[tuple[str, bool]] = []

    def watch(payload: ToolResultPersist) -> None:
        results.append((payload.tool_call_id, payload.is_synthetic))

    second = ToolCall("c2", "read", {"path": "note.txt"})
    async with open_core(tmp_path, ScriptedModel([[READ, second], ["done"]])) as core:
        on(core.hooks.tool_result_persist, watch)

        async def steer(_: AfterToolCall) -> None:
            await core.dispatch.submit(request("stop", queue_mode=QueueMode.STEER))

        on(core.hooks.after_tool_call, steer)
        await core.ask("hi")
    assert results == [("c1", False), ("c2", True)]


async def test_calls_that_share_an_id_keep_their_own_results(tmp_path: Path) -> None:
    flags: list[bool] = []

    def mark(payload: ToolResultPersist) -> ToolResultPersistChange:
        flags.append(payload.is_synthetic)
        return ToolResultPersistChange(message=text(f"stored {len(flags)}"))

    async with open_core(tmp_path, ScriptedModel([[READ], [READ], ["done"]])) as core:
        on(core.hooks.tool_result_persist, mark)
        await core.ask("hi")
        messages = await core.transcript()
    assert (flags, results(messages)) == ([False, False], ["stored 1", "stored 2"])
