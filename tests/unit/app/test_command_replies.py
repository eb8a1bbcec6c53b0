"""The commands on how replies are sent."""

from pathlib import Path

import pytest

from skerry.app.command_replies import reply_commands
from skerry.commands.table import CommandTable
from skerry.store import sessions
from skerry.testing.model import ScriptedModel
from tests.support.core import MAIN, Core, open_core


async def level(core: Core, field: str) -> object:
    session = await core.store.read(lambda reader: sessions.find(reader, str(MAIN)))
    assert session is not None
    return getattr(session.settings, field)


@pytest.mark.parametrize(
    ("command", "field", "value"),
    [
        ("usage", "response_usage", "tokens"),
        ("reasoning", "reasoning_level", "stream"),
        ("verbose", "verbose_level", "full"),
    ],
)
async def test_a_command_changes_its_conversation_and_says_how_it_is(
    tmp_path: Path, command: str, field: str, value: str
) -> None:
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(()), commands=table) as core:
        for one in reply_commands(core.store):
            table.add(one)
        (said,) = (await core.ask(f"/{command}")).payloads
        assert said.startswith(f"/{command} is as configured. It takes off, ")
        await core.ask(f"/{command} {value.upper()}")
        assert await level(core, field) == value
        (said,) = (await core.ask(f"/{command} ")).payloads
        assert said.startswith(f"/{command} is {value}.")
        (said,) = (await core.ask(f"/{command} much")).payloads
        assert said.startswith(f"⚠️ /{command} takes off, ")
        assert await level(core, field) == value
