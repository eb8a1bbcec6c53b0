"""Every command by every sender in every conversation: answered, or ignored."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from scripts.requirements import ROOT
from skerry.app.command_dependencies import CommandDependencies
from skerry.app.extensions import provide_commands
from skerry.commands.table import CommandTable
from skerry.config.commands import CommandsConfig
from skerry.model.inbound import PeerKind
from skerry.model.rights import Rights
from skerry.testing.memory import FakeBackend
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import Core, open_core
from tests.support.memory import held
from tests.support.openings import delivered, receive

ROW = re.compile(r"^\| (`/[^|]*) \| ([^|]*) \|[^|]*\| ([^|]*) \|$", re.MULTILINE)
OWNER, LISTED, OPEN = "the owner", "people in allowFrom", "everybody"
ACCESS = {
    "approve": OWNER,
    "commands": OPEN,
    "compact": LISTED,
    "config": OWNER,
    "context": LISTED,
    "debug": OWNER,
    "forget": OWNER,
    "help": OPEN,
    "model": LISTED,
    "models": LISTED,
    "new": OPEN,
    "queue": LISTED,
    "reasoning": LISTED,
    "recall": OPEN,
    "remember": OWNER,
    "reset": OPEN,
    "restart": OWNER,
    "resume": OPEN,
    "retry": OPEN,
    "send": LISTED,
    "skill": LISTED,
    "status": LISTED,
    "stop": OPEN,
    "subagents": OWNER,
    "taint": OWNER,
    "think": LISTED,
    "usage": OPEN,
    "verbose": LISTED,
    "whoami": OPEN,
}
MAY = {
    "owner": {OWNER, LISTED, OPEN},
    "known": {LISTED, OPEN},
    "stranger": {OPEN},
    "nobody": set[str](),
}


@asynccontextmanager
async def everything(
    home: Path, giving: CommandsConfig
) -> AsyncGenerator[tuple[Core, CommandTable, ScriptedModel, list[str]]]:
    table, model, restarts = CommandTable(), ScriptedModel(echo), list[str]()
    async with open_core(home, model, commands=table, giving=giving) as core:
        runtime = core.dispatch.runtime
        desk = CommandDependencies(
            runtime.config, core.dispatch, restart=lambda: restarts.append("once")
        )
        memory = held(FakeBackend(), runtime.config, core.hooks)
        provide_commands(desk, memory)
        yield core, table, model, restarts


def who_may(who: str, *, is_listed: bool, kind: PeerKind) -> str:
    """Returns the rights of a sender."""
    if is_listed:
        return {"owner": "owner", "known": "known"}.get(who, "nobody")
    if who == "owner":
        return who
    return "stranger" if kind is PeerKind.DIRECT else "nobody"


@pytest.mark.parametrize("is_listed", [False, True])
@pytest.mark.parametrize("kind", [PeerKind.DIRECT, PeerKind.GROUP])
@pytest.mark.parametrize("who", ["owner", "known", "stranger"])
async def test_every_command_answers_whom_it_is_for_and_nobody_else(
    tmp_path: Path, who: str, kind: PeerKind, *, is_listed: bool
) -> None:
    lists = {"allowFrom": {"memory": ["owner", "known"]}} if is_listed else {}
    giving = CommandsConfig.model_validate({"ownerAllowFrom": ["memory:owner"], **lists})
    may = MAY[who_may(who, is_listed=is_listed, kind=kind)]
    peer = who if kind is PeerKind.DIRECT else "family"
    async with everything(tmp_path, giving) as (core, table, model, restarts):
        assert {command.name for command in table} == set(ACCESS)
        answered = {}
        for name in ACCESS:
            before = len(await delivered(core))
            await receive(core, f"/{name}", name, peer=peer, sender=who, kind=kind)
            answered[name] = len(await delivered(core)) > before
        assert answered == {name: access in may for name, access in ACCESS.items()}
        assert model.requests == []  # and to a model none of it was said
        assert restarts == (["once"] if who == "owner" else [])


async def test_a_command_that_is_not_theirs_is_taken_once_and_leaves_no_trace(
    tmp_path: Path,
) -> None:
    async with everything(tmp_path, CommandsConfig()) as (core, _, model, _):
        for _ in range(2):
            await receive(core, "/status", "m1", sender="alice")
        assert (await delivered(core), core.ends(), model.requests) == ([], [], [])


async def test_a_word_that_stops_is_only_a_word_of_those_who_may_not(tmp_path: Path) -> None:
    async with everything(tmp_path, CommandsConfig()) as (core, _, _, _):
        await receive(core, "Stop!", "m1", sender="alice")
        await receive(core, "wait", "m2", peer="family", sender="bob", kind=PeerKind.GROUP)
        await receive(core, "wait a moment", "m3", sender="alice")
        texts = [text for _, text in await delivered(core)]
        assert texts == ["Nothing is running.", "echo: wait", "echo: wait a moment"]


async def test_help_lists_what_one_may_give_and_what_is_on(tmp_path: Path) -> None:
    async with everything(tmp_path, CommandsConfig()) as (_, table, _, _):
        shown = {command.name for command in table.offered(Rights.OPEN)}
        assert shown == {name for name, access in ACCESS.items() if access is OPEN}
        owners = {command.name for command in table.offered(Rights.OWNER)}
        assert owners == set(ACCESS) - {"config", "debug"}


async def test_the_guide_lists_exactly_the_commands(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "guide" / "commands.md").read_text(encoding="utf-8")
    listed = {match[1]: (match[2], match[3]) for match in ROW.finditer(guide)}
    async with everything(tmp_path, CommandsConfig()) as (_, table, _, _):
        assert listed == {
            ", ".join(f"`/{name}`" for name in (command.name, *command.aliases)): (
                command.description,
                ACCESS[command.name],
            )
            for command in table
        }


async def test_names_aliases_and_words_are_one_command_each(tmp_path: Path) -> None:
    async with everything(tmp_path, CommandsConfig()) as (_, table, _, _):
        names = [name for command in table for name in (command.name, *command.aliases)]
        for name, text in (("whoami", "/id"), ("think", "/t low"), ("verbose", "/v on")):
            found = table.match(text)
            assert found is not None
            assert found[0].name == name
        assert len(names) == len(set(names))
        assert table.match("STOP!") == table.match("/stop")
