"""`/retry`: what a person says after an interruption, and what then runs."""

from pathlib import Path

import anyio

from skerry.app.command_retry import Retrying
from skerry.app.recover import recover
from skerry.commands.table import CommandTable
from skerry.infra.clock import SystemClock
from skerry.model.ids import RunId, SessionKey
from skerry.model.message import ToolCall
from skerry.model.run import StopReason
from skerry.sessions.retry import NOTHING
from skerry.testing.model import Gate, ScriptedModel, echo
from tests.support.core import Core, open_core, request

CALL = ToolCall("c1", "read", {"path": "note.txt"})


async def said(core: Core, text: str, run_id: str) -> str:
    result = await core.ask(text, run_id)
    return "".join(result.payloads)


def table_of() -> tuple[CommandTable, Retrying]:
    table = CommandTable()
    retrying = Retrying(table)
    table.add(retrying.command())
    return table, retrying


async def interrupted(home: Path, text: str) -> None:
    """Leave a run behind that was ended in the middle."""
    gate = Gate()
    async with open_core(home, ScriptedModel([[CALL], [gate, "late"]])) as core:
        await core.dispatch.submit(request(text))
        with anyio.fail_after(10):
            await gate.reached.wait()


async def test_an_interrupted_message_runs_again_when_the_person_says_so(tmp_path: Path) -> None:
    await interrupted(tmp_path, "hello")
    table, retrying = table_of()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        assert await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks) == []
        assert "still starting" in await said(core, "/retry", "c0")
        retrying.bind(core.store, core.dispatch)
        assert "again" in await said(core, "/retry", "c1")
        with anyio.fail_after(10):
            result = await core.dispatch.wait(RunId("hello:retry"), None)
        assert result is not None
        assert (result.stop_reason, result.payloads) == (StopReason.DONE, ("echo: hello",))
        assert await said(core, "/retry", "c2") == NOTHING


async def test_large_messages_and_new_sessions(tmp_path: Path) -> None:
    large = "x" * 70_000
    await interrupted(tmp_path, large)
    table, retrying = table_of()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        await recover(core.store, SystemClock(), lambda _, text: [text], core.hooks)
        retrying.bind(core.store, core.dispatch)
        await said(core, "/retry", "c1")
        with anyio.fail_after(10):
            result = await core.dispatch.wait(RunId(f"{large}:retry"), None)
        assert result is not None
        assert result.payloads == (f"echo: {large}",)
        assert (await core.ask("/retry", "c2", SessionKey.parse("other"))).payloads == (NOTHING,)
