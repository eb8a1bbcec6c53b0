"""Directives within a message hold for its run alone, and are settled as it is accepted."""

from pathlib import Path

import anyio
import pytest

from skerry.app.command_dependencies import CommandDependencies
from skerry.app.commands import builtin_commands
from skerry.commands.table import CommandTable
from skerry.features.models.commands import model_commands
from skerry.features.queue.commands import commands as queue_commands
from skerry.features.replies.commands import reply_commands
from skerry.model.errors import KeyReusedError
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.model.rights import Rights
from skerry.model.run import AdmissionStatus
from skerry.model.thinking import ThinkingLevel
from skerry.store import runs, sessions
from skerry.testing.model import MODEL, ReplyGate, ScriptedModel, ScriptedModels, echo
from tests.support.core import MAIN, Core, open_core, request


def full(core: Core, table: CommandTable) -> None:
    desk = CommandDependencies(core.dispatch.runtime.config, core.dispatch)
    config = core.dispatch.runtime.config
    models = model_commands(core.models, core.store, config)
    for command in (*models, *reply_commands(core.store), *queue_commands(desk)):
        table.add(command)


def some() -> CommandTable:
    table = CommandTable()
    for command in builtin_commands(ScriptedModels(ScriptedModel(echo)), table):
        table.add(command)
    return table


async def test_a_directive_holds_for_its_message_and_is_no_word_of_it(tmp_path: Path) -> None:
    model, table = ScriptedModel(echo), some()
    async with open_core(tmp_path, model, commands=table) as core:
        full(core, table)
        assert (await core.ask("/think high what? /verbose full")).payloads == ("echo: what?",)
        await core.ask("and now?")
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        assert (session.settings.thinking_level, session.settings.verbose_level) == (None, None)
        texts = [message.text for message in await core.transcript()]
        assert texts == ["what?", "echo: what?", "and now?", "echo: and now?"]


async def test_what_it_asked_for_is_stored_with_the_run(tmp_path: Path) -> None:
    table, gate = some(), ReplyGate()
    async with open_core(tmp_path, ScriptedModel([[gate, "a"]]), commands=table) as core:
        full(core, table)
        await core.dispatch.submit(request("/think high /verbose full go /queue steer", "a"))
        await gate.reached.wait()
        (run,) = await core.store.read(runs.unfinished)
        assert (run.request.text, run.request.thinking) == ("go", ThinkingLevel.HIGH)
        assert run.request.queue_mode == "steer"
        assert run.request.inline is not None
        assert run.request.inline.settings.verbose_level == "full"
        gate.open()


async def test_the_same_key_with_the_same_text_is_the_same_request(tmp_path: Path) -> None:
    table = some()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        full(core, table)
        await core.ask("/verbose on hello", "a")
        again = await core.dispatch.submit(request("/verbose on hello", "a"))
        assert again.status is AdmissionStatus.FINISHED
        with pytest.raises(KeyReusedError):
            await core.dispatch.submit(request("hello", "a"))


async def test_directives_alone_are_answered_once_and_hold_from_then_on(tmp_path: Path) -> None:
    model, table = ScriptedModel(echo), some()
    async with open_core(tmp_path, model, commands=table) as core:
        full(core, table)
        (text,) = (await core.ask("/verbose full /reasoning on", "a")).payloads
        assert text == (
            "/verbose is full from the next message on.\n\n"
            "/reasoning is on from the next message on."
        )
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        assert session.settings.verbose_level == "full"
        assert session.settings.reasoning_level == "on"
        assert model.requests == []


async def test_a_model_may_be_named_for_one_message(tmp_path: Path) -> None:
    model, table = ScriptedModel(echo), some()
    async with open_core(tmp_path, model, commands=table) as core:
        full(core, table)
        result = await core.ask(f"/model {MODEL.ref} hello")
        assert result.payloads == ("echo: hello",)
        session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
        assert session is not None
        assert session.settings.model is None


async def test_how_the_gateway_does_is_told_beside_the_answer(tmp_path: Path) -> None:
    table = some()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        for run in ("a", "b"):
            result = await core.ask("/status hello", run)
            assert result.payloads == ("echo: hello",)
            assert MODEL.ref in result.notices[0]


@pytest.mark.parametrize("rights", [Rights.NONE, Rights.OPEN])
async def test_directives_of_those_who_may_not_are_words(tmp_path: Path, rights: Rights) -> None:
    table = some()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        full(core, table)
        payload = request("/think high hello /verbose full", "a")
        stranger = type(payload)(
            payload.run_id, payload.key, payload.text, origin=Origin.STRANGER, rights=rights
        )
        await core.dispatch.submit(stranger)
        with anyio.fail_after(60):
            result = await core.dispatch.wait(RunId("a"), None)
        assert result is not None
        assert result.payloads == ("echo: /think high hello /verbose full",)
