"""Handlers of hooks: order, merging, deadlines, and the effect of a failure at each point."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from skerry.hooks import runner
from skerry.hooks.events import GatewayStart, RunContext
from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import (
    BeforeMessageWrite,
    BeforeMessageWriteChange,
    BeforeToolCall,
    BeforeToolCallChange,
    LlmInput,
    LlmInputChange,
    PromptChange,
)
from skerry.hooks.runner import PAUSE_AFTER, PAUSE_MS, Handler
from skerry.model.ids import AgentId, RunId, SessionId
from skerry.model.message import user
from skerry.testing.clock import FakeClock

CONTEXT = RunContext(
    run_id=RunId("r"), agent_id=AgentId("main"), session_key="k", session_id=SessionId("s")
)
INPUT = LlmInput(
    context=CONTEXT, provider="p", model="m", system_prompt="", prompt="hi", history_messages=()
)
CALL = BeforeToolCall(context=CONTEXT, tool_name="t", tool_call_id="c", params={"a": 1, "b": 2})
ENTRY = BeforeMessageWrite(context=CONTEXT, message=user("hi", 0))
START = GatewayStart(port=1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def hooks(clock: FakeClock) -> AsyncIterator[Hooks]:
    async with Hooks(clock) as hooks:
        for point in hooks.points.values():
            point.timeout = 5.0
        yield hooks


async def says(payload: LlmInput, word: str) -> LlmInputChange:
    return LlmInputChange(system_prompt=payload.system_prompt + word)


def handler(call: Any, priority: int = 0, plugin: str = "test") -> Handler[Any, Any]:
    return Handler(plugin, call, priority)


async def fails(_: object) -> None:
    raise ValueError("broken")


async def hangs(_: object) -> None:
    await anyio.sleep_forever()


async def swallows(_: object) -> None:
    for _round in range(100):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            continue


def blocks(_: object) -> None:
    threading.Event().wait()


async def returns_nonsense(_: object) -> Any:
    return "nonsense"


async def returns_a_wrong_field(_: object) -> Any:
    bad_value: Any = 5
    return LlmInputChange(system_prompt=bad_value)


async def cancels_itself(_: object) -> None:
    raise asyncio.CancelledError


async def exits(_: object) -> None:
    raise SystemExit(3)


BROKEN = [
    fails,
    hangs,
    swallows,
    blocks,
    returns_nonsense,
    returns_a_wrong_field,
    cancels_itself,
    exits,
]


@pytest.mark.requirement("hooks-priority-order")
async def test_the_highest_priority_runs_first_and_none_counts_as_0(hooks: Hooks) -> None:
    for word, priority in (("c", 0), ("d", -1), ("a", 10), ("b", 10)):
        hooks.llm_input.add(handler(lambda payload, word=word: says(payload, word), priority))
    assert (await hooks.llm_input.run(INPUT)).system_prompt == "abcd"


@pytest.mark.requirement("hooks-pattern-modifying")
async def test_each_handler_gets_what_those_before_it_made(hooks: Hooks) -> None:
    got: list[str] = []

    async def add(payload: LlmInput) -> LlmInputChange:
        got.append(payload.system_prompt)
        return LlmInputChange(system_prompt=payload.system_prompt + "x")

    async def ignore(payload: LlmInput) -> None:
        got.append(payload.system_prompt)

    for call in (add, ignore, add):
        hooks.llm_input.add(handler(call))
    assert (await hooks.llm_input.run(INPUT)).system_prompt == "xx"
    assert got == ["", "x", "x"]


@pytest.mark.requirement("hooks-pattern-void")
@pytest.mark.requirement("hooks-void-await-all")
async def test_observers_run_at_the_same_time_and_one_that_fails_harms_no_other(
    hooks: Hooks,
) -> None:
    met, messages = [anyio.Event(), anyio.Event()], []

    async def meet(number: int) -> str:
        met[number].set()
        await met[1 - number].wait()
        messages.append(number)
        return "its return value is ignored"

    hooks.gateway_start.add(handler(fails))
    hooks.gateway_start.add(handler(lambda _: meet(0)))
    hooks.gateway_start.add(handler(lambda _: meet(1)))
    with anyio.fail_after(60):
        await hooks.gateway_start.run(START)
    assert sorted(messages) == [0, 1]
    assert [report.failures for report in hooks.report()] == [1, 0, 0]


async def test_nobody_waits_for_an_observer_that_was_only_started(hooks: Hooks) -> None:
    began = anyio.Event()

    async def watch(_: GatewayStart) -> None:
        began.set()
        await anyio.sleep_forever()

    hooks.gateway_start.timeout = 0.05
    hooks.gateway_start.add(handler(watch))
    hooks.gateway_start.start(START)
    with anyio.fail_after(60):
        await began.wait()


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_handler_of_a_transform_is_skipped(hooks: Hooks, broken: Any) -> None:
    # Long enough for the good handlers on a busy machine; one that hangs uses all of it.
    hooks.llm_input.timeout = 60.0 if broken in {fails, returns_nonsense} else 0.5
    hooks.llm_input.add(handler(lambda payload: says(payload, "a"), 1))
    hooks.llm_input.add(handler(broken))
    hooks.llm_input.add(handler(lambda payload: says(payload, "b"), -1))
    with anyio.fail_after(60):
        assert (await hooks.llm_input.run(INPUT)).system_prompt == "ab"
    assert [report.failures for report in hooks.report()] == [0, 1, 0]


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_guard_refuses(hooks: Hooks, broken: Any) -> None:
    hooks.before_tool_call.timeout = 0.05
    hooks.before_tool_call.add(handler(broken, plugin="lock"))
    with anyio.fail_after(60):
        call = await hooks.before_tool_call.run(CALL)
    assert call.closed
    assert call.block_reason
    assert call.block_reason.startswith("The before_tool_call hook of plugin lock failed")


@pytest.mark.parametrize("broken", BROKEN)
async def test_a_broken_observer_harms_nobody(hooks: Hooks, broken: Any) -> None:
    hooks.gateway_start.timeout = 0.5
    payloads: list[GatewayStart] = []
    hooks.gateway_start.add(handler(broken))
    hooks.gateway_start.add(handler(payloads.append))
    with anyio.fail_after(60):
        await hooks.gateway_start.run(START)
    assert payloads == [START]


@pytest.mark.requirement("hooks-07-tool-result-persist")
@pytest.mark.requirement("hooks-pattern-sync")
async def test_an_async_handler_of_a_sync_hook_changes_nothing_and_is_warned_about(
    hooks: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    async def change(_: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=True)

    hooks.before_message_write.add(handler(change))
    with caplog.at_level(logging.WARNING):
        assert await hooks.before_message_write.run(ENTRY) == ENTRY
    assert "Async in sync hook" in caplog.text


async def test_plain_functions_of_a_sync_hook_are_chained_and_a_block_is_final(
    hooks: Hooks,
) -> None:
    def change(payload: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(message=user(f"{payload.message}!", 0))

    def block(_: BeforeMessageWrite) -> BeforeMessageWriteChange:
        return BeforeMessageWriteChange(block=True)

    payloads: list[BeforeMessageWrite] = []
    hooks.before_message_write.add(handler(change))
    hooks.before_message_write.add(handler(block))
    hooks.before_message_write.add(handler(payloads.append))
    entry = await hooks.before_message_write.run(ENTRY)
    assert entry.blocked
    assert entry.message == user(f"{ENTRY.message}!", 0)
    assert payloads == []


async def test_a_message_may_not_change_its_role(hooks: Hooks) -> None:
    change: Any = PromptChange()
    hooks.before_message_write.add(handler(lambda _: BeforeMessageWriteChange(message=change)))
    assert await hooks.before_message_write.run(ENTRY) == ENTRY
    assert "wrong BeforeMessageWriteChange" in hooks.report()[0].last_error


async def test_parameters_are_put_over_the_old_ones_and_a_block_is_final(hooks: Hooks) -> None:
    payloads: list[BeforeToolCall] = []
    hooks.before_tool_call.add(handler(lambda _: BeforeToolCallChange(params={"b": 3, "c": 4}), 1))
    hooks.before_tool_call.add(
        handler(lambda _: BeforeToolCallChange(block=True, block_reason="no"))
    )
    hooks.before_tool_call.add(handler(payloads.append, -1))
    call = await hooks.before_tool_call.run(CALL)
    assert call.params == {"a": 1, "b": 3, "c": 4}
    assert (call.block_reason, payloads) == ("no", [])


async def test_a_handler_is_suspended_for_a_minute_after_three_failures_in_a_row(
    hooks: Hooks, clock: FakeClock
) -> None:
    calls: list[int] = []

    async def fail(_: LlmInput) -> None:
        calls.append(1)
        raise ValueError("broken")

    hooks.llm_input.add(handler(fail, plugin="bad"))
    for _ in range(PAUSE_AFTER + 2):
        await hooks.llm_input.run(INPUT)
    (report,) = hooks.report()
    assert len(calls) == PAUSE_AFTER
    assert (report.plugin, report.hook, report.failures) == ("bad", "llm_input", PAUSE_AFTER)
    assert (report.last_error, report.resting) == ("broken", True)
    clock.advance(PAUSE_MS)
    assert not hooks.report()[0].resting
    await hooks.llm_input.run(INPUT)
    await hooks.llm_input.run(INPUT)
    assert len(calls) == PAUSE_AFTER + 1


async def test_a_success_ends_the_row_of_failures(hooks: Hooks) -> None:
    outcomes = iter([True, True, False, True, True])

    async def now_and_then(_: LlmInput) -> None:
        if next(outcomes):
            raise ValueError("broken")

    hooks.llm_input.add(handler(now_and_then))
    for _ in range(5):
        await hooks.llm_input.run(INPUT)
    (report,) = hooks.report()
    assert (report.failures, report.resting) == (4, False)


async def test_a_resting_guard_still_refuses(hooks: Hooks) -> None:
    hooks.before_tool_call.add(handler(fails))
    calls = [await hooks.before_tool_call.run(CALL) for _ in range(PAUSE_AFTER + 1)]
    assert all(call.closed for call in calls)
    assert hooks.report()[0].failures == PAUSE_AFTER


async def test_a_call_that_is_given_up_cancels_its_handler(hooks: Hooks) -> None:
    began, cancelled = anyio.Event(), anyio.Event()

    async def watch(_: LlmInput) -> None:
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()

    hooks.llm_input.add(handler(watch))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(hooks.llm_input.run, INPUT)
        await began.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(60):
        await cancelled.wait()


async def test_a_plugin_is_taken_out_of_a_point(hooks: Hooks) -> None:
    hooks.llm_input.add(handler(lambda payload: says(payload, "a"), plugin="one"))
    hooks.llm_input.add(handler(lambda payload: says(payload, "b"), plugin="two"))
    hooks.llm_input.remove("one")
    assert (await hooks.llm_input.run(INPUT)).system_prompt == "b"


async def test_a_handler_whose_calls_never_return_is_called_no_more(
    hooks: Hooks, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MAX_CALLS", 2)
    began: list[int] = []

    def block(_: LlmInput) -> None:
        began.append(1)
        threading.Event().wait()

    hooks.llm_input.timeout = 0.3
    hooks.llm_input.add(handler(block))
    for _ in range(4):
        await hooks.llm_input.run(INPUT)
        clock.advance(PAUSE_MS)
    # The thread is left behind; its call counts until it returns.
    assert len(began) == 2
    assert "have not returned" in hooks.report()[0].last_error


async def test_leaving_cancels_what_still_runs(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "LAST_SECONDS", 0.02)
    began = anyio.Event()

    async def watch(_: GatewayStart) -> None:
        began.set()
        await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with Hooks(clock) as hooks:
            hooks.gateway_start.add(handler(watch))
            hooks.gateway_start.start(START)
            await began.wait()


async def test_what_was_started_may_end_when_the_gateway_stops(clock: FakeClock) -> None:
    ended: list[GatewayStart] = []

    async def slow(payload: GatewayStart) -> None:
        await anyio.sleep(0.02)
        ended.append(payload)

    async with Hooks(clock) as hooks:
        hooks.gateway_start.add(handler(slow))
        hooks.gateway_start.start(START)
    assert ended == [START]
