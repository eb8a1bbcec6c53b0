"""Kills at random moments of conversations on phones: the promise that each platform permits."""

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.runtime.delivery import MISSING
from skerry.testing.bluebubbles_server import BlueBubblesServer
from skerry.testing.gateway import GatewayProcess, running_gateway
from skerry.testing.signal_server import SignalServer
from skerry.testing.whatsapp_server import WhatsAppServer
from tests.e2e import test_imessage, test_signal, test_whatsapp

pytestmark = pytest.mark.full("half a minute")

KILLS = 20


class Phones:
    """The phones of many people on one platform."""

    def __init__(self, server: Any, config: dict[str, Any]) -> None:
        self.server = server
        self.config = config

    def say(self, number: int) -> None:
        """Lets the person with this number write."""
        person = f"+49{number}"
        match self.server:
            case WhatsAppServer():
                self.server.say(f"message {number}.", sender=person[1:])
            case BlueBubblesServer():
                self.server.say(f"message {number}.", sender=person, chat=f"iMessage;-;{person}")
            case _:
                self.server.say(f"message {number}.", sender=person)

    def texts(self, number: int) -> list[str]:
        """Returns the messages of that person."""
        person = f"+49{number}"
        match self.server:
            case WhatsAppServer():
                return [
                    app_sent.text for app_sent in self.server.sent if f"+{app_sent.to}" == person
                ]
            case BlueBubblesServer():
                chat = f"iMessage;-;{person}"
                rows = [row for row in self.server.sent if row["chats"][0]["guid"] == chat]
                return [row["text"] for row in rows]
            case _:
                return [one.text for one in self.server.sent if one.to == person]

    async def wait_for(self, number: int) -> None:
        """Waits until that person has an answer."""
        while not self.texts(number):  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.01)


@asynccontextmanager
async def opened(channel: str) -> AsyncGenerator[Phones]:
    match channel:
        case "whatsapp":
            async with WhatsAppServer() as whatsapp:
                yield Phones(whatsapp, test_whatsapp.everybody(whatsapp))
        case "imessage":
            async with BlueBubblesServer() as bluebubbles:
                yield Phones(bluebubbles, test_imessage.everybody(bluebubbles))
        case _:
            async with SignalServer() as signal_cli:
                yield Phones(signal_cli, test_signal.everybody(signal_cli))


async def connected(phones: Phones, gateway: GatewayProcess, channel: str) -> None:
    if isinstance(phones.server, WhatsAppServer):
        test_whatsapp.connect(phones.server, gateway)
    async with GatewayClient(gateway.address) as client:
        with anyio.fail_after(60):
            while True:
                rows = (await client.request("channels.status", {}))["channelAccounts"]
                if rows[channel][0]["connected"]:
                    return


async def unanswered(phones: Phones, gateway: GatewayProcess) -> set[int]:
    """Returns the people without an answer, sent or in the outbox until BlueBubbles is sure."""
    async with GatewayClient(gateway.address) as client:
        parts = (await client.request("outbox.list", {}))["parts"]
    waiting = {str(part["to"]["peer"]) for part in parts}
    return {
        number
        for number in range(KILLS)
        if not phones.texts(number) and not any(peer.endswith(f"+49{number}") for peer in waiting)
    }


@pytest.mark.parametrize("channel", ["whatsapp", "imessage", "signal"])
async def test_kills_at_random_moments_answer_nothing_twice(tmp_path: Path, channel: str) -> None:
    random = Random(7)  # noqa: S311 - moments of a test
    async with opened(channel) as phones:
        async with running_gateway(home=tmp_path, config=phones.config) as gateway:
            await connected(phones, gateway, channel)
            for number in range(KILLS):
                phones.say(number)
                with anyio.move_on_after(random.uniform(0, 0.3)):
                    await phones.wait_for(number)
                await gateway.kill()
                await gateway.start()
            phones.say(KILLS)
            with anyio.fail_after(240):
                await phones.wait_for(KILLS)
                while channel != "signal" and await unanswered(phones, gateway):
                    pass  # signal-cli forgets what is on its way; the others repeat it
            await gateway.stop()
        for number in range(KILLS):
            texts = Counter(phones.texts(number))
            echoed = f"echo: message {number}."
            assert texts[echoed] <= 1, texts
            assert set(texts) <= {echoed, MISSING}, texts
        assert phones.server.faults == []
