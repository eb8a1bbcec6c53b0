"""The fake Discord and the bodies of our adapter, judged by discord.py."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import Raw

from skerry.channels.discord import interactions, wire
from skerry.channels.discord.adapter import open_account
from skerry.channels.discord.api import RestApi
from skerry.channels.discord.config import DiscordAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, Button, OutboundPart, Poll
from skerry.sdk.channel_host import ChannelHost, MenuCommand
from skerry.testing.discord_objects import ROOM, THREAD, TOKEN
from skerry.testing.discord_server import DiscordServer
from tests.support.mocks import program

pytestmark = pytest.mark.full("discord.py")

BOT = Path(__file__).parent / "discord_bot" / "bot.py"
ROOM_PEER = Peer(PeerKind.CHANNEL, ROOM)
TO = ReplyTo(wire.CHANNEL, AccountId("default"), ROOM_PEER, "1", quote="1100000000000000000")
PARTS = (
    Additions(),
    Additions(buttons=((Button("Allow", "/approve 1 allow-once"), Button("No", "/deny")),)),
    Additions(poll=Poll("When?", ("now", "later"), 2, 7200), silent=True),
)


async def bodies() -> list[dict[str, Any]]:
    """Returns the requests that our adapter sends."""
    async with DiscordServer() as server:
        host = ChannelHost(AccountId("default"), SystemClock())
        file = {"token": TOKEN, "apiRoot": server.root}
        adapter = open_account(DiscordAccount.model_validate(file), host)
        for number, more in enumerate(PARTS):
            await adapter.send(OutboundPart(1, RunId("r"), 0, number, TO, "**hi**", more))
        sent = [{"kind": "message", "body": dict(post.params)} for post in server.posted]
        server.gateway.sessions.clear()
        act = {"id": "5", "token": "t5", "type": 2, "data": {"name": "status"}}
        await interactions.acknowledge(RestApi(server.root, TOKEN), Raw(json.dumps(act).encode()))
        sent.append({"kind": "answer", "body": server.answered["5"]})
    offered = (MenuCommand("status", "Says how it is"), MenuCommand("model", "Chooses it", True))  # noqa: FBT003 - as the gateway makes it
    return sent + [{"kind": "command", "body": entry} for entry in interactions.menu(offered)]


async def people(server: DiscordServer) -> None:
    """Writes to the bot, and once it has acted changes what was written."""
    while not server.gateway.sessions:
        await server.gateway.changed()
    number = server.say("hello", attachments=[server.file("chart.png", b"data", "image/png")])
    server.say("in a channel", channel=ROOM)
    server.say("in a thread", channel=THREAD)
    while not server.faults:
        await server.gateway.changed()
    server.edit(number, "hello again")
    server.choose("status")
    server.say("that is all")


async def test_the_library_understands_our_server_and_our_requests() -> None:
    python = program("SKERRY_DISCORD_PYTHON", ".venv-discord/bin/python")
    sent = await bodies()
    assert len(sent) == 6
    lines = "".join(json.dumps(line) + "\n" for line in sent).encode()
    with anyio.fail_after(120):
        async with DiscordServer() as server, anyio.create_task_group() as tasks:
            tasks.start_soon(people, server)
            command = [python, str(BOT), TOKEN, server.root, server.gateway.url, ROOM]
            completed = await anyio.run_process(command, input=lines, stderr=None)
            shown = server.texts(ROOM)
    read = json.loads(completed.stdout)
    assert read["wrong"] == []
    assert read["read"] == [
        ["hello", "Alice", "private", [], ["chart.png"]],
        ["in a channel", "Alice", "text", ["71", "72"], []],
        ["in a thread", "Alice", "public_thread", ["71", "72"], []],
        ["that is all", "Alice", "private", [], []],
    ]
    once, edit, chosen = read["acts"]
    assert once == ["once", True]
    assert edit == ["edit", "hello", "hello again"]
    assert chosen == ["application_command", "Alice", {"id": "1", "name": "status", "type": 1}]
    assert read["history"] == ["look", "there", "in a channel"]
    assert "2000 or fewer" in read["refused"]
    assert shown == ["there", "look"]
