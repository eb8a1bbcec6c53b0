"""The commands on how replies are sent."""

from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from skerry.commands.table import CommandTable
from skerry.features.replies.commands import reply_commands
from skerry.model.ids import RunId
from skerry.model.origin import Origin
from skerry.store import sessions
from skerry.testing.model import ScriptedModel, echo
from tests.support.core import MAIN, Core, open_core
from tests.support.hooks import from_alice, parts


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
        (text,) = (await core.ask(f"/{command}")).payloads
        assert text.startswith(f"/{command} is as configured. Options: off, ")
        await core.ask(f"/{command} {value.upper()}")
        assert await level(core, field) == value
        (text,) = (await core.ask(f"/{command} ")).payloads
        assert text.startswith(f"/{command} is {value}.")
        (text,) = (await core.ask(f"/{command} much")).payloads
        assert text.startswith(f"⚠️ /{command} takes off, ")
        assert await level(core, field) == value


async def test_the_owner_who_switches_replies_on_is_answered_and_a_stranger_is_not(
    tmp_path: Path,
) -> None:
    table = CommandTable()
    async with open_core(tmp_path, ScriptedModel(echo), commands=table) as core:
        for command in reply_commands(core.store):
            table.add(command)
        for number, (text, origin) in enumerate(
            [
                ("/send off", Origin.OWNER),
                ("muted", Origin.OWNER),
                ("/send on", Origin.STRANGER),
                ("/send on", Origin.OWNER),
            ]
        ):
            request = replace(from_alice(text), run_id=RunId(f"r{number}"), origin=origin)
            await core.dispatch.submit(request)
            with anyio.fail_after(60):
                assert await core.dispatch.wait(request.run_id, None)
        assert await parts(core) == [
            "/send is off from the next message on.",
            "/send is on from the next message on.",
        ]
