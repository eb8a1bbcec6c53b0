"""The fake Bot API and the bodies of our adapter, judged by python-telegram-bot."""

import json
from pathlib import Path

import anyio
import pytest

from skerry.channels.telegram import wire
from skerry.channels.telegram.adapter import open_account
from skerry.channels.telegram.config import TelegramAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, Button, OutboundPart, Poll
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.telegram_server import TelegramServer
from tests.support.mocks import program

pytestmark = pytest.mark.full("python-telegram-bot")

BOT = Path(__file__).parent / "telegram_bot" / "bot.py"
TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, "7"), "1", "40", "3")
PARTS = (
    Additions(),
    Additions(buttons=((Button("Allow", "/approve 1 allow-once"), Button("No", "/deny")),)),
    Additions(poll=Poll("When?", ("now", "later"), 2, 600), silent=True),
)


async def bodies() -> bytes:
    """Returns the requests that our adapter sends, one JSON line each."""
    async with TelegramServer() as server:
        file = {"botToken": server.token, "apiRoot": server.root}
        host = ChannelHost(AccountId("default"), SystemClock())
        adapter = open_account(TelegramAccount.model_validate(file), host)
        for number, more in enumerate(PARTS):
            await adapter.send(OutboundPart(1, RunId("r"), 0, number, TO, "**hi**", more))
        await adapter.edit(TO, "1", "there")
        await adapter.react(TO, "👀")
        lines = [
            {"method": message.method, "params": dict(message.params)} for message in server.sent
        ]
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


async def test_the_library_understands_our_server_and_our_requests() -> None:
    python = program("SKERRY_TELEGRAM_PYTHON", ".venv-telegram/bin/python")
    sent = await bodies()
    assert len(sent.splitlines()) == 5
    with anyio.fail_after(120):
        async with TelegramServer() as server:
            server.say("hello", name="Ada")
            server.say("in a group", chat=-100)
            server.press("/approve", 1)
            command = [python, str(BOT), server.token, server.root]
            completed = await anyio.run_process(command, input=sent, stderr=None)
            shown = [message.text for message in server.sent]
    read = json.loads(completed.stdout)
    assert read["wrong"] == []
    assert read["read"] == [["hello", "Ada", "private"], ["in a group", "Ada", "supergroup"]]
    assert read["pressed"] == ["/approve"]
    assert "parse entities" in read["refused"]
    assert shown == ["hi & bye", "there", "look", "👍"]
