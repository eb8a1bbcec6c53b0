"""Platforms of offices that chat adapters are tested against: MS Teams and Google Chat."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from skerry.channels.googlechat.adapter import GoogleChatAdapter
from skerry.channels.googlechat.api import ChatApi, ServiceAccount
from skerry.channels.googlechat.config import GoogleChatAccount
from skerry.channels.msteams.adapter import MsTeamsAdapter
from skerry.channels.msteams.api import Connector
from skerry.channels.msteams.config import MsTeamsAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId
from skerry.model.inbound import Peer, PeerKind
from skerry.ports.channel import Inbox
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.google_server import GoogleServer
from skerry.testing.http_server import ServedResponse
from skerry.testing.posting import account_served
from skerry.testing.teams_server import TeamsServer


class PostedTeams(MsTeamsAdapter):
    """The adapter with an address of its own for requests, while it runs."""

    def __init__(self, server: TeamsServer, cursor: MemoryCursor) -> None:
        settings = MsTeamsAccount.model_validate(server.settings)
        host = ChannelHost(AccountId("default"), SystemClock(), cursor)
        super().__init__(settings, host, Connector(settings, host.clock))
        self.server = server

    async def run(self, inbox: Inbox) -> None:
        async with account_served(self) as url:
            self.server.poster.url = url
            await super().run(inbox)


class Teams:
    """A Teams of ours, in whose chats the bot was written to before."""

    alice = Peer(PeerKind.DIRECT, "a:alice")
    team = Peer(PeerKind.CHANNEL, "19:team@thread.tacv2")

    def __init__(self, server: TeamsServer, cursor: MemoryCursor) -> None:
        self.server = server
        self._cursor = cursor

    @property
    def adapter(self) -> PostedTeams:
        return PostedTeams(self.server, self._cursor)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        kind = "personal" if peer.kind is PeerKind.DIRECT else "channel"
        where = {"id": peer.id, "conversationType": kind}
        return self.server.say(
            text, conversation=where, **{"from": {"id": "29:alice", "name": name}}
        )

    def received(self) -> list[tuple[str, str]]:
        return [(message.conversation, message.text) for message in self.server.messages]

    def typed(self) -> list[str]:
        return self.server.typed

    def babble(self) -> None:
        self.server.post({"type": 5})
        self.server.post(self.server.activity(type="conversationUpdate"))
        self.server.post(self.server.activity(text=""))
        self.server.post(self.server.activity(type="message", **{"from": {"id": "28:other"}}))

    def repeat(self) -> None:
        self.server.poster.add(*self.server.poster.waiting[-1])

    def disconnect(self) -> None:
        self.server.poster.skipped = 2
        self.server.looks += [
            ServedResponse(b"<html>", 502, "text/html"),
            ServedResponse(b'{"access_token": "x', 200, cut=True),
        ]

    def limit(self, seconds: int) -> None:
        self.server.fail(429, "TooManyRequests", **{"retry-after": str(seconds)})

    def refuse(self) -> None:
        self.server.fail(403, "BotNotInConversationRoster")

    def swallow(self) -> None:
        self.server.planned.append((ServedResponse(b'{"id": "1"}', 201, cut=True), True))


@asynccontextmanager
async def teams(home: Path) -> AsyncGenerator[Teams]:
    del home
    async with TeamsServer() as server:
        cursor = MemoryCursor()
        await cursor.write(f"service:{Teams.alice.id}", server.service)
        yield Teams(server, cursor)
        assert server.faults == []


class PostedGoogleChat(GoogleChatAdapter):
    """The adapter with an address of its own for requests, while it runs."""

    def __init__(self, server: GoogleServer, home: Path) -> None:
        settings = GoogleChatAccount.model_validate(server.settings(home))
        host = ChannelHost(AccountId("default"), SystemClock())
        sender = ServiceAccount.read(settings.service_account_file)
        super().__init__(settings, host, ChatApi(settings, sender, host.clock))
        self.server = server

    async def run(self, inbox: Inbox) -> None:
        async with account_served(self) as url:
            self.server.poster.url = url
            await super().run(inbox)


class GoogleChat:
    """A Google Chat of ours."""

    alice = Peer(PeerKind.DIRECT, "spaces/ALICE")
    team = Peer(PeerKind.CHANNEL, "spaces/TEAM")

    def __init__(self, server: GoogleServer, home: Path) -> None:
        self.server = server
        self._home = home

    @property
    def adapter(self) -> PostedGoogleChat:
        return PostedGoogleChat(self.server, self._home)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        kind = "DIRECT_MESSAGE" if peer.kind is PeerKind.DIRECT else "SPACE"
        user = {"name": "users/1", "displayName": name, "type": "HUMAN"}
        return self.server.say(text, space={"name": peer.id, "spaceType": kind}, user=user)

    def received(self) -> list[tuple[str, str]]:
        return [(message.space, message.text) for message in self.server.messages.values()]

    def typed(self) -> list[str]:
        return []

    def babble(self) -> None:
        self.server.post({"type": 5})
        self.server.post({"type": "REMOVED_FROM_SPACE", "space": {"name": "spaces/ALICE"}})
        self.server.post(self.server.event(""))
        self.server.post(self.server.event("x", user={"name": "users/9", "type": "BOT"}))

    def repeat(self) -> None:
        self.server.poster.add(*self.server.poster.waiting[-1])

    def disconnect(self) -> None:
        self.server.poster.skipped = 2
        self.server.looks += [
            ServedResponse(b"<html>", 502, "text/html"),
            ServedResponse(b'{"access_token": "x', 200, cut=True),
        ]

    def limit(self, seconds: int) -> None:
        self.server.fail(429, "RESOURCE_EXHAUSTED", **{"retry-after": str(seconds)})

    def refuse(self) -> None:
        self.server.fail(403, "PERMISSION_DENIED")

    def swallow(self) -> None:
        self.server.planned.append(
            (ServedResponse(b'{"name": "spaces/A/messages/B"}', cut=True), True)
        )


@asynccontextmanager
async def google_chat(home: Path) -> AsyncGenerator[GoogleChat]:
    async with GoogleServer() as server:
        yield GoogleChat(server, home)
        assert server.faults == []
