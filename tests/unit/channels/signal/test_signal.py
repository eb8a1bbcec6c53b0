"""The Signal adapter: every kind of message, styles, files, and a signal-cli that fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.channels.signal import wire
from skerry.channels.signal.adapter import SignalAdapter
from skerry.channels.signal.markup import BRIDGE_MARKUP, styled
from skerry.infra.backoff import Backoff
from skerry.model.errors import DeliveryRefusedError, StateError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, OutboundMedia, OutboundPart
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState
from skerry.sdk.channel_account import Account
from skerry.sdk.channel_errors import PlatformError
from skerry.testing.http_server import ServedResponse
from skerry.testing.signal_server import NUMBER, SignalServer
from tests.contract.phones import Signal

BRIDGES = ("daemon", "rest")
TO = ReplyTo(
    wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, "+491701"), "1700000000001/+491701"
)


def opened(server: SignalServer, bridge: str = "daemon") -> SignalAdapter:
    return Signal(server, bridge).adapter


def part(text: str, more: Additions = PLAIN, to: ReplyTo = TO) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, 0, to, text, more)


def read(content: dict[str, Any], **envelope: Any) -> InboundMessage | None:
    about = {"sourceNumber": "+491701", "sourceUuid": "u-1", "sourceName": "Ada", **envelope}
    event = {"account": NUMBER, "envelope": {**about, **content}}
    decoded = wire.event.decode(msgspec.json.encode(event))
    return wire.inbound(decoded, NUMBER, AccountId("default"), 5)


def data(**more: Any) -> dict[str, Any]:
    return {"dataMessage": {"timestamp": 1_700_000_000_001, "message": "hello", **more}}


@asynccontextmanager
async def running(adapter: SignalAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        yield messages
        tasks.cancel_scope.cancel()


async def taken(messages: list[InboundMessage], count: int) -> None:
    with anyio.fail_after(60):
        while len(messages) < count:  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.01)


async def everything_written(server: SignalServer) -> None:
    with anyio.fail_after(60):
        while server.waiting:  # noqa: ASYNC110 - a plain list
            await anyio.sleep(0.01)
    await anyio.wait_all_tasks_blocked()


def test_a_message_has_its_sender_its_chat_and_its_time() -> None:
    message = read(data())
    assert message is not None
    assert (message.sender_id, message.peer) == ("+491701", Peer(PeerKind.DIRECT, "+491701"))
    assert "e164:+491701" in message.sender
    assert (message.message_id, message.sent_at) == ("1700000000001/+491701", 1_700_000_000_001)
    hidden = read(data(), sourceNumber=None)
    assert hidden is not None
    assert (hidden.sender_id, hidden.peer.id) == ("u-1", "u-1")


def test_a_group_is_a_conversation_of_its_own() -> None:
    message = read(data(groupInfo={"groupId": "Gg==", "groupName": "Sea", "type": "DELIVER"}))
    assert message is not None
    assert (message.peer, message.group_name) == (Peer(PeerKind.GROUP, "Gg=="), "Sea")


def test_mentions_get_the_names_that_their_places_stand_for() -> None:
    mentions = [
        {"number": NUMBER, "uuid": "me", "start": 3, "length": 1},
        {"number": None, "uuid": "u-2", "name": "Bo", "start": 8, "length": 1},
    ]
    message = read(data(message="😀 \ufffc hi \ufffc!", mentions=mentions))
    assert message is not None
    assert message.text == f"😀 @{NUMBER} hi @Bo!"
    assert (message.mentions_me, message.mentions) == (True, (NUMBER, "u-2"))


def test_an_answer_names_what_it_answers() -> None:
    quote = {"id": 7, "authorNumber": NUMBER, "authorUuid": "me", "text": "before"}
    message = read(data(quote=quote))
    assert message is not None
    assert message.reply is not None
    assert (message.reply.id, message.reply.text) == (f"7/{NUMBER}", "before")
    assert message.reply.is_me


def test_a_deletion_names_a_message_of_its_sender_alone() -> None:
    message = read(data(message=None, remoteDelete={"timestamp": 7}))
    assert message is not None
    assert (message.deletes, message.text) == ("7/+491701", "")


def test_an_edit_is_another_message() -> None:
    message = read({"editMessage": {"targetSentTimestamp": 7, **data()}})
    assert message is not None
    assert (message.message_id, message.edited) == ("7/+491701:1700000000001", True)
    assert wire.parsed_id(message.message_id) == (7, "+491701")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"sticker": {"emoji": "😀", "packId": "p", "stickerId": 1}}, "[Sticker 😀]"),
        (
            {"contacts": [{"name": {"given": "Bo", "family": "X"}, "phone": [{"value": "+1"}]}]},
            "[Contact: Bo X: +1]",
        ),
        (
            {"pollCreate": {"question": "When?", "options": ["now", "later"]}},
            "[Poll: When? Options: now, later]",
        ),
    ],
    ids=str,
)
def test_each_kind_of_message_has_words(more: dict[str, Any], text: str) -> None:
    message = read(data(**{"message": None, **more}))
    assert message is not None
    assert message.text == text


@pytest.mark.parametrize(
    "content",
    [
        data(message=None, reaction={"emoji": "👍", "targetSentTimestamp": 1}),
        data(message=None, groupInfo={"groupId": "G", "type": "UPDATE"}),
        {"syncMessage": {"sentMessage": {"message": "from my other phone"}}},
        {"receiptMessage": {"when": 1, "isDelivery": True}},
        {"storyMessage": {"allowsReplies": True}},
    ],
    ids=str,
)
def test_what_says_nothing_is_no_message(content: dict[str, Any]) -> None:
    assert read(content) is None


def test_the_account_does_not_read_itself() -> None:
    assert read(data(), sourceNumber=NUMBER) is None


def test_markdown_becomes_ranges_in_code_units_of_utf16() -> None:
    shaped = styled("😀 **b *i*** ~~s~~ `c*d`\n\n```py\nx = 1\n```\n\ue000 [l](https://x.example)")
    assert shaped.text == "😀 b i s c*d\n\nx = 1\n\n l (https://x.example)"
    assert shaped.styles == (
        *("5:1:ITALIC", "3:3:BOLD", "7:1:STRIKETHROUGH", "9:3:MONOSPACE"),
        "14:5:MONOSPACE",
    )
    assert styled("plain *").styles == ()


def test_markdown_becomes_the_markup_of_the_bridge() -> None:
    assert BRIDGE_MARKUP.render("**b** *i* ~~s~~ `c*d` a*b | ~ <https://x.example/~a>") == (
        "**b** *i* ~s~ `c\\*d` a\\*b \\| \\~ https://x.example/\\~a"
    )


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_a_part_names_its_chat_and_quotes_with_the_text(bridge: str) -> None:
    async with SignalServer() as server:
        adapter = opened(server, bridge)
        async with running(adapter) as messages:
            number = server.say("What is it?")
            await taken(messages, 1)
            to = msgspec.structs.replace(TO, quote=number)
            receipt = await adapter.send(part("**this**", to=to))
        (sent,) = server.sent
        assert (sent.to, sent.text) == ("+491701", "this")
        assert f"{sent.target}/{sent.author}" == number
        assert receipt.platform_ids[0].endswith(f"/{NUMBER}")
        group = msgspec.structs.replace(TO, peer=Peer(PeerKind.GROUP, "Zz+/8w=="))
        await adapter.send(part("all", to=group))
        assert (server.sent[1].to, server.faults) == ("Zz+/8w==", [])


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_files_go_both_ways(bridge: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    media = OutboundMedia(
        AttachmentKind.AUDIO, str(tmp_path / "f"), "audio/ogg; codecs=opus", "a;b,c", voice=True
    )
    async with SignalServer() as server:
        adapter = opened(server, bridge)
        await adapter.send(part("listen", Additions(media=media)))
        (sent,) = server.sent
        assert (sent.file, sent.text, server.faults) == (b"data", "listen", [])
        server.files["f1.ogg"] = b"x" * 100
        attachment = {"id": "f1.ogg", "contentType": "audio/ogg", "size": 100, "filename": None}
        message = read(data(attachments=[attachment]))
        assert message is not None
        (file,) = message.attachments
        assert (file.kind, file.name) == (AttachmentKind.AUDIO, "f1.ogg")
        assert await adapter.fetch(file, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="10 are allowed"):
            await adapter.fetch(file, 10)
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(msgspec.structs.replace(file, size=0), 10)
        gone = msgspec.structs.replace(file, handle="p +491701 ../x", size=0)
        with pytest.raises(MediaError, match="cannot be fetched"):
            await adapter.fetch(gone, 10)
        lost = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "g"))
        with pytest.raises(DeliveryRefusedError, match="cannot be read"):
            await adapter.send(part("", Additions(media=lost)))


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_typing_and_reactions(bridge: str) -> None:
    async with SignalServer() as server:
        adapter = opened(server, bridge)
        await adapter.typing(TO)
        await adapter.react(TO, "👍")
        await adapter.react(TO, "")
        await adapter.react(msgspec.structs.replace(TO, message_id=""), "👍")
        where = ("👍", "+491701", 1_700_000_000_001)
        assert server.typed == ["+491701"]
        assert (server.reactions, server.faults) == ([(*where, False), (*where, True)], [])


@pytest.mark.parametrize(
    ("code", "kind", "error"),
    [
        (-1, "UNREGISTERED_FAILURE", DeliveryRefusedError),
        (-1, "NETWORK_FAILURE", DeliveryDelayedError),
        (-4, "IDENTITY_FAILURE", DeliveryRefusedError),
        (-5, "RATE_LIMIT_FAILURE", DeliveryDelayedError),
        (-1, "", DeliveryRefusedError),
        (-32602, "", DeliveryRefusedError),
    ],
)
async def test_each_refusal_is_final_or_not(code: int, kind: str, error: type[Exception]) -> None:
    async with SignalServer() as server:
        server.fail(code, "no", kind)
        with pytest.raises(error):
            await opened(server).send(part("x"))


async def test_an_internal_error_leaves_open_whether_it_arrived() -> None:
    async with SignalServer() as server:
        server.fail(-32603, "Failed to send message: timeout (IOException)")
        with pytest.raises(PlatformError):
            await opened(server).send(part("x"))
        answer = ServedResponse.of({"error": "Failed to send message: x (IOException)"}, 400)
        server.planned.append((answer, False))
        with pytest.raises(PlatformError):
            await opened(server, "rest").send(part("x"))


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_an_account_that_signal_cli_lacks_needs_a_login(bridge: str) -> None:
    async with SignalServer(accounts=["+1"]) as server:
        state = await opened(server, bridge).probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels restart signal" in state.remedy


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_a_stream_that_ends_is_opened_again(
    bridge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Account, "waits", Backoff(base=0.01, cap=0.01))
    async with SignalServer() as server, running(opened(server, bridge)) as messages:
        server.say("one")
        await taken(messages, 1)
        server.cut()
        server.say("two")
        await taken(messages, 2)
    assert [message.text for message in messages] == ["one", "two"]


@pytest.mark.parametrize("bridge", BRIDGES)
async def test_what_was_received_and_not_taken_is_there_after_the_next_start(bridge: str) -> None:
    async with SignalServer() as server:
        town = Signal(server, bridge)
        for number in range(3):
            server.say(f"{number}\nline")

        async def full(message: InboundMessage) -> None:
            await everything_written(server)
            raise StateError(f"no room for {message.message_id}")

        with anyio.fail_after(60):
            with pytest.raises(StateError):
                await town.adapter.run(full)
            with pytest.raises(StateError):
                await town.adapter.run(full)
        async with running(town.adapter) as messages:
            await taken(messages, 3)
            server.say("3")
            await taken(messages, 4)
        assert [message.text[0] for message in messages] == ["0", "1", "2", "3"]


async def test_too_much_to_keep_is_cut_between_events(caplog: pytest.LogCaptureFixture) -> None:
    async with SignalServer() as server:
        town = Signal(server, "daemon")
        for _ in range(3):
            server.say("x" * 30_000)

        async def full(_: InboundMessage) -> None:
            await everything_written(server)
            raise StateError("no room")

        with anyio.fail_after(60), pytest.raises(StateError):
            await town.adapter.run(full)
        async with running(town.adapter) as messages:
            await taken(messages, 1)
        assert len(messages[0].text) == 30_000
    assert "could not be stored" in caplog.text


async def test_events_of_another_account_of_the_daemon_are_left_out() -> None:
    async with SignalServer() as server, running(opened(server)) as messages:
        server.raw(
            '{"account": "+1", "envelope": {"sourceNumber": "+2", "dataMessage":'
            ' {"timestamp": 1, "message": "not for us"}}}'
        )
        server.say("for us")
        await taken(messages, 1)
        assert messages[0].text == "for us"
