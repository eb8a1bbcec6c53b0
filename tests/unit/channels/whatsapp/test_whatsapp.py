"""The WhatsApp adapter: every kind of message, files, buttons, and late failures."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from skerry.channels.whatsapp import outbound, wire
from skerry.channels.whatsapp.content import UNSUPPORTED
from skerry.channels.whatsapp.markup import MARKUP
from skerry.model.errors import DeliveryRefusedError
from skerry.model.ids import AccountId, RunId
from skerry.model.inbound import Attachment, AttachmentKind, InboundMessage, Peer, PeerKind, ReplyTo
from skerry.model.outbound import PLAIN, Additions, Button, OutboundMedia, OutboundPart, Settlement
from skerry.model.undelivered import DeliveryDelayedError, MediaError
from skerry.ports.channel import ConnectionState, Post
from skerry.replies.splitting import split
from skerry.testing.whatsapp_server import NUMBER, WhatsAppServer
from tests.contract.phones import PostedWhatsApp

TO = ReplyTo(
    wire.CHANNEL, AccountId("default"), Peer(PeerKind.DIRECT, "+491701"), "wamid.1", quote="wamid.0"
)


def part(text: str, more: Additions = PLAIN, number: int = 0) -> OutboundPart:
    return OutboundPart(1, RunId("r"), 0, number, TO, text, more)


def read(kind: str, content: Any, **more: Any) -> InboundMessage | None:
    server = WhatsAppServer()
    number, row = server.message(kind, content, **more)
    contact = {"wa_id": "491701", "profile": {"name": "Ada", "username": "ada1"}}
    body = server.body({"contacts": [contact], "messages": [row]})
    (value,) = wire.values(body)
    message = wire.inbound(wire.message.decode(value.messages[0]), value, AccountId("default"), 5)
    assert message is None or message.message_id.endswith(number)
    return message


@pytest.mark.requirement("channels-adapter-context")
def test_a_message_has_its_sender_its_chat_and_its_names() -> None:
    message = read("text", {"body": "hello"})
    assert message is not None
    assert (message.channel, message.text, message.sender_id) == ("whatsapp", "hello", "+491701")
    assert message.peer == Peer(PeerKind.DIRECT, "+491701")
    assert message.sender == ("id:+491701", "e164:+491701", "username:ada1", "name:ada")
    assert message.sent_at == 4_000_000_000_000


def test_who_hides_the_number_is_known_by_the_id_for_this_business() -> None:
    message = read("text", {"body": "hello"}, sender="")
    assert message is not None
    assert (message.sender_id, message.peer.id) == ("DE.", "DE.")
    assert not any(key.startswith("e164:") for key in message.sender)


@pytest.mark.parametrize(
    ("kind", "content", "text"),
    [
        ("location", {"latitude": 53.5, "longitude": 10}, "[Location: 53.500000, 10.000000]"),
        (
            "location",
            {"latitude": 1.5, "longitude": 2, "name": "Quay", "address": "Road 1"},
            "[Location: Quay, Road 1 (1.500000, 2.000000)]",
        ),
        (
            "contacts",
            [{"name": {"formatted_name": "Bo"}, "phones": [{"phone": "+1"}], "emails": []}],
            "[Contact: Bo: +1]",
        ),
        ("interactive", {"type": "list_reply", "list_reply": {"id": "/new", "title": "x"}}, "/new"),
        ("button", {"text": "Yes", "payload": "/restart"}, "Yes"),
        (
            "order",
            {"product_items": [{"product_retailer_id": "p", "quantity": 2}]},
            "[Order: 2 x p]",
        ),
        ("unsupported", {}, UNSUPPORTED),
    ],
    ids=str,
)
def test_each_kind_of_message_has_words(kind: str, content: Any, text: str) -> None:
    message = read(kind, content)
    assert message is not None
    assert message.text == text


@pytest.mark.parametrize(
    ("kind", "mime", "attachment"),
    [
        ("image", "image/jpeg", AttachmentKind.IMAGE),
        ("audio", "audio/ogg; codecs=opus", AttachmentKind.AUDIO),
        ("video", "video/mp4", AttachmentKind.VIDEO),
        ("document", "application/pdf", AttachmentKind.FILE),
        ("document", "image/png", AttachmentKind.IMAGE),
        ("sticker", "image/webp", AttachmentKind.IMAGE),
    ],
)
def test_each_kind_of_file_has_its_handle(kind: str, mime: str, attachment: AttachmentKind) -> None:
    message = read(kind, {"id": "77", "mime_type": mime, "caption": "look", "filename": "a.b"})
    assert message is not None
    (file,) = message.attachments
    assert (file.kind, file.handle, file.mime, file.name) == (
        *(attachment, "77"),
        *(mime.partition(";")[0], "a.b"),
    )
    assert message.text == "look"


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("reaction", {"message_id": "wamid.1", "emoji": "👍"}),
        ("system", {"body": "changed the number", "type": "user_changed_number"}),
        ("revoke", {"original_message_id": "wamid.1"}),
        ("request_welcome", {}),
        ("text", {"body": ""}),
    ],
    ids=str,
)
def test_what_says_nothing_is_no_message(kind: str, content: Any) -> None:
    assert read(kind, content) is None


def test_an_answer_names_what_it_answers_and_an_edit_is_another_message() -> None:
    answer = read("text", {"body": "x"}, context={"id": "wamid.9", "from": NUMBER})
    assert answer is not None
    assert answer.reply is not None
    assert (answer.reply.id, answer.reply.is_me) == ("wamid.9", True)
    new = {"type": "text", "text": {"body": "new"}}
    edit = read("edit", {"original_message_id": "wamid.9", "message": new})
    assert edit is not None
    assert (edit.text, edit.edited, edit.message_id) == ("new", True, "wamid.9:wamid.IN1")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**b** *i* ~~s~~ `c`", "*b* _i_ ~s~ `c`"),
        ("snake_case_name 2 * 3", "snake_case_name 2 * 3"),
        ("\\*not bold\\*", "\u200b*not bold*"),
        ("[l](https://x.example) <https://y.example>", "l (https://x.example) https://y.example"),
        ("```py\nx `y`\n```", "```\nx 'y'\n```"),
        ("> q\n> r", "> q\n> r"),
    ],
)
def test_markdown_becomes_the_markup_of_whatsapp(text: str, shown: str) -> None:
    assert MARKUP.render(text) == shown


@pytest.mark.requirement("channels-whatsapp-chunk-4000")
async def test_a_long_answer_goes_out_in_parts_of_4000_characters_at_most() -> None:
    text = "*word* _next_ " * 900
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        for number, piece in enumerate(split(text, adapter.text_limit, adapter.text_unit)):
            await adapter.send(part(piece, number=number))
        bodies = [app_sent.body["text"]["body"] for app_sent in server.sent]
        assert len(bodies) == 4
        assert max(map(len, bodies)) <= 4000
        assert server.faults == []


async def test_a_part_names_its_chat_its_quote_and_itself() -> None:
    async with WhatsAppServer() as server:
        receipt = await PostedWhatsApp(server).send(part("hello"))
        (sent,) = server.sent
        assert receipt.platform_ids == (sent.id,)
        assert (sent.body["to"], sent.body["recipient_type"]) == ("491701", "individual")
        assert sent.body["context"] == {"message_id": "wamid.0"}
        assert sent.body["biz_opaque_callback_data"] == "r/0/0"


def test_groups_and_hidden_numbers_are_addressed_in_their_own_ways() -> None:
    group = msgspec.structs.replace(TO, peer=Peer(PeerKind.GROUP, "G1"))
    assert outbound.recipient(group) == {"recipient_type": "group", "to": "G1"}
    hidden = msgspec.structs.replace(TO, peer=Peer(PeerKind.DIRECT, "US.1"))
    assert outbound.recipient(hidden) == {"recipient_type": "individual", "recipient": "US.1"}


@pytest.mark.parametrize(("count", "kind"), [(3, "button"), (5, "list"), (11, None)])
async def test_buttons_are_sent_as_far_as_whatsapp_has_them(count: int, kind: str | None) -> None:
    row = tuple(Button(f"Choice {number}", f"/choose {number}") for number in range(count))
    async with WhatsAppServer() as server:
        await PostedWhatsApp(server).send(part("Which?", Additions(buttons=(row,))))
        (sent,) = server.sent
        assert sent.body.get("interactive", {}).get("type") == kind
        assert (sent.text, server.faults) == ("Which?", [])


async def test_a_long_question_is_asked_without_buttons() -> None:
    row = (Button("Allow", "/approve 1 allow-once"),)
    async with WhatsAppServer() as server:
        await PostedWhatsApp(server).send(part("x" * 1025, Additions(buttons=(row,))))
        assert (server.sent[0].body["type"], server.faults) == ("text", [])


@pytest.mark.parametrize(
    ("kind", "mime", "caption", "sent_as"),
    [
        (AttachmentKind.IMAGE, "image/png", "look", "image"),
        (AttachmentKind.IMAGE, "image/webp", "", "document"),
        (AttachmentKind.AUDIO, "audio/ogg; codecs=opus", "", "audio"),
        (AttachmentKind.AUDIO, "audio/ogg", "listen", "document"),
        (AttachmentKind.FILE, "application/pdf", "", "document"),
    ],
)
async def test_a_file_is_uploaded_and_sent_as_what_whatsapp_plays(
    tmp_path: Path, kind: AttachmentKind, mime: str, caption: str, sent_as: str
) -> None:
    (tmp_path / "f").write_bytes(b"data")
    media = OutboundMedia(kind, str(tmp_path / "f"), mime, "f.x")
    async with WhatsAppServer() as server:
        await PostedWhatsApp(server).send(part(caption, Additions(media=media)))
        (sent,) = server.sent
        assert (sent.body["type"], sent.text, server.faults) == (sent_as, caption, [])
        assert server.files[sent.body[sent_as]["id"]] == b"data"


async def test_a_file_that_is_gone_or_has_a_long_caption_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"data")
    media = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "f"))
    gone = OutboundMedia(AttachmentKind.FILE, str(tmp_path / "g"))
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        for text, file in (("x" * 1025, media), ("", gone)):
            with pytest.raises(DeliveryRefusedError):
                await adapter.send(part(text, Additions(media=file)))
        assert server.sent == []


async def test_a_file_is_fetched_with_the_token_from_meta_alone() -> None:
    async with WhatsAppServer() as server:
        server.files["77"] = b"x" * 100
        adapter, file = PostedWhatsApp(server), Attachment(AttachmentKind.FILE, "77", name="f")
        assert await adapter.fetch(file, 1000) == b"x" * 100
        with pytest.raises(MediaError, match="more than 10 bytes"):
            await adapter.fetch(file, 10)
        with pytest.raises(MediaError, match="no such object"):
            await adapter.fetch(Attachment(AttachmentKind.FILE, "../x", name="f"), 10)
        server.faults.clear()
        for elsewhere in (
            "http://127.0.0.1:9/files",
            "https://fbsbx.com.evil.example",
            "http://lookaside.fbsbx.com",
            "http://[",
        ):
            server.file_root = elsewhere
            with pytest.raises(MediaError, match="its address is not one of Meta"):
                await adapter.fetch(file, 1000)


async def test_a_message_is_shown_as_read_while_the_answer_is_written() -> None:
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        await adapter.typing(TO)
        await adapter.typing(msgspec.structs.replace(TO, message_id=""))
        await adapter.react(TO, "👀")
        await adapter.react(TO, "")
        assert server.read == ["wamid.1"]
        assert (server.reactions, server.faults) == ([("wamid.1", "👀"), ("wamid.1", "")], [])


@pytest.mark.parametrize(
    ("code", "error", "words"),
    [
        (131047, DeliveryRefusedError, "24 hours"),
        (131026, DeliveryRefusedError, "blocked"),
        (100, DeliveryRefusedError, "error 100"),
        (131056, DeliveryDelayedError, "error 131056"),
        (80007, DeliveryDelayedError, "error 80007"),
        (131000, DeliveryDelayedError, "error 131000"),
        (190, DeliveryDelayedError, "error 190"),
    ],
)
async def test_each_refusal_is_final_or_not(code: int, error: type[Exception], words: str) -> None:
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        server.fail(code)
        with pytest.raises(error, match=words):
            await adapter.send(part("x"))
        is_lost = adapter.state.state is ConnectionState.NEEDS_LOGIN
        assert is_lost == (code == 190)


async def test_a_rate_limit_of_the_number_holds_back_all_and_that_of_a_person_none() -> None:
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        server.fail(131056)
        with pytest.raises(DeliveryDelayedError):
            await adapter.send(part("x"))
        await adapter.send(part("y"))
        server.fail(130429)
        for _ in range(2):
            with pytest.raises(DeliveryDelayedError):
                await adapter.send(part("z"))
        assert server.texts == ["y"]


async def test_a_token_that_is_refused_needs_a_login() -> None:
    async with WhatsAppServer(revoked=True) as server:
        state = await PostedWhatsApp(server).probe()
        assert state.state is ConnectionState.NEEDS_LOGIN
        assert "skerry channels login whatsapp" in state.remedy


async def test_a_part_whose_answer_was_lost_is_settled_by_its_status() -> None:
    async with WhatsAppServer() as server:
        adapter = PostedWhatsApp(server)
        assert await adapter.settle(part("x")) is Settlement.UNKNOWN
        server.status("sent", "r/0/0")
        server.status("failed", "r/0/1", errors=[{"code": 131000, "title": "no"}])
        for body, headers in server.poster.waiting:
            await adapter.posted(post(body, headers))
        assert await adapter.settle(part("x")) is Settlement.DELIVERED
        assert await adapter.settle(part("x", number=1)) is Settlement.ABSENT


def post(body: bytes, headers: dict[str, str] | Any) -> Post:
    return Post("POST", "", {}, headers, body)
