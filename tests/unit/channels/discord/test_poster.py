"""Requests of the Discord adapter: parts, files, polls, edits, reactions, and their limits."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from skerry.channels.discord import wire
from skerry.channels.discord.adapter import DiscordAdapter, open_account
from skerry.channels.discord.api import kind_of
from skerry.channels.discord.config import DiscordAccount
from skerry.channels.discord.poster import nonce
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, Peer, PeerKind, ReplyTo
from skerry.model.outbound import (
    PLAIN,
    Additions,
    OutboundMedia,
    OutboundPart,
    Poll,
    Settlement,
)
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.sdk.channel_host import ChannelHost
from skerry.testing import discord_objects as objects
from skerry.testing.discord_objects import ROOM, THREAD, TOKEN
from skerry.testing.discord_server import DiscordServer

ASKED = objects.snowflake(0)
TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.CHANNEL, ROOM), ASKED)
HERE = rf"/channels/{ROOM}/messages"


def opened(server: DiscordServer, **settings: Any) -> DiscordAdapter:
    file = {"token": TOKEN, "apiRoot": server.root, **settings}
    host = ChannelHost(AccountId("default"), SystemClock())
    return open_account(DiscordAccount.model_validate(file), host)


def part(text: str, more: Additions = PLAIN, *, to: ReplyTo = TO, number: int = 0) -> OutboundPart:
    return OutboundPart(1, RunId("r" * 60), 0, number, to, text, more)


@asynccontextmanager
async def discord() -> AsyncGenerator[DiscordServer]:
    async with DiscordServer() as server:
        yield server
    assert server.faults == []


async def test_a_part_that_is_sent_twice_is_one_message() -> None:
    async with discord() as server:
        first = await opened(server).send(part("hello"))
        again = await opened(server).send(part("hello"))
        assert first == again
        assert server.texts(ROOM) == ["hello"]
        assert len({nonce(part("", number=number)) for number in range(9)}) == 9
        assert len(nonce(part(""))) <= 25


async def test_an_answer_notifies_nobody_unless_the_owner_says_so() -> None:
    async with discord() as server:
        await opened(server).send(part("<@7> @everyone"))
        await opened(server, mentions="users").send(part("<@7> @everyone", number=1))
        asked = [post.params["allowed_mentions"] for post in server.posted]
        assert asked == [{"parse": []}, {"parse": ["users"]}]


async def test_threads_quotes_and_silence() -> None:
    async with discord() as server:
        to = ReplyTo(TO.channel, TO.account, TO.peer, ASKED, THREAD, quote="4711")
        await opened(server).send(part("x", Additions(silent=True), to=to))
        (sent,) = server.posted
        assert sent.channel == THREAD
        assert sent.params["message_reference"]["message_id"] == "4711"
        assert sent.params["flags"] & 1 << 12


async def test_a_text_with_too_many_marks_stays_as_it_was_written() -> None:
    async with discord() as server:
        await opened(server).send(part("_*" * 950))
        assert server.stored[server.posted[0].id]["content"] == "_*" * 950


async def test_a_stranger_is_written_to_by_the_number_of_the_person() -> None:
    async with discord() as server:
        adapter = opened(server)
        to = ReplyTo(TO.channel, TO.account, Peer(PeerKind.DIRECT, "8"), "")
        await adapter.send(part("one", to=to))
        await adapter.send(part("two", to=to, number=1))
        assert server.texts("800") == ["one", "two"]
        assert server.calls.count("POST /users/@me/channels") == 1
        nobody = ReplyTo(TO.channel, TO.account, Peer(PeerKind.DIRECT, "ada"), "")
        with pytest.raises(DeliveryRefusedError, match="'ada' is not a Discord person"):
            await adapter.send(part("x", to=nobody))


async def test_limits_hold_for_their_channel_or_for_everything() -> None:
    async with discord() as server:
        adapter = opened(server)
        other = ReplyTo(TO.channel, TO.account, Peer(PeerKind.CHANNEL, THREAD), ASKED)
        server.fail("POST", HERE, 429, "limited", retry_after=30.5)
        with pytest.raises(DeliveryDelayedError) as caught:
            await adapter.send(part("x"))
        assert caught.value.seconds == 30.5
        with pytest.raises(DeliveryDelayedError):
            await adapter.send(part("x"))
        await adapter.send(part("other", to=other, number=1))
        more: dict[str, Any] = {"retry_after": 40, "global": True}
        server.fail("POST", rf"/channels/{THREAD}/messages", 429, **more)
        for number in (2, 3):
            with pytest.raises(DeliveryDelayedError):
                await adapter.send(part("x", to=other, number=number))
        with pytest.raises(DeliveryDelayedError):
            await adapter.edit(TO, "1", "x")
        assert server.calls.count(f"POST /channels/{THREAD}/messages") == 2
        assert server.calls.count(f"POST /channels/{ROOM}/messages") == 1


def test_each_kind_of_request_of_a_channel_has_its_limit() -> None:
    assert kind_of("POST", "/channels/1/messages") == "POST channels/1/messages"
    assert kind_of("PATCH", "/channels/1/messages/2") == "PATCH channels/1/messages"
    assert kind_of("POST", "/channels/1/typing") != kind_of("POST", "/channels/2/typing")


async def test_a_part_is_found_by_its_text_behind_what_it_answers() -> None:
    async with discord() as server:
        adapter = opened(server)
        asked = server.say("ping", channel=ROOM)
        to = ReplyTo(TO.channel, TO.account, TO.peer, asked)
        await adapter.send(part("**pong** a_b", to=to))
        assert await adapter.settle(part("**pong** a_b", to=to)) is Settlement.DELIVERED
        assert await adapter.settle(part("never", to=to, number=1)) is Settlement.ABSENT
        nothing_asked = ReplyTo(TO.channel, TO.account, TO.peer, "")
        known = part("**pong** a_b", to=nothing_asked)
        assert await adapter.settle(known) is Settlement.UNKNOWN
        await adapter.send(part("**pong** a_b", to=to, number=1))
        assert await adapter.settle(part("**pong** a_b", to=to)) is Settlement.UNKNOWN
        again = server.say("ping", channel=ROOM)
        later = ReplyTo(TO.channel, TO.account, TO.peer, again)
        assert await adapter.settle(part("**pong** a_b", to=later)) is Settlement.ABSENT


async def test_a_part_that_may_be_further_back_is_unknown() -> None:
    async with discord() as server:
        adapter = opened(server)
        for number in range(101):
            server.say(f"{number}", channel=ROOM)
        assert await adapter.settle(part("hello")) is Settlement.UNKNOWN


@pytest.mark.parametrize("name", ['a"b\r\nc.png', "plain.png"])
async def test_files_go_out_with_their_text(name: str, tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)))
    media = OutboundMedia(AttachmentKind.IMAGE, str(path), "image/png", name)
    async with discord() as server:
        adapter = opened(server)
        await adapter.send(part("*look*", Additions(media=media)))
        (file,) = server.stored[server.posted[0].id]["attachments"]
        assert server.files[file["filename"]] == bytes(range(256))
        assert await adapter.settle(part("*look*", Additions(media=media))) is Settlement.DELIVERED
        assert await adapter.settle(part("*look*")) is Settlement.ABSENT
        gone = OutboundMedia(AttachmentKind.IMAGE, str(tmp_path / "gone"))
        with pytest.raises(DeliveryRefusedError, match="cannot be read"):
            await adapter.send(part("", Additions(media=gone)))


async def test_polls() -> None:
    async with discord() as server:
        adapter = opened(server)
        asked = part("When?", Additions(poll=Poll("When?", ("now", "later"), 2, 5400)))
        await adapter.send(asked)
        poll = server.posted[0].params["poll"]
        assert (poll["duration"], poll["allow_multiselect"]) == (2, True)
        assert await adapter.settle(asked) is Settlement.DELIVERED
        long = Additions(poll=Poll("When?", ("now", "x" * 56)))
        with pytest.raises(DeliveryRefusedError, match="55 characters"):
            await adapter.send(part("When?", long, number=1))


async def test_edits_and_reactions() -> None:
    async with discord() as server:
        adapter = opened(server)
        asked = server.say("hello", channel=ROOM)
        to = ReplyTo(TO.channel, TO.account, TO.peer, asked)
        receipt = await adapter.send(part("one"))
        await adapter.edit(TO, receipt.platform_ids[0], "**two**")
        assert server.texts(ROOM) == ["**two**"]
        await adapter.react(to, "👀")
        assert [reaction["emoji"]["name"] for reaction in server.stored[asked]["reactions"]] == [
            "👀"
        ]
        await adapter.react(to, "")
        assert server.stored[asked]["reactions"] == []
        await adapter.react(ReplyTo(TO.channel, TO.account, TO.peer, "act:5"), "👀")
    async with DiscordServer() as server:
        with pytest.raises(DeliveryRefusedError):
            await opened(server).edit(TO, "4711", "x")
        with pytest.raises(DeliveryRefusedError, match="is not an id"):
            await opened(server).edit(TO, "../1", "x")
        with pytest.raises(DeliveryRefusedError, match="Unknown Message"):
            await opened(server).react(TO, "👀")


async def test_writing_is_shown_once_in_some_seconds() -> None:
    async with discord() as server:
        adapter = opened(server)
        for _ in range(3):
            await adapter.typing(TO)
        assert server.typed == [ROOM]


async def test_a_file_is_fetched_up_to_the_limit_and_from_discord_alone() -> None:
    async with discord() as server:
        adapter = opened(server)
        url = server.file("f.txt", b"x" * 100)["url"]
        file = Attachment(AttachmentKind.FILE, url, name="f")
        assert await adapter.fetch(file, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(file, 10)
        elsewhere = Attachment(AttachmentKind.FILE, "http://127.0.0.1:9/token", name="f")
        with pytest.raises(MediaError, match="cannot be fetched"):
            await adapter.fetch(elsewhere, 10)
        claimed = Attachment(AttachmentKind.FILE, url, name="f", size=20_000_000)
        with pytest.raises(MediaError, match="20000000 bytes"):
            await adapter.fetch(claimed, 50_000_000)
