"""Platforms that chat adapters are tested against, each with two people's places."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from skerry.channels.discord.adapter import DiscordAdapter
from skerry.channels.discord.adapter import open_account as open_discord
from skerry.channels.discord.config import DiscordAccount
from skerry.channels.email.adapter import EmailAdapter
from skerry.channels.email.adapter import open_account as open_email
from skerry.channels.email.config import EmailAccount
from skerry.channels.slack.adapter import SlackAdapter
from skerry.channels.slack.adapter import open_account as open_slack
from skerry.channels.slack.config import SlackAccount
from skerry.channels.telegram.adapter import TelegramAdapter, open_account
from skerry.channels.telegram.config import TelegramAccount
from skerry.infra.clock import SystemClock
from skerry.model.ids import AccountId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.ports.channel import ChannelAdapter
from skerry.sdk.channel_host import ChannelHost, MemoryCursor
from skerry.testing.channel import FakePlatform, MemoryChannel
from skerry.testing.discord_objects import ROOM, TOKEN
from skerry.testing.discord_server import DiscordServer, PlannedAnswer
from skerry.testing.http_server import ServedResponse
from skerry.testing.mail_server import MailServer
from skerry.testing.slack_server import APP_TOKEN, BOT_TOKEN, SlackServer
from skerry.testing.telegram_server import Fault, TelegramServer

HOST = ChannelHost(AccountId("default"), SystemClock())


class Folder:
    """The platform in a folder."""

    alice = Peer(PeerKind.DIRECT, "alice")
    team = Peer(PeerKind.GROUP, "team")

    def __init__(self, home: Path, kind: type[MemoryChannel] = MemoryChannel) -> None:
        self._platform = FakePlatform(home / "platform")
        self._kind = kind
        self._count = 0

    @property
    def adapter(self) -> ChannelAdapter:
        return self._kind(self._platform)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        del name
        self._count += 1
        number = f"m{self._count}"
        self._platform.say(text, peer=peer.id, message_id=number, kind=peer.kind.value)
        return number

    def received(self) -> list[tuple[str, str]]:
        return [(message.peer, message.text) for message in self._platform.received()]

    def typed(self) -> list[str]:
        return self._platform.typed()


@asynccontextmanager
async def folder(home: Path) -> AsyncGenerator[Folder]:
    yield Folder(home)


class Telegram:
    """A Bot API of ours."""

    alice = Peer(PeerKind.DIRECT, "7")
    team = Peer(PeerKind.GROUP, "-100")

    def __init__(self, server: TelegramServer) -> None:
        self.server = server

    @property
    def adapter(self) -> TelegramAdapter:
        file = {"botToken": self.server.token, "apiRoot": self.server.root, "pollSeconds": 5}
        return open_account(TelegramAccount.model_validate(file), HOST)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        return str(self.server.say(text, chat=int(peer.id), name=name))

    def received(self) -> list[tuple[str, str]]:
        return [(str(message.chat), message.text) for message in self.server.sent]

    def typed(self) -> list[str]:
        return [str(chat) for chat in self.server.actions]

    def babble(self) -> None:
        self.server.update(chat_boost={"what": "is this"})
        self.server.update(message={"message_id": "no number", "chat": 3})
        self.server.update(message={"message_id": 5, "chat": {"id": 7, "type": "private"}})

    def repeat(self) -> None:
        self.server.repeat()

    def disconnect(self) -> None:
        for response in (
            ServedResponse(b"<html>", 502, "text/html"),
            ServedResponse(b'{"ok": true, "result": [', 200, cut=True),
        ):
            self.server.planned.append(Fault("getUpdates", response))

    def limit(self, seconds: int) -> None:
        self.server.fail("sendMessage", 429, "Too Many Requests", retry_after=seconds)

    def refuse(self) -> None:
        self.server.fail("sendMessage", 403, "Forbidden: bot was blocked by the user")

    def swallow(self) -> None:
        response = ServedResponse(b'{"ok": true, "result": {}}', cut=True)
        self.server.planned.append(Fault("sendMessage", response, after=True))


@asynccontextmanager
async def telegram(home: Path) -> AsyncGenerator[Telegram]:
    del home
    async with TelegramServer() as server:
        yield Telegram(server)
        assert server.faults == []


class Slack:
    """A workspace of ours."""

    alice = Peer(PeerKind.DIRECT, "D1")
    team = Peer(PeerKind.CHANNEL, "C1")

    def __init__(self, server: SlackServer) -> None:
        self.server = server

    @property
    def adapter(self) -> SlackAdapter:
        file = {"botToken": BOT_TOKEN, "appToken": APP_TOKEN, "apiRoot": self.server.root}
        return open_slack(SlackAccount.model_validate(file), HOST)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        self.server.names["UALICE"] = name
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return self.server.say(escaped, channel=peer.id)

    def received(self) -> list[tuple[str, str]]:
        return [(slack_post.channel, slack_post.text) for slack_post in self.server.posted]

    def typed(self) -> list[str]:
        return []

    def babble(self) -> None:
        self.server.envelope("slash_commands", {"what": "is this"})
        self.server.envelope("events_api", {"event": {"type": 5}})
        self.server.event(type="message", channel="D1", user="UALICE", ts="not a stamp")
        self.server.event(type="team_join", user="UALICE")

    def repeat(self) -> None:
        self.server.repeat()

    def disconnect(self) -> None:
        self.server.refused_sockets = 1
        garbage = ServedResponse(b"<html>", 502, "text/html")
        self.server.planned.append(("apps.connections.open", garbage, False))

    def limit(self, seconds: int) -> None:
        self.server.fail("chat.postMessage", "ratelimited", 429, **{"retry-after": str(seconds)})

    def refuse(self) -> None:
        self.server.fail("chat.postMessage", "channel_not_found")

    def swallow(self) -> None:
        cut = ServedResponse(b'{"ok": true, "ts": "1.2"}', cut=True)
        self.server.planned.append(("chat.postMessage", cut, True))


@asynccontextmanager
async def slack(home: Path) -> AsyncGenerator[Slack]:
    del home
    async with SlackServer() as server:
        yield Slack(server)
        assert server.faults == []


class Email:
    """A mail system of ours; the mailbox was read up to its begin."""

    alice = Peer(PeerKind.DIRECT, "alice@people.example")
    team = Peer(PeerKind.DIRECT, "team@people.example")

    def __init__(self, server: MailServer, cursor: MemoryCursor) -> None:
        self.server = server
        self.host = ChannelHost(AccountId("default"), SystemClock(), cursor)

    @property
    def adapter(self) -> EmailAdapter:
        return open_email(EmailAccount.model_validate(self.server.settings), self.host)

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        return self.server.say(text, sender=peer.id, name=name)

    def received(self) -> list[tuple[str, str]]:
        return [(mail.recipient, mail.text) for mail in self.server.delivered]

    def typed(self) -> list[str]:
        return []

    def babble(self) -> None:
        self.server.arrive(b"\xff\xfe\r\n\r\nno mail")
        self.server.arrive(b"From: <alice@people.example\r\nSubject: =?x?q?=FF?=\r\n\r\n")
        self.server.say("", sender=self.alice.id)

    def repeat(self) -> None:
        self.server.repeat()

    def disconnect(self) -> None:
        self.server.planned.append(("imap connect", "<html>"))
        self.server.planned.append(("imap UID FETCH", "* 1 FETCH (UID 1 BODY[HEADER]<0> {90}"))

    def limit(self, seconds: int) -> None:
        refusal = f"451 4.7.1 Greylisted, please try again in {seconds} seconds"
        self.server.planned.append(("RCPT", refusal))

    def refuse(self) -> None:
        self.server.planned.append(("RCPT", "550 5.1.1 no such user"))

    def swallow(self) -> None:
        self.server.planned.append(("after", "cut"))


@asynccontextmanager
async def email(home: Path) -> AsyncGenerator[Email]:
    del home
    async with MailServer() as server:
        cursor = MemoryCursor()
        await cursor.write("place", f"{server.validity} 0 1795514400")
        yield Email(server, cursor)
        assert server.faults == []


class Discord:
    """A server of ours."""

    alice = Peer(PeerKind.DIRECT, "7")
    team = Peer(PeerKind.CHANNEL, ROOM)

    def __init__(self, server: DiscordServer) -> None:
        self.server = server
        self._host = ChannelHost(AccountId("default"), SystemClock())

    @property
    def adapter(self) -> DiscordAdapter:
        file = {"token": TOKEN, "apiRoot": self.server.root}
        return open_discord(DiscordAccount.model_validate(file), self._host)

    async def settle_in(self) -> None:
        """Connects once: Discord sends a bot only events after that."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.adapter.run, nobody_writes)
            with anyio.fail_after(60):
                while not await self._host.cursor.read("progress"):  # noqa: ASYNC110 - it is polled
                    await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    def _channel(self, peer: Peer) -> str:
        return peer.id if peer.kind is PeerKind.CHANNEL else f"{peer.id}00"

    def say(self, text: str, peer: Peer, name: str = "Alice") -> str:
        self.server.names["7"] = name
        return self.server.say(text, channel=self._channel(peer))

    def received(self) -> list[tuple[str, str]]:
        return [(self._peer(post.channel), post.text) for post in self.server.posted]

    def _peer(self, channel: str) -> str:
        return channel if channel == ROOM else channel.removesuffix("00")

    def typed(self) -> list[str]:
        return [self._peer(channel) for channel in self.server.typed]

    def babble(self) -> None:
        gateway = self.server.gateway
        gateway.dispatch("SOUNDBOARD_SOUNDS", {"what": "is this"})
        gateway.dispatch("MESSAGE_CREATE", {"id": 5, "channel_id": ["700"]})
        gateway.dispatch("MESSAGE_CREATE", {"id": "no number", "channel_id": "700"})
        gateway.dispatch("MESSAGE_UPDATE", {"id": "5", "channel_id": "700"})
        gateway.dispatch("INTERACTION_CREATE", {"id": "6", "token": "t6", "type": 9})

    def repeat(self) -> None:
        self.server.gateway.repeat()

    def disconnect(self) -> None:
        self.server.gateway.refused_sockets = 1
        garbage = ServedResponse(b"<html>", 502, "text/html")
        self.server.planned.append(PlannedAnswer("GET", "/users/@me", garbage))

    def limit(self, seconds: int) -> None:
        path = r"/channels/\d+/messages"
        self.server.fail("POST", path, 429, "You are being rate limited.", retry_after=seconds)

    def refuse(self) -> None:
        self.server.fail("POST", r"/channels/\d+/messages", 403, "Missing Access", code=50001)

    def swallow(self) -> None:
        cut = ServedResponse(b'{"id": "12", "content": "hello"}', cut=True)
        self.server.planned.append(
            PlannedAnswer("POST", r"/channels/\d+/messages", cut, after=True)
        )


async def nobody_writes(message: InboundMessage) -> None:
    raise AssertionError(f"nobody wrote {message.text!r}")


@asynccontextmanager
async def discord(home: Path) -> AsyncGenerator[Discord]:
    del home
    async with DiscordServer() as server:
        town = Discord(server)
        await town.settle_in()
        yield town
    assert server.faults == []
