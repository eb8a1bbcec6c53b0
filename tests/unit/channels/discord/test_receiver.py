"""The Discord adapter at its gateway: resumption, what was missed, close codes, interactions."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from skerry.channels.discord import receiver
from skerry.channels.discord.adapter import DiscordAdapter, open_account
from skerry.channels.discord.config import DiscordAccount
from skerry.infra.backoff import Backoff
from skerry.infra.clock import SystemClock
from skerry.model.errors import BusyError
from skerry.model.ids import AccountId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import Additions, Button
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_host import ChannelHost, MemoryCursor, Menu, MenuCommand
from skerry.testing.discord_objects import GUILD, ROOM, THREAD, TOKEN
from skerry.testing.discord_server import DiscordServer
from tests.unit.channels.discord.test_poster import part

COMMANDS = (
    MenuCommand("status", "Says how it is"),
    MenuCommand("model", "Chooses", accepts_arguments=True),
)


class Bot:
    """A bot over its restarts."""

    def __init__(self, server: DiscordServer, **settings: Any) -> None:
        self.server = server
        self.cursor = MemoryCursor()
        self.messages: list[InboundMessage] = []
        self._settings = {"token": TOKEN, "apiRoot": server.root, **settings}
        self.commands = Menu(owner=COMMANDS)
        self.adapter = self.opened()

    def menu(self) -> Menu:
        return self.commands

    def opened(self) -> DiscordAdapter:
        host = ChannelHost(AccountId("default"), SystemClock(), self.cursor, menu=self.menu)
        return open_account(DiscordAccount.model_validate(self._settings), host)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        self.adapter = self.opened()

        async def inbox(message: InboundMessage) -> None:
            self.messages.append(message)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.adapter.run, inbox)
            yield
            tasks.cancel_scope.cancel()

    async def taken(self, count: int) -> list[str]:
        await until(lambda: len(self.messages) >= count)
        return [message.text for message in self.messages]

    async def connected(self) -> None:
        await until(lambda: self.adapter.state.state is ConnectionState.CONNECTED)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not is_so():  # noqa: ASYNC110 - plain values of a server and an adapter
            await anyio.sleep(0.01)


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))


@asynccontextmanager
async def discord() -> AsyncGenerator[DiscordServer]:
    async with DiscordServer() as server:
        yield server
    assert server.faults == []


async def test_a_session_is_resumed_behind_what_was_taken() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            assert bot.adapter.state.name == "@house"
            server.say("one")
            await bot.taken(1)
        server.say("two")
        async with bot.running():
            assert await bot.taken(2) == ["one", "two"]
        assert server.gateway.introductions == ["identify", "resume"]


@pytest.mark.parametrize("how", ["reconnect", "invalid", "expired", "cut", 4000, 4009])
async def test_nothing_is_lost_when_a_connection_ends(how: str | int) -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            server.say("before the first connection")
            await bot.connected()
            server.say("one")
            server.say("here", channel=ROOM)
            await bot.taken(2)
            if how == "expired":
                server.gateway.expire()
            server.say("two")
            server.say("there", channel=ROOM, user="8")
            if how in {"reconnect", "invalid", "expired"}:
                await server.gateway.send(9 if how == "invalid" else 7, data=False)
            else:
                await server.gateway.cut(how if isinstance(how, int) else 0)
            server.say("three")
            await until(
                lambda: {"two", "there", "three"} <= {message.text for message in bot.messages}
            )
        missed = next(message for message in bot.messages if message.text == "there")
        assert (missed.guild_id, missed.roles) == (GUILD, ("71", "72"))
        in_order = list(
            dict.fromkeys(message.text for message in bot.messages if message.peer.id == "7")
        )
        assert in_order == ["one", "two", "three"]
        ids = {message.message_id: message.text for message in bot.messages}
        assert len(ids) == 5


async def test_what_was_missed_is_asked_for_in_pages_and_only_once() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            server.say("first")
            await bot.taken(1)
        server.gateway.expire()
        for number in range(150):
            server.say(f"{number}")
        async with bot.running():
            texts = await bot.taken(151)
        assert texts == ["first", *map(str, range(150))]
        async with bot.running():
            await bot.connected()
            server.say("last")
            assert (await bot.taken(152))[-1] == "last"
        assert sum("GET /channels/700/messages" in call for call in server.calls) == 2


async def test_a_kill_while_it_catches_up_loses_nothing() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            server.say("first")
            await bot.taken(1)
        server.gateway.expire()
        for number in range(3):
            server.say(f"{number}")

        async def full(message: InboundMessage) -> None:
            if message.text == "1":
                raise BusyError("The gateway stops.")

        with pytest.raises(BusyError), anyio.fail_after(60):
            await bot.opened().run(full)
        async with bot.running():
            assert await bot.taken(3) == ["first", "1", "2"]


async def test_heartbeats_are_sent_and_a_silent_gateway_is_left() -> None:
    async with discord() as server:
        server.gateway.interval_ms = 20
        bot = Bot(server)
        async with bot.running():
            await until(lambda: server.gateway.beats >= 3)
            assert server.gateway.introductions == ["identify"]
            server.gateway.is_silent = True
            await until(lambda: len(server.gateway.introductions) >= 2)
            server.gateway.is_silent = False
            server.say("hello")
            await bot.taken(1)
        assert set(server.gateway.introductions[1:]) == {"resume"}


async def test_a_heartbeat_that_the_gateway_asks_for_is_sent_at_once() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            before = server.gateway.beats
            await server.gateway.send(1)
            await until(lambda: server.gateway.beats > before)


@pytest.mark.parametrize(
    ("code", "remedy"), [(4004, "channels login discord"), (4014, "Message Content Intent")]
)
async def test_close_codes_that_a_person_must_mend_name_the_remedy(code: int, remedy: str) -> None:
    async with discord() as server:
        server.gateway.close_with = code
        bot = Bot(server)
        async with bot.running():
            await until(lambda: bot.adapter.state.state is ConnectionState.NEEDS_LOGIN)
            assert str(code) in bot.adapter.state.message
            assert remedy in bot.adapter.state.remedy
        assert server.gateway.introductions == ["identify"]


async def test_a_token_that_is_refused_needs_a_login() -> None:
    async with discord() as server:
        server.revoked = True
        state = await Bot(server).adapter.probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login discord" in state.remedy
        assert TOKEN not in state.message


async def test_no_session_is_begun_when_discord_allows_none() -> None:
    async with discord() as server:
        server.starts_left = 0
        bot = Bot(server)
        async with bot.running():
            await until(lambda: bot.adapter.state.state is ConnectionState.RETRYING)
            assert "no further session" in bot.adapter.state.message
        assert server.gateway.introductions == []


@pytest.mark.abuse(113)
async def test_a_button_of_a_server_comes_back_as_its_command_and_stays() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            buttons = ((Button("Allow", "/approve 1 allow-once"), Button("Long", "x" * 101)),)
            receipt = await bot.adapter.send(part("May I?", Additions(buttons=buttons)))
            number = receipt.platform_ids[0]
            act = server.press(number, "/approve 1 allow-once", user="8")
            await until(lambda: act in server.answered)
            server.say("after it")
            await until(lambda: len(bot.messages) > 1)
            assert server.stored[number]["components"]
        message, _ = bot.messages
        assert (message.text, message.sender_id) == ("/approve 1 allow-once", "8")
        assert (message.peer, message.mentions_me) == (Peer(PeerKind.CHANNEL, ROOM), True)
        assert message.roles == ("71", "72")
        assert server.answered[act] == {"type": 6}


async def test_an_interaction_is_answered_while_the_inbox_is_slow() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bot.adapter.run, wait_for_ever)
            await bot.connected()
            server.say("takes long")
            act = server.choose("status")
            await until(lambda: act in server.answered)
            tasks.cancel_scope.cancel()
        async with bot.running():
            assert await bot.taken(2) == ["takes long", "/status"]
        assert server.answered[act]["data"]["flags"] == 64


async def wait_for_ever(_: InboundMessage) -> None:
    await anyio.sleep_forever()


async def test_the_menu_has_the_commands_and_one_is_a_message() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await until(lambda: server.menu is not None and bool(server.gateway.sessions))
            server.choose("model", "large", channel=THREAD)
            assert await bot.taken(1) == ["/model large"]
        assert [entry["name"] for entry in server.menu or ()] == ["status", "model"]
        assert bot.messages[0].thread_id == THREAD
        server.menu = None
        async with bot.running():
            server.say("again")
            await bot.taken(2)
        assert server.menu is None, "it was set although it had not changed"


async def test_a_menu_that_is_no_longer_wanted_is_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(receiver, "MENU_SECONDS", 0.01)
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await until(lambda: bool(server.menu))
            bot.commands = Menu(owner=COMMANDS, is_native=False)
            await until(lambda: server.menu == [])


async def test_deletions_arrive_in_channels_and_in_direct_chats() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            for channel in (ROOM, "700"):
                server.delete(server.say("the boat", channel=channel))
            await bot.taken(4)
        messages, gone = bot.messages[0::2], bot.messages[1::2]
        assert [message.deletes for message in gone] == [message.message_id for message in messages]
        assert [message.peer for message in gone] == [message.peer for message in messages]


async def test_an_edit_arrives_once_and_a_preview_does_not() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            number = server.say("teh")
            preview = server.stored[number] | {"embeds": [{"type": "link"}]}
            server.gateway.dispatch("MESSAGE_UPDATE", preview)
            server.edit(number, "the")
            assert await bot.taken(2) == ["teh", "the"]
        assert bot.messages[1].edited


async def test_a_person_who_wrote_is_answered_in_the_same_chat() -> None:
    async with discord() as server:
        bot = Bot(server)
        async with bot.running():
            await bot.connected()
            server.say("hello")
            await bot.taken(1)
            to = ReplyTo(bot.adapter.channel, AccountId("default"), bot.messages[0].peer, "1")
            await bot.adapter.send(part("hi", to=to))
        assert server.texts("700") == ["hi"]
        assert "POST /users/@me/channels" not in server.calls


async def test_more_events_than_may_wait_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiver, "MAX_QUEUED_EVENTS", 3)
    async with discord() as server:
        bot, may_go, texts = Bot(server), anyio.Event(), list[str]()

        async def slow(message: InboundMessage) -> None:
            await may_go.wait()
            texts.append(message.text)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bot.adapter.run, slow)
            await bot.connected()
            for number in range(10):
                server.say(f"{number}")
            await until(lambda: server.gateway.is_alone)
            may_go.set()
            await until(lambda: len(texts) >= 10)
            tasks.cancel_scope.cancel()
        assert list(dict.fromkeys(texts)) == [f"{number}" for number in range(10)]
        assert "resume" in server.gateway.introductions
