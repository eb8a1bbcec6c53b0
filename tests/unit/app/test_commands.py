"""Commands in a conversation: answered by us, in a turn of their own, and no word to the model."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from skerry.app.commands import builtin_commands
from skerry.commands.table import Command, CommandCall, CommandTable
from skerry.model.ids import RunId
from skerry.model.message import Message, TextBlock
from skerry.model.queue import QueueMode
from skerry.model.run import RunResult
from skerry.model.session import SessionSettings
from skerry.ports.model import ModelRequest
from skerry.providers.wire_format import Items
from skerry.runtime import loop_ports
from skerry.store import Unit, archive, sessions
from skerry.testing.model import (
    MODEL,
    ReplyGate,
    ScriptedModel,
    ScriptedModels,
    SeenRequest,
    Step,
    echo,
)
from tests.support.core import MAIN, Core, open_core, request


async def shout(call: CommandCall) -> str:
    return call.arguments.upper()


def commands() -> CommandTable:
    table = CommandTable()
    for command in builtin_commands(ScriptedModels(ScriptedModel(echo)), table):
        table.add(command)
    table.add(Command("shout", "says it louder", shout, accepts_arguments=True))
    return table


async def ended(core: Core, run_id: str) -> RunResult:
    with anyio.fail_after(60):
        result = await core.dispatch.wait(RunId(run_id), None)
    assert result is not None
    return result


def words(seen: SeenRequest) -> list[str]:
    return [
        block.text
        for message in seen.messages
        for block in getattr(message, "content", ())
        if isinstance(block, TextBlock)
    ]


async def test_a_command_that_is_not_there_costs_no_call_of_a_model(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model, commands=commands()) as core:
        (text,) = (await core.ask("/shot hey")).payloads
        assert text.startswith("Unknown command `/shot`. Similar: `/shout`.")
        assert model.requests == []
        await core.ask("//shot hey")
        await core.ask("/etc/hosts")
        assert [words(request)[-1] for request in model.requests] == ["//shot hey", "/etc/hosts"]


async def test_the_model_is_told_no_command_and_no_answer_to_one(tmp_path: Path) -> None:
    model = ScriptedModel(echo)
    async with open_core(tmp_path, model, commands=commands()) as core:
        await core.ask("one")
        assert (await core.ask("/shout hey")).payloads == ("HEY",)
        await core.ask("/shout ho")
        await core.ask("two")
        texts = ["one", "echo: one", "/shout hey", "HEY", "/shout ho", "HO", "two", "echo: two"]
        assert [message.text for message in await core.transcript()] == texts
    again = ScriptedModel(echo)
    async with open_core(tmp_path, again, commands=commands()) as core:  # read from the store
        await core.ask("/shout again")
        await core.ask("three")
    seen = ["one", "echo: one", "two"]
    assert [words(model.requests[-1]), words(again.requests[-1])] == [
        seen,
        [*seen, "echo: two", "three"],
    ]


async def test_a_command_leaves_what_was_encoded_before_as_it_is(tmp_path: Path) -> None:
    encoded: list[str] = []

    def encode(message: Message) -> bytes:
        encoded.append(message.text)
        return b""

    def reply(asked: ModelRequest) -> Sequence[Step]:
        asked.history.form("test", lambda: Items(encode))
        return echo(asked)

    async with open_core(tmp_path, ScriptedModel(reply), commands=commands()) as core:
        for text in ("one", "/shout hey", "two"):
            await core.ask(text)
    assert encoded == ["one", "echo: one", "two"]


@pytest.mark.parametrize("mode", QueueMode)
async def test_a_command_during_a_run_is_answered_in_its_own_turn(
    tmp_path: Path, mode: QueueMode
) -> None:
    gate = ReplyGate()
    model = ScriptedModel([["slow ", gate, "answer"], ["next"]])
    async with open_core(tmp_path, model, commands=commands()) as core:
        await core.dispatch.submit(request("a"))
        await gate.reached.wait()
        await core.dispatch.submit(request("/shout hey", "b", queue_mode=mode))
        gate.open()
        first, second = await ended(core, "a"), await ended(core, "b")
        assert (first.payloads, second.payloads) == (("slow answer",), ("HEY",))
        assert second.joined is None
        assert len(model.requests) == 1


@pytest.mark.parametrize("mode", sorted({*QueueMode} - {QueueMode.INTERRUPT}))
async def test_a_message_during_a_command_waits_for_its_own_turn(
    tmp_path: Path, mode: QueueMode
) -> None:
    reached, opened = anyio.Event(), anyio.Event()

    async def slow(_: CommandCall) -> str:
        reached.set()
        await opened.wait()
        return "done"

    table = commands()
    table.add(Command("slow", "takes its time", slow))
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        await core.dispatch.submit(request("/slow", "a"))
        await reached.wait()
        await core.dispatch.submit(request("hello", "b", queue_mode=mode))
        opened.set()
        first, second = await ended(core, "a"), await ended(core, "b")
        assert (first.payloads, second.payloads) == (("done",), ("echo: hello",))
        assert second.joined is None


async def test_an_aborted_command_ends_and_the_next_message_is_answered(tmp_path: Path) -> None:
    reached = anyio.Event()

    async def stuck(_: CommandCall) -> str:
        reached.set()
        await anyio.sleep_forever()
        return ""

    table = commands()
    table.add(Command("stuck", "never ends", stuck))
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        await core.dispatch.submit(request("/stuck", "a"))
        await reached.wait()
        assert core.dispatch.abort(MAIN, None, "rpc") == ["a"]
        assert (await ended(core, "a")).payloads == ()
        assert (await core.ask("hello")).payloads == ("echo: hello",)


async def test_status_names_the_model_of_the_conversation(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo), commands=commands()) as core:
        assert MODEL.ref in (await core.ask("/status", "a")).payloads[0]
        own = SessionSettings(model="other/model")

        def patch(unit: Unit) -> None:
            session = sessions.find(unit, str(MAIN))
            assert session is not None
            archive.change(unit, session.session_id, label="", settings=own)

        await core.store.write(patch)
        (text,) = (await core.ask("/status", "b")).payloads
        assert "Model: `other/model`, chosen for this conversation" in text


async def test_a_command_leaves_the_session_s_last_model_known(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel(echo), commands=commands()) as core:
        await core.ask("hello")
        await core.ask("/whoami")
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        assert (session.provider, session.model) == (MODEL.provider, MODEL.id)


async def test_nothing_of_a_command_is_written_behind_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop_ports, "CHECKPOINT_SECONDS", 0.0)
    async with open_core(tmp_path, ScriptedModel(echo), commands=commands()) as core:
        posted: list[object] = []
        monkeypatch.setattr(core.store, "post", posted.append)
        assert (await core.ask("/shout hey")).payloads == ("HEY",)
        assert posted == []
