"""The Google Chat adapter: proofs of requests, events, markup, cards, files, and ids of ours."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from skerry.channels.googlechat import wire
from skerry.channels.googlechat.adapter import GoogleChatAdapter, open_account
from skerry.channels.googlechat.config import GoogleChatAccount
from skerry.channels.googlechat.markup import CHAT
from skerry.infra.clock import SystemClock
from skerry.model.errors import BusyError, DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundPart, Settlement
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState, Post, PostAnswer
from skerry.sdk.channel_host import ChannelHost
from skerry.testing.google_server import PROJECT, SENDER, GoogleServer
from skerry.testing.token_issuer import signing_key, token

HERE = AccountId("default")
ALICE = Peer(PeerKind.DIRECT, "spaces/ALICE")
SEA = Peer(PeerKind.CHANNEL, "spaces/SEA")
URL = "https://agents.example.org/channels/googlechat/default"


def opened(server: GoogleServer, home: Path, **more: Any) -> GoogleChatAdapter:
    settings = GoogleChatAccount.model_validate(server.settings(home) | more)
    return open_account(settings, ChannelHost(HERE, SystemClock()))


def part(
    text: str, to: Peer = ALICE, thread: str | None = None, more: Additions = PLAIN, number: int = 0
) -> OutboundPart:
    return OutboundPart(
        1, RunId("r"), 0, number, ReplyTo(wire.CHANNEL, HERE, to, "1", thread), text, more
    )


def read(text: str = "", **more: Any) -> InboundMessage | None:
    event = GoogleServer().event(text, **more)
    return wire.inbound(wire.event.decode(msgspec.json.encode(event)), HERE, 5)


@asynccontextmanager
async def running(adapter: GoogleChatAdapter) -> AsyncGenerator[list[InboundMessage]]:
    messages: list[InboundMessage] = []

    async def inbox(message: InboundMessage) -> None:
        messages.append(message)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(adapter.run, inbox)
        with anyio.fail_after(60):
            while adapter.state.state is ConnectionState.STARTING:  # noqa: ASYNC110 - plain
                await anyio.sleep(0.01)
        yield messages
        tasks.cancel_scope.cancel()


async def post(
    adapter: GoogleChatAdapter, event: Any, headers: dict[str, str], method: str = "POST"
) -> PostAnswer:
    return await adapter.posted(Post(method, "", {}, headers, msgspec.json.encode(event)))


def bearing(claims: dict[str, Any], kid: str = "google", **more: Any) -> dict[str, str]:
    return {"authorization": f"Bearer {token(claims, kid, **more)}"}


async def test_requests_without_a_proof_are_refused_before_they_are_read(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        adapter, event = opened(server, tmp_path), server.event("/stop")
        own = {"iss": SENDER, "aud": PROJECT}
        async with running(adapter) as messages:
            forged = [
                {},
                bearing(own, key=signing_key("stranger")),
                bearing(own, "stranger"),
                bearing(own | {"aud": "999999999999"}),
                bearing(own | {"iss": "https://accounts.google.com", "email": SENDER}),
                bearing(own | {"exp": 1_700_000_000}),
                bearing(own | {"iat": 4_000_000_000}),
            ]
            for given in forged:
                assert (await post(adapter, event, given)).status == 401
            assert (await post(adapter, event, server.headers(), "GET")).status == 405
            assert messages == []
            assert (await post(adapter, event, server.headers())).body == b"{}"
            assert [message.text for message in messages] == ["/stop"]


async def test_tokens_for_an_address_must_be_of_google_chat(tmp_path: Path) -> None:
    chat = {"iss": "https://accounts.google.com", "aud": URL, "email": SENDER}
    async with GoogleServer() as server:
        adapter, event = opened(server, tmp_path, audience=URL), server.event("hello")
        async with running(adapter) as messages:
            forged = [
                server.headers(),
                bearing(chat),
                bearing(chat | {"email_verified": "true"}),
                bearing(chat | {"email_verified": True, "email": "somebody@gmail.example"}),
                bearing(chat | {"email_verified": True, "aud": f"{URL}/"}),
                bearing(chat | {"email_verified": True, "iss": SENDER}),
            ]
            for given in forged:
                assert (await post(adapter, event, given)).status == 401
            assert messages == []
            assert (
                await post(adapter, event, bearing(chat | {"email_verified": True}))
            ).status == 200
            assert len(messages) == 1


async def test_what_is_not_taken_is_sent_again(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        with pytest.raises(BusyError):
            await post(opened(server, tmp_path), server.event("x"), server.headers())


def test_a_message_of_a_space_has_its_thread_and_its_mentions() -> None:
    bot, bob = {"name": "users/8", "type": "BOT"}, {"name": "users/2", "type": "HUMAN"}
    message = read(
        "@House ask @Bob",
        space={"name": SEA.id, "spaceType": "SPACE", "displayName": "sea"},
        message={
            "argumentText": " ask @Bob",
            "threadReply": True,
            "thread": {"name": "spaces/SEA/threads/T"},
            "annotations": [
                {"type": "USER_MENTION", "userMention": {"user": bot, "type": "MENTION"}},
                {"type": "USER_MENTION", "userMention": {"user": bob, "type": "MENTION"}},
                {"type": "SLASH_COMMAND"},
            ],
        },
    )
    assert message is not None
    assert (message.peer, message.thread_id) == (SEA, "spaces/SEA/threads/T")
    assert (message.text, message.group_name) == ("ask @Bob", "sea")
    assert (message.mentions_me, message.mentions) == (True, ("users/8", "users/2"))
    assert (message.sender_id, message.sender_name) == ("users/1", "Alice")
    assert (message.sender_username, message.sent_at) == ("a@x.example", 1_795_514_400_000)


@pytest.mark.parametrize(
    ("space", "kind"),
    [
        ({"spaceType": "DIRECT_MESSAGE", "type": "DM"}, PeerKind.DIRECT),
        ({"type": "DM"}, PeerKind.DIRECT),
        ({"spaceType": "GROUP_CHAT", "type": "ROOM"}, PeerKind.GROUP),
        ({"spaceType": "SPACE", "type": "ROOM"}, PeerKind.CHANNEL),
        ({}, PeerKind.CHANNEL),
    ],
)
def test_kinds_of_spaces(space: dict[str, Any], kind: PeerKind) -> None:
    message = read("x", space={"name": "spaces/S", **space})
    assert message is not None
    assert (message.peer.kind, message.thread_id) == (kind, None)


@pytest.mark.parametrize(
    "event",
    [
        {"type": "REMOVED_FROM_SPACE"},
        {"type": "ADDED_TO_SPACE", "message": {"name": ""}},
        {"type": "WIDGET_UPDATED"},
        {"type": "CARD_CLICKED"},
        {"user": {"name": "users/9", "type": "BOT"}},
        {"user": {"name": "users/9"}},
        {"user": {"name": "", "type": "HUMAN"}},
        {"space": {"name": "../x"}},
        {"message": {"name": "spaces/ALICE/messages/../x"}},
    ],
    ids=str,
)
def test_what_no_person_did_is_no_message(event: dict[str, Any]) -> None:
    assert read("x", **event) is None


def test_a_mention_that_adds_the_app_is_a_message() -> None:
    message = read("hello", type="ADDED_TO_SPACE")
    assert message is not None
    assert message.text == "hello"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**b** *i* ~~s~~ `c<d`", "*b* _i_ ~s~ `c<\u200bd`"),
        ("<users/all> a_b*c", "<\u200busers/all> a\u200b_b\u200b*c"),
        ("[l](https://x.example/?a=1&b=2)", "<https://x.example/?a=1&b=2|l>"),
        ("[<users/all>|x](https://x.example)", "<https://x.example| \u200busers/all  x>"),
        ("[l](javascript:x)", "[l](javascript:x)"),
        ("```py\n<users/all>\n```", "```\n<\u200busers/all>\n```"),
    ],
)
def test_markdown_becomes_markup_that_calls_nobody(text: str, shown: str) -> None:
    assert CHAT.render(text) == shown


async def test_a_part_is_one_message_however_often_it_is_sent(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        first = await adapter.send(part("hello", SEA, "spaces/SEA/threads/T"))
        again = await opened(server, tmp_path).send(part("hello", SEA, "spaces/SEA/threads/T"))
        assert first == again
        assert len(server.messages) == 1
        (shown,) = server.messages.values()
        assert shown.body["thread"] == {"name": "spaces/SEA/threads/T"}
        assert await adapter.settle(part("hello", SEA)) is Settlement.DELIVERED
        assert await adapter.locate(part("hello", SEA)) == first
        assert await adapter.settle(part("never", SEA, number=1)) is Settlement.ABSENT
        assert await adapter.locate(part("never", SEA, number=1)) is None
        assert server.faults == []


@pytest.mark.parametrize("place", ["spaces/../x", "users/1", "", "spaces/A/messages/B"])
async def test_what_is_no_space_is_refused(tmp_path: Path, place: str) -> None:
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        with pytest.raises(DeliveryRefusedError):
            await adapter.send(part("x", Peer(PeerKind.CHANNEL, place)))
        with pytest.raises(DeliveryRefusedError):
            await adapter.send(part("x", ALICE, f"{place}/threads/../T"))
        with pytest.raises(DeliveryRefusedError):
            await adapter.edit(part("x").to, f"{place}/../messages/M", "y")
        assert server.tokens == 0


async def test_a_button_comes_back_as_its_command(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        buttons = ((Button("Allow", "/approve 1 allow-once"), Button("No", "/deny 1")),)
        receipt = await adapter.send(part("May I?", more=Additions(buttons=buttons)))
        card = server.messages[receipt.platform_ids[0]].body["cardsV2"][0]["card"]
        allow, _ = card["sections"][0]["widgets"][0]["buttonList"]["buttons"]
        assert allow["text"] == "Allow"
        action = allow["onClick"]["action"]
        below = {"name": receipt.platform_ids[0]}
        old = {"action": {"actionMethodName": "skerry", "parameters": action["parameters"]}}
        new = {"common": {"parameters": {"command": "/approve 1 allow-once"}}}
        async with running(adapter) as messages:
            for pressed in (old, new):
                event = server.event(type="CARD_CLICKED", message=below, **pressed)
                await post(adapter, event, server.headers())
        assert [message.text for message in messages] == ["/approve 1 allow-once"] * 2
        assert all(message.mentions_me for message in messages)


async def test_a_message_is_edited_in_place(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        receipt = await adapter.send(part("one"))
        await adapter.edit(part("").to, receipt.platform_ids[0], "**two**")
        assert server.texts() == ["*two*"]
        with pytest.raises(DeliveryRefusedError):
            await adapter.edit(part("").to, "spaces/ALICE/messages/gone", "three")


async def test_a_token_that_was_withdrawn_is_replaced(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        await adapter.send(part("one"))
        server.withdrawn = True
        await adapter.send(part("two", number=1))
        assert (server.texts(), server.tokens) == (["one", "two"], 2)


async def test_a_service_account_that_is_refused_needs_a_login(tmp_path: Path) -> None:
    async with GoogleServer(account="another") as server:
        adapter = opened(server, tmp_path)
        state = await adapter.probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login googlechat" in state.remedy
        with pytest.raises(DeliveryDelayedError):
            await adapter.send(part("one"))


async def test_a_key_file_that_is_none_is_named(tmp_path: Path) -> None:
    async with GoogleServer() as server:
        for content in (None, "{}", '{"client_email": "x", "private_key": "no key"}'):
            settings = server.settings(tmp_path)
            path = Path(settings["serviceAccountFile"])
            path.unlink() if content is None else path.write_text(content)
            account = GoogleChatAccount.model_validate(settings)
            with pytest.raises(ValueError, match=r"service-account\.json"):
                open_account(account, ChannelHost(HERE, SystemClock()))


async def test_uploaded_files_are_fetched_and_those_of_drive_are_not_named(tmp_path: Path) -> None:
    uploaded = {
        "contentName": "sea.png",
        "contentType": "image/png",
        "attachmentDataRef": {"resourceName": "ABC/def=="},
    }
    drive = {"contentName": "plan", "driveDataRef": {"driveFileId": "1"}, "source": "DRIVE_FILE"}
    message = read("", message={"attachment": [uploaded, drive]})
    assert message is not None
    (file,) = message.attachments
    assert (file.kind, file.name, file.mime) == (AttachmentKind.IMAGE, "sea.png", "image/png")
    async with GoogleServer() as server:
        adapter = opened(server, tmp_path)
        server.files["ABC/def=="] = b"x" * 100
        assert await adapter.fetch(file, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(file, 10)
        with pytest.raises(MediaError, match="cannot be fetched"):
            await adapter.fetch(Attachment(AttachmentKind.FILE, "gone", name="f"), 10)


@pytest.mark.parametrize("audience", ["house", "http://x.example/", "12", "https://x y"])
def test_an_audience_is_a_number_or_an_address(audience: str) -> None:
    with pytest.raises(ValueError, match="audience"):
        GoogleChatAccount.model_validate({"audience": audience})
