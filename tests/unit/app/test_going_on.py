"""A run that a crash interrupted goes on behind its last durable step, and repeats no effect."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.infra.clock import SystemClock
from skerry.model.ids import RunId
from skerry.model.message import ToolCall, ToolResultMessage, UserMessage
from skerry.model.queue import QueueMode
from skerry.model.run import RunResult, StopReason
from skerry.model.tool import ToolResult, ToolSpec
from skerry.ports.tool import ToolContext
from skerry.runtime.recovery import RunFacts, recover
from skerry.store import runs
from skerry.store.usage import UsageGroup, grouped
from skerry.testing.model import ReplyGate, ScriptedModel, Step
from tests.support.chaos import transcript_faults
from tests.support.core import Core, open_core, request


class Tool:
    """A tool that counts its calls, and waits in them while its gate is closed."""

    def __init__(
        self, name: str, gate: ReplyGate | None = None, *, reads_only: bool = False
    ) -> None:
        self.spec = ToolSpec(name, "Does something.", {"type": "object"})
        self.reads_only = reads_only
        self.gate = gate
        self.calls = 0

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Counts, and waits."""
        del arguments, context
        self.calls += 1
        if self.gate is not None:
            await self.gate.hold()
        return ToolResult(f"{self.spec.name} {self.calls}")


def call(name: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, {})


async def interrupted(
    home: Path,
    gate: ReplyGate,
    script: Sequence[Sequence[Step]],
    *tools: Tool,
    steer: ReplyGate | None = None,
) -> None:
    """Leaves a run open at its gate."""
    async with open_core(home, ScriptedModel(script), tools=tools) as core:
        await core.dispatch.submit(request("go"))
        with anyio.fail_after(60):
            if steer is not None:
                await steer.reached.wait()
                await core.dispatch.submit(request("also", queue_mode=QueueMode.STEER))
                steer.open()
            await gate.reached.wait()


@asynccontextmanager
async def restarted(
    home: Path, model: ScriptedModel, *tools: Tool
) -> AsyncGenerator[tuple[Core, RunResult]]:
    """Starts again; gives the core, and how the run ended."""
    async with open_core(home, model, tools=tools) as core:
        harmless = frozenset(tool.spec.name for tool in tools if tool.reads_only)
        known = RunFacts(harmless)
        clock = SystemClock()
        found = await recover(core.store, clock, lambda _, text: [text], core.hooks, facts=known)
        for run in found:
            core.dispatch.resume(run)
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("go"), None)
        assert result is not None
        assert transcript_faults("s", await core.transcript()) == []
        assert await core.store.read(runs.unfinished) == []
        yield core, result


async def test_a_run_without_an_open_call_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    gate, act = ReplyGate(), Tool("act")
    await interrupted(tmp_path, gate, [["looking", call("act")], ["half", gate]], act)
    model = ScriptedModel([["all of it"]])
    async with restarted(tmp_path, model, again := Tool("act")) as (core, result):
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ("looking", "all of it"))
        assert (act.calls, again.calls) == (1, 0)
        __name__s = [type(message).__name__ for message in await core.transcript()]
        assert __name__s == [
            "UserMessage",
            "AssistantMessage",
            "ToolResultMessage",
            "AssistantMessage",
        ]
        assert [type(message).__name__ for message in model.requests[0].messages] == __name__s[:3]
        assert result.usage.input == 1 + 3  # both responses, each for what it read
        assert (await core.ask("next")).error is not None  # the script has ended; the lane has not


async def test_an_open_call_without_an_effect_is_made_again(tmp_path: Path) -> None:
    gate = ReplyGate()
    look = Tool("look", gate, reads_only=True)
    await interrupted(tmp_path, gate, [[call("look")]], look)
    model = ScriptedModel([["seen"]])
    async with restarted(tmp_path, model, Tool("look", reads_only=True)) as (core, result):
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ("seen",))
        (found,) = [
            message for message in await core.transcript() if isinstance(message, ToolResultMessage)
        ]
        assert (found.text, found.is_error) == ("look 1", False)


@pytest.mark.parametrize("first", ["look", "act"])
async def test_an_open_call_with_an_effect_is_never_made_again(tmp_path: Path, first: str) -> None:
    gate = ReplyGate()
    act, look = Tool("act", gate), Tool("look", gate, reads_only=True)
    second = "act" if first == "look" else "look"
    script = [[call(first), call(second, "c2")]]
    await interrupted(tmp_path, gate, script, act, look)
    model, again = ScriptedModel([["never"]]), Tool("act")
    async with restarted(tmp_path, model, again, Tool("look", reads_only=True)) as (_, result):
        assert result.stop_reason is StopReason.INTERRUPTED
        assert (again.calls, model.requests) == (0, [])


async def test_what_had_steered_the_run_is_there_when_it_goes_on(tmp_path: Path) -> None:
    gate, steer = ReplyGate(), ReplyGate()
    script: list[Sequence[Step]] = [["one", steer], ["half", gate]]
    await interrupted(tmp_path, gate, script, steer=steer)
    async with restarted(tmp_path, ScriptedModel([["both"]])) as (core, result):
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ("one", "both"))
        guest = await core.store.read(lambda reader: runs.result(reader, "also"))
        assert guest is not None
        assert guest.joined == "go"
        prompts = [
            message.text for message in await core.transcript() if isinstance(message, UserMessage)
        ]
        assert prompts == ["go", "also"]


async def test_a_run_that_dies_again_and_again_is_closed(tmp_path: Path) -> None:
    gate = ReplyGate()
    await interrupted(tmp_path, gate, [[call("act")], [gate]], Tool("act"))
    ends: list[RunResult | None] = []
    for _ in range(7):
        gate = ReplyGate()
        async with open_core(tmp_path, ScriptedModel([[gate]]), tools=(Tool("act"),)) as core:
            left = await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
            for run in left:
                core.dispatch.resume(run)
            with anyio.fail_after(60):
                if left:
                    await gate.reached.wait()
            ends.append(await core.store.read(lambda reader: runs.result(reader, "go")))
    assert [end is None for end in ends] == [True] * 5 + [False] * 2
    assert ends[-1] is not None
    assert ends[-1].stop_reason is StopReason.INTERRUPTED


async def test_a_call_is_booked_once_and_none_is_lost_where_a_tool_was_at_work(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()
    await interrupted(tmp_path, gate, [[call("act")]], Tool("act", gate))
    async with restarted(tmp_path, ScriptedModel(), Tool("act")) as (core, _):
        sums = await core.store.read(lambda reader: grouped(reader, UsageGroup.MODEL, "0", "9"))
        (one,) = sums.values()
        assert (one.calls, one.failed, one.uncounted) == (1, 0, 0)  # its answer came whole
