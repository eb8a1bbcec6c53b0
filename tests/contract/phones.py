"""Messengers of phones that chat adapters are tested against."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skerry.channels.signal.adapter import SignalAdapter
from skerry.channels.signal.adapter import open_account as open_signal
from skerry.channels.signal.config import SignalAccount
from skerry.channels.whatsapp.adapter import WhatsAppAdapter
from skerry.channels.whatsapp.api import GraphApi
from skerry.channels.whatsapp.config import WhatsAppAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId
from skerry.model.inbound import Peer, PeerKind
from skerry.ports.channel import Inbox
from skerry.sdk.channel_host import ChannelHost
from skerry.testing import signal_server as signal_cli
from skerry.testing import whatsapp_server as meta
from skerry.testing.http_server import Response
from skerry.testing.posting import account_served
from skerry.testing.signal_server import SignalServer
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


class Signal:
    """A signal-cli of ours, as the daemon or behind the REST bridge."""

    alice = Peer(PeerKind.DIRECT, "+491701")
    team = Peer(PeerKind.GROUP, "Zz+/8w==")

    def __init__(self, server: SignalServer, bridge: str) -> None:
        self.server = server
        self._bridge = bridge
        self._host = ChannelHost(AccountId("default"), SystemClock())

    @property
    def adapter(self) -> SignalAdapter:
        return open_signal(signal_settings(self.server, self._bridge), self._host)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        more: dict[str, Any] = {}
        if peer == self.team:
            more["groupInfo"] = {"groupId": peer.id, "groupName": "Team", "type": "DELIVER"}
        return self.server.say(text, name=name, **more)

    def received(self) -> list[tuple[str, str]]:
        return [(one.to, one.text) for one in self.server.sent]

    def typed(self) -> list[str]:
        return self.server.typed

    def babble(self) -> None:
        self.server.raw("{")
        self.server.raw('{"account": "+15550001", "exception": {"type": "Untrusted"}}')
        self.server.event({"hologram": {"what": "is this"}})
        self.server.event({"dataMessage": {"timestamp": "no number", "message": "x"}})
        self.server.event({"dataMessage": {"timestamp": 5, "message": None}})
        self.server.event({"typingMessage": {"action": "STARTED", "timestamp": 5}})

    def repeat(self) -> None:
        self.server.raw(self.server.waiting[-1])

    def disconnect(self) -> None:
        self.server.refused_streams = 1
        self.server.checks.append(Response(b"<html>", 502, "text/html"))

    def limit(self, seconds: int) -> None:
        if self._bridge == "daemon":
            self.server.fail(-5, "limited", "RATE_LIMIT_FAILURE", retryAfterSeconds=seconds)
        else:
            body = b'{"error": "rate limited", "challenge_tokens": []}'
            answer = Response(body, 429, headers={"retry-after": str(seconds)})
            self.server.planned.append((answer, False))

    def refuse(self) -> None:
        if self._bridge == "daemon":
            self.server.fail(-1, "Failed to send message", "UNREGISTERED_FAILURE")
        else:
            answer = Response.of({"error": "Failed to send message: UNREGISTERED_FAILURE"}, 400)
            self.server.planned.append((answer, False))

    def swallow(self) -> None:
        cut = Response(b'{"jsonrpc": "2.0", "result": {"timestamp": 1}, "id": 1}', cut=True)
        self.server.planned.append((cut, True))


def signal_settings(server: SignalServer, bridge: str = "daemon") -> SignalAccount:
    """Returns the settings of an account at the server."""
    file = {"number": signal_cli.NUMBER, "bridge": bridge, "apiRoot": server.root}
    return SignalAccount.model_validate(file)


@asynccontextmanager
async def signal(home: Path) -> AsyncGenerator[Signal]:
    del home
    async with SignalServer() as server:
        yield Signal(server, "daemon")
        assert server.faults == []


@asynccontextmanager
async def signal_rest(home: Path) -> AsyncGenerator[Signal]:
    del home
    async with SignalServer() as server:
        yield Signal(server, "rest")
        assert server.faults == []
