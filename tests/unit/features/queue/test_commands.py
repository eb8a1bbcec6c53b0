"""`/queue` and `/stop`, given while a run is on and while none is."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.app.command_dependencies import CommandDependencies
from skerry.commands.queueing import parse
from skerry.commands.table import CommandError, CommandTable
from skerry.features.queue.commands import commands as queue_commands
from skerry.hooks.events import CommandGiven
from skerry.hooks.hooks import Hooks
from skerry.hooks.runner import Handler
from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId
from skerry.model.message import UserMessage
from skerry.model.queue import DropPolicy, QueueMode
from skerry.model.run import RunResult, StopReason
from skerry.store import runs
from skerry.testing.model import ReplyGate, ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core, request


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


def with_commands(core: Core, table: CommandTable) -> Core:
    desk = CommandDependencies(core.dispatch.runtime.config, core.dispatch)
    for command in queue_commands(desk):
        table.add(command)
    return core


async def test_stop_ends_the_run_and_what_waits_and_is_answered_at_once(tmp_path: Path) -> None:
    table = CommandTable()
    async with open_core(
        tmp_path, ScriptedModel([["half", gate := ReplyGate()]]), commands=table
    ) as c:
        core = with_commands(c, table)
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        for name in ("b", "c"):
            await core.dispatch.submit(request(name, queue_mode=None))
        await core.dispatch.submit(request("/stop", queue_mode=None))
        answered = await ended(core, "/stop")
        assert answered.payloads == ("⚙️ Agent was aborted. 2 waiting cleared.",)
        for name in "abc":
            result = await ended(core, name)
            assert (result.stop_reason, result.aborted_by) == (StopReason.ABORTED, "stop")
        texts = [
            message.text for message in await core.transcript() if isinstance(message, UserMessage)
        ]
        assert texts == ["a", "b", "c"]
        assert await core.store.read(runs.unfinished) == []
        told = [type(event.body) for event in core.events if event.run_id == "/stop"]
        assert told[:2] == [RunStarted, TextDelta]


async def test_stop_leaves_what_came_later_alone(tmp_path: Path) -> None:
    table = CommandTable()
    model = ScriptedModel([["half", gate := ReplyGate()], ["later"]])
    async with open_core(tmp_path, model, commands=table) as c:
        core = with_commands(c, table)
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("/stop"))
        await core.dispatch.submit(request("b"))
        assert (await ended(core, "b")).payloads == ("later",)
        assert (await ended(core, "a")).stop_reason is StopReason.ABORTED


async def test_without_a_run_stop_says_so_in_the_conversation(tmp_path: Path) -> None:
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as c:
        core = with_commands(c, table)
        assert (await core.ask("/stop")).payloads == ("Nothing is running.",)


async def test_a_mode_that_is_set_during_a_run_holds_for_the_next_message(tmp_path: Path) -> None:
    table, gate = CommandTable(), ReplyGate()
    model = ScriptedModel([[gate, "1"], ["2"], ["3"]])
    async with open_core(tmp_path, model, commands=table) as c:
        core = with_commands(c, table)
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        text = "/queue followup debounce:0 cap:5 drop:old"
        await core.dispatch.submit(request(text))
        assert (await ended(core, text)).payloads == (
            "Queue: `followup`, debounce 0 ms, cap 5, drop `old`. 0 waiting.",
        )
        for name in ("b", "c"):
            await core.dispatch.submit(request(name, queue_mode=None))
        gate.open()
        assert [(await ended(core, one)).payloads for one in "bc"] == [("2",), ("3",)]
        default = (await core.ask("/queue default")).payloads
        assert default == ("Queue: `collect`, debounce 0 ms, cap 20, drop `summarize`. 0 waiting.",)
        assert core.dispatch.active(MAIN) == []


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("", {}),
        ("steer", {"queue_mode": QueueMode.STEER}),
        ("Queue", {"queue_mode": QueueMode.STEER}),
        ("debounce:2s", {"queue_debounce_ms": 2000}),
        ("debounce:250", {"queue_debounce_ms": 250}),
        ("collect drop:new", {"queue_mode": QueueMode.COLLECT, "queue_drop": DropPolicy.NEW}),
        (
            "default cap:9",
            dict.fromkeys(("queue_mode", "queue_debounce_ms", "queue_drop")) | {"queue_cap": 9},
        ),
    ],
)
def test_its_words_are_read(words: str, changes: dict[str, Any]) -> None:
    assert parse(words) == changes


@pytest.mark.parametrize(
    "words", ["soon", "cap:0", "cap:many", "debounce:1h", "debounce:2m", "drop:all", "speed:3"]
)
def test_another_word_is_refused_with_what_would_do(words: str) -> None:
    with pytest.raises(CommandError, match=r"Write|must be from|write"):
        parse(words)


@pytest.mark.requirement("hooks-internal-commands")
async def test_a_stop_word_ends_running_and_waiting_messages_and_hooks_receive_it(
    tmp_path: Path,
) -> None:
    table, texts, hooks = CommandTable(), list[str](), Hooks()

    async def note(command_given: CommandGiven) -> None:
        texts.append(command_given.name)

    hooks.command.add(Handler("test", note))
    model = ScriptedModel([["half", gate := ReplyGate()]])
    async with open_core(tmp_path, model, commands=table, hooks=hooks) as c:
        core = with_commands(c, table)
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("b", queue_mode=None))
        await core.dispatch.submit(request("Stop!", queue_mode=None))
        answered = await ended(core, "Stop!")
        assert answered.payloads == ("⚙️ Agent was aborted. 1 waiting cleared.",)
        assert (await ended(core, "b")).stop_reason is StopReason.ABORTED
    assert texts == ["stop"]
