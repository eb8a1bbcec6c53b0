"""Messengers of phones that chat adapters are tested against."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skerry.channels.whatsapp.adapter import WhatsAppAdapter
from skerry.channels.whatsapp.api import GraphApi
from skerry.channels.whatsapp.config import WhatsAppAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId
from skerry.model.inbound import Peer, PeerKind
from skerry.ports.channel import Inbox
from skerry.sdk.channel_host import ChannelHost
from skerry.testing import whatsapp_server as meta
from skerry.testing.http_server import Response
from skerry.testing.posting import account_served
from skerry.testing.whatsapp_server import WhatsAppServer

HOST = ChannelHost(AccountId("default"), SystemClock())


def whatsapp_settings(server: WhatsAppServer) -> dict[str, Any]:
    """Returns the settings of an account at the server."""
    return {
        "phoneNumberId": meta.NUMBER_ID,
        "accessToken": meta.TOKEN,
        "appSecret": meta.SECRET,
        "verifyToken": meta.VERIFY,
        "apiRoot": server.root,
    }


class PostedWhatsApp(WhatsAppAdapter):
    """The adapter with an address of its own for requests, while it runs."""

    settle_seconds = 0.05

    def __init__(self, server: WhatsAppServer) -> None:
        settings = WhatsAppAccount.model_validate(whatsapp_settings(server))
        super().__init__(settings, HOST, GraphApi(server.root, meta.NUMBER_ID, meta.TOKEN))
        self.server = server

    async def run(self, inbox: Inbox) -> None:
        async with account_served(self) as url:
            self.server.poster.url = url
            await super().run(inbox)


class WhatsApp:
    """A Cloud API of ours."""

    alice = Peer(PeerKind.DIRECT, "+491701")
    team = Peer(PeerKind.GROUP, "G-7")

    def __init__(self, server: WhatsAppServer) -> None:
        self.server = server

    @property
    def adapter(self) -> PostedWhatsApp:
        return PostedWhatsApp(self.server)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        group = {"group_id": peer.id} if peer.kind is PeerKind.GROUP else {}
        return self.server.say(text, name=name, **group)

    def received(self) -> list[tuple[str, str]]:
        return [
            (f"+{one.to}" if one.to.isdecimal() else one.to, one.text) for one in self.server.sent
        ]

    def typed(self) -> list[str]:
        return []

    def babble(self) -> None:
        self.server.post_raw(b"{")
        self.server.post_raw(self.server.body({"what": "is this"}, "account_alerts"))
        number, _ = self.server.message("text", {"body": "x"})
        broken = {"from": "491701", "id": number, "type": "text", "text": 5}
        empty = {**broken, "text": {"body": ""}, "timestamp": "4000000000"}
        self.server.post([broken, empty, self.server.message("hologram", {})[1]])

    def repeat(self) -> None:
        self.server.poster.add(*self.server.poster.waiting[-1])

    def disconnect(self) -> None:
        self.server.poster.skipped = 2
        self.server.looks += [
            Response(b"<html>", 502, "text/html"),
            Response(b'{"id": "1", "verified', 200, cut=True),
        ]

    def limit(self, seconds: int) -> None:
        self.server.fail(130429, "Rate limit hit", 429, **{"retry-after": str(seconds)})

    def refuse(self) -> None:
        self.server.fail(131026, "Message undeliverable")

    def swallow(self) -> None:
        cut = Response(b'{"messages": [{"id": "wamid.1"}]}', cut=True)
        self.server.planned.append((cut, True))


@asynccontextmanager
async def whatsapp(home: Path) -> AsyncGenerator[WhatsApp]:
    del home
    async with WhatsAppServer() as server:
        yield WhatsApp(server)
        assert server.faults == []
