"""The tool `session_search` and the command `/recall`."""

from pathlib import Path

from msgspec.structs import replace

from skerry.commands.table import CommandCall, answer
from skerry.features.sessions.content import context_commands
from skerry.model.ids import SessionKey
from skerry.model.message import ToolCall, ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.recall import SearchResults
from skerry.testing.model import ScriptedModel
from skerry.tools.session_search import as_text
from tests.support.core import MAIN, open_core, request


def looks(query: str, *, others: bool = False) -> list[ToolCall]:
    return [ToolCall("c", "session_search", {"query": query, "others": others})]


async def test_the_model_finds_what_was_said_and_not_its_question(tmp_path: Path) -> None:
    model = ScriptedModel([["noted"], looks("name dog"), ["Bello"]])
    async with open_core(tmp_path, model) as core:
        await core.ask("My dog has the name Bello")
        await core.ask("What is the name of my dog?")
        result = (await core.transcript())[-2]
    assert isinstance(result, ToolResultMessage)
    assert result.origin is Origin.MEMORY
    assert "user: My dog has the name Bello" in result.text
    assert "assistant: noted" in result.text
    assert "What is" not in result.text


async def test_a_stranger_gets_nothing_of_the_owners_other_conversations(tmp_path: Path) -> None:
    model = ScriptedModel([["noted"], looks("treasure", others=True), ["no"]])
    async with open_core(tmp_path, model) as core:
        await core.ask("the treasure is under the tree", key=SessionKey.parse("notes"))
        asked = replace(request("where?", key=MAIN), origin=Origin.STRANGER)
        await core.dispatch.submit(asked)
        assert await core.dispatch.wait(asked.run_id, 60)
        result = (await core.transcript())[-2]
    assert isinstance(result, ToolResultMessage)
    assert "tree" not in result.text


async def test_the_owner_may_ask_for_their_other_conversations(tmp_path: Path) -> None:
    model = ScriptedModel([["noted"], looks("treasure", others=True), ["there"]])
    async with open_core(tmp_path, model) as core:
        await core.ask("the treasure is under the tree", key=SessionKey.parse("notes"))
        await core.ask("where?")
        result = (await core.transcript())[-2]
    assert isinstance(result, ToolResultMessage)
    assert "tree" in result.text


async def test_recall_is_a_command_that_does_not_find_itself(tmp_path: Path) -> None:
    async with open_core(tmp_path, ScriptedModel([["noted"]])) as core:
        await core.ask("a blue boat")
        recall = context_commands(core.store)[0]
        call = CommandCall("recall", "the boat", MAIN, "webchat", is_owner=True)
        text = await answer(recall, call)
        assert "user: a blue boat" in text
        none = CommandCall("recall", "", MAIN, "webchat", is_owner=True)
        assert "/recall the blue boat" in await answer(recall, none)


def test_what_is_not_found_says_what_to_do() -> None:
    assert "other words" in as_text(SearchResults(()))
    assert "Not everything" in as_text(SearchResults((), complete=False))
