"""Hooks and what must not be lost: acceptance, abort, restart, delivery."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from skerry.hooks.events import MessageReceived
from skerry.hooks.payloads import (
    BeforeMessageWrite,
    BeforeMessageWriteChange,
    BeforeToolCall,
    LlmOutput,
    MessageSending,
    MessageSendingChange,
    ModelResolve,
    ModelResolveChange,
)
from skerry.infra.clock import SystemClock
from skerry.model import message
from skerry.model.ids import RunId
from skerry.model.message import (
    AssistantMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    open_calls,
)
from skerry.model.run import RunResult, StopReason
from skerry.runtime.recovery import recover
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.acting import ACT, Act
from tests.support.core import MAIN, Core, open_core, request
from tests.support.hooks import READ, from_alice, on, parts


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


@asynccontextmanager
async def interrupted(home: Path) -> AsyncIterator[Core]:
    """Gives a core that finds a run which ended in the middle of a call with an effect."""
    gate = ReplyGate()
    model = ScriptedModel([["looking", ACT]])
    async with open_core(home, model, tools=(Act(gate),)) as core:
        await core.dispatch.submit(from_alice("m1"))
        with anyio.fail_after(60):
            await gate.reached.wait()
    async with open_core(home, ScriptedModel(echo)) as core:
        yield core


async def test_accepting_waits_for_no_handler(tmp_path: Path) -> None:
    gate = ReplyGate()

    async def hold(_: MessageReceived) -> None:
        await gate.hold()

    def write(_: BeforeMessageWrite) -> None:
        anyio.from_thread.check_cancelled()  # no thread of anyio: it fails

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.message_received, hold)
        on(core.hooks.before_message_write, write)
        with anyio.fail_after(60):
            await core.ask("hi")
            await gate.reached.wait()
        gate.open()


async def test_a_run_that_is_ended_passes_no_hook_again(tmp_path: Path) -> None:
    passed: list[str] = []

    def note(payload: BeforeMessageWrite) -> None:
        passed.append(payload.context.run_id)

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.before_message_write, note)
        first = await core.ask("hi", "key")
        count = len(passed)
        assert await core.ask("hi", "key") == first
        assert len(passed) == count == 2


async def test_an_announcement_after_a_restart_passes_message_sending(tmp_path: Path) -> None:
    written: list[str] = []

    async def change(payload: MessageSending) -> MessageSendingChange:
        return MessageSendingChange(content=payload.content.upper())

    def note(payload: BeforeMessageWrite) -> None:
        written.append(type(payload.message).__name__)

    async with interrupted(tmp_path) as core:
        on(core.hooks.message_sending, change)
        on(core.hooks.before_message_write, note)
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        sent = await parts(core)
        messages = await core.transcript()
    assert sent[0] == "LOOKING"
    assert sent[-1].startswith("⚠️ I WAS INTERRUPTED")
    assert written == ["ToolResultMessage", "AssistantMessage"]
    assert open_calls(messages) == []


async def test_a_broken_handler_does_not_stop_a_restart(tmp_path: Path) -> None:
    def block(payload: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=isinstance(payload.message, AssistantMessage))

    async def fail(_: MessageSending) -> None:
        raise ValueError("broken")

    async with interrupted(tmp_path) as core:
        on(core.hooks.message_sending, fail)
        on(core.hooks.before_message_write, block)
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        assert await parts(core) == []
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED


async def test_an_abort_while_a_guard_thinks_ends_the_run_with_its_calls_paired(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()

    async def think(_: BeforeToolCall) -> None:
        await gate.hold()

    async with open_core(tmp_path, ScriptedModel([["looking", READ], ["never"]])) as core:
        on(core.hooks.before_tool_call, think)
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        core.dispatch.abort(MAIN, None, "owner")
        result = await ended(core, "hi")
        messages = await core.transcript()
    assert result.stop_reason is StopReason.ABORTED
    assert open_calls(messages) == []


async def test_an_abort_loses_no_response_that_a_handler_looks_at(tmp_path: Path) -> None:
    gate = ReplyGate()

    async def look(_: LlmOutput) -> None:
        await gate.hold()

    async with open_core(tmp_path, ScriptedModel([["the whole answer"]])) as core:
        on(core.hooks.llm_output, look)
        await core.dispatch.submit(request("hi"))
        with anyio.fail_after(60):
            await gate.reached.wait()
        core.dispatch.abort(MAIN, None, "owner")
        gate.open()
        await ended(core, "hi")
        messages = await core.transcript()
    texts = [message.text for message in messages if isinstance(message, AssistantMessage)]
    assert texts[0] == "the whole answer"


async def test_a_message_that_is_blocked_and_a_crash_leave_a_run_that_can_be_closed(
    tmp_path: Path,
) -> None:
    def block(payload: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=isinstance(payload.message, UserMessage))

    gate = ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[READ], ["half", gate]])) as core:
        on(core.hooks.before_message_write, block)
        await core.dispatch.submit(from_alice("m1"))
        with anyio.fail_after(60):
            await gate.reached.wait()
    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        messages = await core.transcript()
        assert (await ended(core, "m1")).stop_reason is StopReason.INTERRUPTED
    assert [type(message) for message in messages] == [
        AssistantMessage,
        ToolResultMessage,
        AssistantMessage,
    ]


async def test_a_handler_that_names_no_model_that_works_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def choose(_: ModelResolve) -> ModelResolveChange:
        return ModelResolveChange(provider_override="no", model_override="such")

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        core.models.unknown_ref = "no/such"
        on(core.hooks.before_model_resolve, choose)
        with caplog.at_level(logging.WARNING):
            result = await core.ask("hi")
    assert result.payloads == ("echo: hi",)
    assert "no/such" in caplog.text


HALF = "half a pair: \ud800"
"""Text that nothing can store."""


@pytest.mark.parametrize("words", [HALF, "much " * 8_000_000], ids=["surrogate", "40 MB"])
async def test_text_that_could_not_be_stored_is_a_failure_of_who_returned_it(
    tmp_path: Path, words: str
) -> None:
    def write(_: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(message=message.user(words, 0))

    async def send(_: MessageSending) -> MessageSendingChange:
        return MessageSendingChange(content=words)

    async with open_core(tmp_path, ScriptedModel(echo)) as core:
        on(core.hooks.before_message_write, write)
        on(core.hooks.message_sending, send)
        await core.dispatch.submit(from_alice("hi"))
        assert (await ended(core, "hi")).payloads == ("echo: hi",)
        assert [message.content[0] for message in await core.transcript()] == [
            TextBlock("hi"),
            TextBlock("echo: hi"),
        ]
        assert await parts(core) == []  # a guard that fails refuses
