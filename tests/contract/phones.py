"""Messengers of phones that chat adapters are tested against."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from skerry.channels.imessage.adapter import IMessageAdapter
from skerry.channels.imessage.adapter import open_account as open_imessage
from skerry.channels.imessage.config import IMessageAccount
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
from skerry.testing.bluebubbles_server import PASSWORD, BlueBubblesServer
from skerry.testing.http_server import ServedResponse
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
            (f"+{app_sent.to}" if app_sent.to.isdecimal() else app_sent.to, app_sent.text)
            for app_sent in self.server.sent
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
            ServedResponse(b"<html>", 502, "text/html"),
            ServedResponse(b'{"id": "1", "verified', 200, cut=True),
        ]

    def limit(self, seconds: int) -> None:
        self.server.fail(130429, "Rate limit hit", 429, **{"retry-after": str(seconds)})

    def refuse(self) -> None:
        self.server.fail(131026, "Message undeliverable")

    def swallow(self) -> None:
        cut = ServedResponse(b'{"messages": [{"id": "wamid.1"}]}', cut=True)
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
        return [(send_request.to, send_request.text) for send_request in self.server.sent]

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
        self.server.checks.append(ServedResponse(b"<html>", 502, "text/html"))

    def limit(self, seconds: int) -> None:
        if self._bridge == "daemon":
            self.server.fail(-5, "limited", "RATE_LIMIT_FAILURE", retryAfterSeconds=seconds)
        else:
            body = b'{"error": "rate limited", "challenge_tokens": []}'
            answer = ServedResponse(body, 429, headers={"retry-after": str(seconds)})
            self.server.planned.append((answer, False))

    def refuse(self) -> None:
        if self._bridge == "daemon":
            self.server.fail(-1, "Failed to send message", "UNREGISTERED_FAILURE")
        else:
            answer = ServedResponse.of(
                {"error": "Failed to send message: UNREGISTERED_FAILURE"}, 400
            )
            self.server.planned.append((answer, False))

    def swallow(self) -> None:
        cut = ServedResponse(b'{"jsonrpc": "2.0", "result": {"timestamp": 1}, "id": 1}', cut=True)
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


class IMessage:
    """A BlueBubbles of ours; the account was connected before."""

    alice = Peer(PeerKind.DIRECT, "iMessage;-;+491701")
    team = Peer(PeerKind.GROUP, "iMessage;+;chat7")

    def __init__(self, server: BlueBubblesServer, host: ChannelHost) -> None:
        self.server = server
        self._host = host
        self._repeats = False

    @property
    def adapter(self) -> IMessageAdapter:
        adapter = open_imessage(imessage_settings(self.server), self._host)
        if self._repeats:
            adapter.journal.most_taken = 0
        return adapter

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        self.server.names["+491701"] = name
        return self.server.say(text, chat=peer.id)

    def received(self) -> list[tuple[str, str]]:
        return [(row["chats"][0]["guid"], row["text"]) for row in self.server.sent]

    def typed(self) -> list[str]:
        return self.server.typed

    def babble(self) -> None:
        alice = {"handle": {"address": "+491701"}}
        self.server.add(self.alice.id, "x", **alice, associatedMessageType="love")
        self.server.add(self.alice.id, "x", **alice, attachments="no list")
        self.server.add(self.alice.id, None, **alice)
        self.server.add(self.alice.id, "named the group", **alice, itemType=2)

    def repeat(self) -> None:
        # The database has each message once; one is read again where its place was not noted.
        self.server.rows.append({**self.server.rows[-1], "originalROWID": 1000})
        self._repeats = True

    def disconnect(self) -> None:
        self.server.looks += [
            ServedResponse(b"<html>", 502, "text/html"),
            ServedResponse(b'{"status": 200, "data": [', 200, cut=True),
        ]

    def limit(self, seconds: int) -> None:
        answer = ServedResponse(b"slow down", 429, "text/plain", {"retry-after": str(seconds)})
        self.server.planned.append((answer, False))

    def refuse(self) -> None:
        self.server.fail(500, "Message Send Error", error=22)

    def swallow(self) -> None:
        cut = ServedResponse(b'{"status": 200, "data": {"guid": "x"}}', cut=True)
        self.server.planned.append((cut, True))


def imessage_settings(server: BlueBubblesServer) -> IMessageAccount:
    """Returns the settings of an account at the server."""
    file = {"password": PASSWORD, "apiRoot": server.root, "pollSeconds": 0.2}
    return IMessageAccount.model_validate({**file, "webhookSecret": "a-secret-of-ours"})


@asynccontextmanager
async def imessage(home: Path) -> AsyncGenerator[IMessage]:
    del home
    async with BlueBubblesServer() as server:
        host = ChannelHost(AccountId("default"), SystemClock())
        await host.cursor.write("read", "1")
        yield IMessage(server, host)
        assert server.faults == []
