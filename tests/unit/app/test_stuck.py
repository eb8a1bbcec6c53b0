"""Runs that do not stop when aborted: the lane continues, and they are reported as stuck."""

import asyncio
from pathlib import Path
from typing import Any

import anyio

from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.model.ids import RunId
from skerry.model.message import ToolCall, ToolResultMessage
from skerry.model.run import StopReason
from skerry.model.tool import ToolResult, ToolSpec
from skerry.ports.tool import ToolContext
from skerry.testing.model import ScriptedModel
from tests.support.core import Core, open_core, request


class Deaf:
    """A tool that swallows its cancellation."""

    spec = ToolSpec("deaf", "Does not listen.", {"type": "object", "properties": {}})

    def __init__(self) -> None:
        self.reached = anyio.Event()
        self.end = asyncio.Event()

    async def run(self, _arguments: dict[str, Any], _context: ToolContext) -> ToolResult:
        self.reached.set()
        while not self.end.is_set():
            try:
                await self.end.wait()
            except asyncio.CancelledError:
                continue
        return ToolResult("too late")


async def over(core: Core) -> None:
    """Waits until nothing is left behind any more."""
    with anyio.fail_after(60):
        while core.dispatch.queue().stuck:
            await anyio.lowlevel.checkpoint()


async def test_a_tool_that_hangs_is_left_at_the_deadline_and_the_lane_goes_on(
    tmp_path: Path,
) -> None:
    deaf = Deaf()
    model = ScriptedModel([[ToolCall("c1", "deaf", {})], ["next"]])
    async with open_core(tmp_path, model, tools=(deaf,)) as core:
        await core.dispatch.submit(request("a", timeout=2.0))
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("a"), None)
        assert result is not None
        assert result.stop_reason is StopReason.TIMEOUT
        assert [abandoned_work.name for abandoned_work in core.dispatch.queue().stuck] == [
            "tool deaf"
        ]
        assert (await core.ask("b")).payloads == ("next",)
        before = await core.transcript()
        assert [
            message.is_error for message in before if isinstance(message, ToolResultMessage)
        ] == [True]
        deaf.end.set()
        await over(core)
        assert await core.transcript() == before  # what came too late changed nothing


async def test_a_command_that_hangs_is_left_when_it_is_stopped(tmp_path: Path) -> None:
    deaf, table = Deaf(), CommandTable()

    async def hang(_: CommandCall) -> str:
        return (await deaf.run({}, None)).text  # type: ignore[arg-type]  # it does not look

    table.add(Command("hang", "hangs", hang))
    async with open_core(tmp_path, ScriptedModel([["next"]]), commands=table) as core:
        await core.dispatch.submit(request("/hang", "a"))
        await deaf.reached.wait()
        core.dispatch.abort(request("x").key, None, "rpc")
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("a"), None)
        assert result is not None
        assert result.stop_reason is StopReason.ABORTED
        assert [abandoned_work.name for abandoned_work in core.dispatch.queue().stuck] == [
            "command /hang"
        ]
        assert (await core.ask("b")).payloads == ("next",)
        deaf.end.set()
        await over(core)
