"""Recognition of commands in texts, and the choice of their functions."""

from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.commands.table import (
    MAX_ANSWER,
    Command,
    CommandCall,
    CommandError,
    CommandTable,
    answer,
)
from skerry.model.ids import SessionKey


async def echo(call: CommandCall) -> str:
    return call.arguments


def table(*names: str) -> CommandTable:
    commands = CommandTable()
    for name in names:
        commands.add(Command(name, "", echo, accepts_arguments=name != "bare"))
    return commands


def call(*, is_owner: bool = True, arguments: str = "") -> CommandCall:
    return CommandCall("x", arguments, SessionKey.main(), "webchat", is_owner)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/note", ("note", "")),
        ("/NOTE  buy tea ", ("note", "buy tea")),
        ("/note: two\nlines", ("note", "two\nlines")),
        ("/bare", ("bare", "")),
        ("/bare and more", None),
        ("/notes", ("notes", "")),
        ("/unknown and more", ("unknown", "")),
        ("//unknown", None),
        ("\\unknown", None),
        ("/Unknown", None),
        ("/unknown/path", None),
        ("/unknown: what", None),
        ("/ unknown", None),
        ("/2 of 3", None),
        ("/etc/hosts: what is that?", None),
        ("note", None),
        (" /note", None),
        ("/", None),
    ],
)
def test_a_command_begins_the_text_and_a_path_is_none(
    text: str, expected: tuple[str, str] | None
) -> None:
    matched = table("note", "bare").match(text)
    assert (matched and (matched[0].name, matched[1])) == expected


@given(st.text())
def test_no_text_breaks_the_match_and_ordinary_text_is_none(text: str) -> None:
    matched = table("note").match(text)
    assert matched is None or text.startswith("/")


async def test_a_command_that_is_not_there_is_refused_with_the_near_ones() -> None:
    commands = table("spend", "note")
    commands.add(Command("hidden", "", echo, owner_only=True, aliases=("spant",)))
    matched = commands.match("/spent 3 on tea")
    assert matched is not None
    assert await answer(matched[0], call()) == (
        "Unknown command `/spent`. Similar: `/spend`, `/spant`. `/commands` lists all commands. "
        "`skerry plugins list` shows which plugins failed to load. "
        "To send it as text, write `//spent`."
    )
    text = await answer(matched[0], call(is_owner=False))
    assert text == (
        "Unknown command `/spent`. `/commands` lists all commands."
        " To send it as text, write `//spent`."
    )


@pytest.mark.parametrize("name", ["", "Note", "a b", "1st", "x" * 33, "a/b"])
def test_a_name_that_nobody_could_type_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid command name"):
        table(name)


def test_a_name_is_taken_once() -> None:
    with pytest.raises(ValueError, match="already exists, registered by Skerry"):
        table("note", "note")


def test_the_commands_of_a_plugin_go_together() -> None:
    commands = table("note")
    commands.add(Command("tea", "", echo, plugin="kitchen"))
    commands.remove("kitchen")
    assert [command.name for command in commands] == ["note"]


async def test_a_command_of_the_owner_is_refused_to_others() -> None:
    command = Command("x", "", echo)
    assert await answer(command, call(arguments="a")) == "a"
    assert await answer(command, call(is_owner=False)) == "Only the owner may use /x."


def failing(error: Exception) -> Callable[[CommandCall], Awaitable[str]]:
    async def run(_: CommandCall) -> str:
        raise error

    return run


async def test_what_a_command_says_against_it_is_the_answer() -> None:
    command = Command("x", "", failing(CommandError("There is no tea.")))
    assert await answer(command, call()) == "⚠️ There is no tea."


async def test_an_answer_is_never_empty_and_never_endless() -> None:
    command = Command("x", "", echo)
    assert await answer(command, call()) == "Done."
    assert len(await answer(command, call(arguments="x" * (MAX_ANSWER + 1)))) == MAX_ANSWER


async def test_a_command_that_breaks_is_an_answer_that_tells_nothing_of_it() -> None:
    command = Command("x", "", failing(RuntimeError("sk-secret in /home/ada")))
    assert await answer(command, call()) == "⚠️ /x failed; the log has the error."
