"""The Telegram adapter: states, markup, files, buttons, reactions, and a server that fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.channels.telegram import wire
from skerry.channels.telegram.adapter import TelegramAdapter, open_account
from skerry.channels.telegram.config import TelegramAccount
from skerry.infra.backoff import Backoff
from skerry.infra.clock import SystemClock
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import (
    PLAIN,
    Additions,
    Button,
    OutboundMedia,
    OutboundPart,
    Poll,
)
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.telegram_server import TelegramServer

TO = ReplyTo(wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, "7"), "1")


def opened(server: TelegramServer, **settings: Any) -> TelegramAdapter:
    file = {"botToken": server.token, "apiRoot": server.root, "pollSeconds": 2, **settings}
    host = ChannelHost(AccountId("default"), SystemClock())
    return open_account(TelegramAccount.model_validate(file), host)


def part(text: str, more: Additions = PLAIN, to: ReplyTo = TO) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, 0, to, text, more)


@asynccontextmanager
async def running(adapter: TelegramAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        yield messages
        tasks.cancel_scope.cancel()


async def until(adapter: TelegramAdapter, state: ConnectionState) -> None:
    with anyio.fail_after(60):
        while adapter.state.state is not state:  # noqa: ASYNC110 - a plain field
            await anyio.sleep(0.01)


async def test_a_token_that_is_refused_needs_a_login_and_names_the_remedy() -> None:
    async with TelegramServer(revoked=True) as server, running(opened(server)):
        adapter = opened(server)
        assert (await adapter.probe()).state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login telegram" in adapter.state.remedy
        assert server.token not in adapter.state.message


async def test_a_server_that_is_gone_is_tried_again_and_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))
    async with TelegramServer() as server:
        adapter = opened(server)
        async with running(adapter) as messages:
            await until(adapter, ConnectionState.CONNECTED)
            for _ in range(3):
                server.fail("getUpdates", 502, "Bad Gateway")
            server.say("wakes the request that waits")
            await until(adapter, ConnectionState.RETRYING)
            server.say("hello")
            await until(adapter, ConnectionState.CONNECTED)
            with anyio.fail_after(60):
                while len(messages) < 2:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.01)
        assert adapter.state.name == "@house_bot"


async def test_markup_that_telegram_refuses_goes_out_as_plain_text() -> None:
    async with TelegramServer() as server:
        server.fail("sendMessage", 400, "Bad Request: can't parse entities: oh")
        await opened(server).send(part("**x**"))
        assert server.texts() == ["**x**"]


async def test_nothing_is_asked_while_the_server_wants_no_request() -> None:
    async with TelegramServer() as server:
        adapter = opened(server)
        server.fail("sendMessage", 429, "Too Many Requests", retry_after=30)
        for _ in range(3):
            with pytest.raises(DeliveryDelayedError):
                await adapter.send(part("x"))
        await adapter.typing(TO)
        assert server.calls == ["sendMessage"]


async def test_a_group_that_moved_is_written_to_where_it_is() -> None:
    async with TelegramServer() as server:
        server.fail("sendMessage", 400, "group chat was upgraded", migrate_to_chat_id=-1007)
        await opened(server).send(part("x"))
        assert server.texts(-1007) == ["x"]


async def test_buttons_carry_commands_and_a_press_comes_back_as_one() -> None:
    rows = ((Button("Allow", "/approve 1 allow-once"), Button("Long", "x" * 65)),)
    async with TelegramServer() as server:
        adapter = opened(server)
        receipt = await adapter.send(part("May I?", Additions(buttons=rows)))
        keyboard = server.sent[0].params["reply_markup"]["inline_keyboard"]
        assert keyboard == [[{"text": "Allow", "callback_data": "/approve 1 allow-once"}]]
        async with running(adapter) as messages:
            server.press("/approve 1 allow-once", int(receipt.platform_ids[0]))
            with anyio.fail_after(60):
                while "editMessageReplyMarkup" not in server.calls:  # noqa: ASYNC110 - a plain list
                    await anyio.sleep(0.01)
        assert messages[0].text == "/approve 1 allow-once"
        assert "answerCallbackQuery" in server.calls
        assert server.faults == []


@pytest.mark.abuse(113)
async def test_a_stranger_in_a_group_takes_no_buttons_away() -> None:
    async with TelegramServer() as server, running(opened(server)) as messages:
        server.press("/approve 1 deny", 5, user=66, chat=-100)
        server.say("after it")
        with anyio.fail_after(60):
            while len(messages) < 2:  # noqa: ASYNC110 - a plain list
                await anyio.sleep(0.01)
        assert (messages[0].sender_id, messages[0].peer.id) == ("66", "-100")
        assert "answerCallbackQuery" in server.calls
        assert "editMessageReplyMarkup" not in server.calls


@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (AttachmentKind.IMAGE, "sendPhoto"),
        (AttachmentKind.FILE, "sendDocument"),
        (AttachmentKind.AUDIO, "sendVoice"),
        (AttachmentKind.AUDIO, "sendAudio"),
        (AttachmentKind.VIDEO, "sendVideo"),
    ],
)
async def test_files_go_out_by_their_kind(
    kind: AttachmentKind, method: str, tmp_path: Path
) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(256)))
    media = OutboundMedia(kind, str(path), "image/png", 'a"b\r\nc.png', voice=method == "sendVoice")
    async with TelegramServer() as server:
        await opened(server).send(part("*look*", Additions(media=media)))
        (sent,) = server.sent
        assert (sent.method, sent.text) == (method, "look")
        upload = sent.params[method.removeprefix("send").lower()]
        assert (upload.data, upload.name) == (bytes(range(256)), "abc.png")
        gone = OutboundMedia(kind, str(tmp_path / "gone"))
        with pytest.raises(DeliveryRefusedError, match="cannot be read"):
            await opened(server).send(part("", Additions(media=gone)))


async def test_polls_reactions_edits_and_topics() -> None:
    async with TelegramServer() as server:
        adapter = opened(server)
        await adapter.send(part("When?", Additions(poll=Poll("When?", ("now", "later")))))
        await adapter.react(TO, "👀")
        await adapter.react(TO, "")
        receipt = await adapter.send(part("one"))
        await adapter.edit(TO, receipt.platform_ids[0], "**two**")
        await adapter.edit(TO, receipt.platform_ids[0], "two")  # changes nothing
        topic = ReplyTo(TO.channel, TO.account, TO.peer, "1", "40", quote="3")
        await adapter.send(part("three", to=topic))
        assert server.texts()[-2:] == ["two", "three"]
        assert server.sent[-1].params["message_thread_id"] == 40
        assert server.sent[-1].params["reply_parameters"]["message_id"] == 3
        with pytest.raises(DeliveryRefusedError):
            await adapter.edit(TO, "4711", "x")
        assert [fault for fault in server.faults if "not modified" not in fault] == [
            "editMessageText: Bad Request: message to edit not found"
        ]


async def test_a_file_is_fetched_up_to_the_limit() -> None:
    async with TelegramServer() as server:
        adapter = opened(server, mediaMaxMb=1)
        named = server.upload(b"x" * 1000)
        file = Attachment(AttachmentKind.FILE, named["file_id"], name="f")
        assert await adapter.fetch(file, 5000) == b"x" * 1000
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(file, 10)
        claimed = Attachment(AttachmentKind.FILE, named["file_id"], name="f", size=2_000_000)
        with pytest.raises(MediaError, match="2000000 bytes; 1000000 are allowed"):
            await adapter.fetch(claimed, 5_000_000)
        with pytest.raises(MediaError, match="wrong file_id"):
            await adapter.fetch(Attachment(AttachmentKind.FILE, "gone", name="f"), 10)


async def test_a_peer_that_is_no_chat_is_refused() -> None:
    async with TelegramServer() as server:
        nobody = ReplyTo(TO.channel, TO.account, Peer(PeerKind.DIRECT, "ada"), "1")
        with pytest.raises(DeliveryRefusedError, match="'ada' is no chat"):
            await opened(server).send(part("x", to=nobody))
        assert server.calls == []
