"""Updates of the Bot API as messages: senders, chats and contents."""

from typing import Any

import msgspec
import pytest

from skerry.channels.telegram import wire
from skerry.model.ids import AccountId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind

ME = wire.User(99, is_bot=True, username="House_Bot")
ADA = {"id": 7, "is_bot": False, "first_name": "Ada", "last_name": "L", "username": "ada"}
PRIVATE = {"id": 7, "type": "private"}
GROUP = {"id": -100, "type": "supergroup", "title": "Family"}


def read(**event: Any) -> InboundMessage | None:
    encoded = msgspec.json.encode({"update_id": 1, **event})
    return wire.inbound(wire.update.decode(encoded), AccountId("default"), ME, 5)


def message(**fields: Any) -> dict[str, Any]:
    return {"message_id": 3, "date": 2, "from": ADA, "chat": PRIVATE, **fields}


def entity(text: str, piece: str, kind: str, **more: Any) -> list[dict[str, Any]]:
    before = text[: text.index(piece)].encode("utf-16-le")
    length = len(piece.encode("utf-16-le")) // 2
    return [{"type": kind, "offset": len(before) // 2, "length": length, **more}]


def test_a_text_has_its_sender_and_its_time() -> None:
    read_message = read(message=message(text="hello"))
    assert read_message is not None
    assert read_message.peer == Peer(PeerKind.DIRECT, "7")
    assert (read_message.text, read_message.message_id) == ("hello", "3")
    assert (read_message.sender_id, read_message.sender_name) == ("7", "Ada L")
    assert (read_message.sender_username, read_message.sent_at) == ("ada", 2000)
    assert not read_message.edited


@pytest.mark.abuse(49)
def test_an_edit_is_another_message_and_says_so() -> None:
    edit = read(edited_message=message(text="hullo", edit_date=9))
    assert edit is not None
    assert (edit.message_id, edit.edited, edit.sent_at) == ("3:9", True, 9000)


@pytest.mark.abuse(109)
@pytest.mark.parametrize(
    "mark",
    [
        {"forward_origin": {"type": "hidden_user", "sender_user_name": "Mallory", "date": 1}},
        {"via_bot": {"id": 5, "is_bot": True, "first_name": "gif"}},
    ],
    ids=["forwarded", "of an inline bot"],
)
def test_words_that_somebody_else_wrote_are_marked(mark: dict[str, Any]) -> None:
    passed_on, own = read(message=message(text="/new", **mark)), read(message=message(text="/new"))
    assert passed_on is not None
    assert own is not None
    assert (passed_on.forwarded, own.forwarded) == (True, False)


def test_a_mention_is_found_behind_characters_outside_of_the_basic_plane() -> None:
    text = "👍🏽 hey @house_bot and @other"
    marks = entity(text, "@house_bot", "mention") + entity(text, "@other", "mention")
    asked = read(message=message(text=text, chat=GROUP, entities=marks))
    assert asked is not None
    assert asked.mentions == ("house_bot", "other")
    assert asked.mentions_me
    assert (asked.peer, asked.group_name) == (Peer(PeerKind.GROUP, "-100"), "Family")


def test_a_mention_without_a_user_name_is_found_by_its_id() -> None:
    marks = entity("hey House", "House", "text_mention", user={"id": 99, "first_name": "House"})
    asked = read(message=message(text="hey House", chat=GROUP, entities=marks))
    assert asked is not None
    assert asked.mentions_me


@pytest.mark.parametrize(
    ("text", "heard"),
    [("/stop@House_bot now", "/stop now"), ("/stop", "/stop"), ("/stop@other_bot", None)],
)
def test_a_command_for_another_bot_is_not_ours(text: str, heard: str | None) -> None:
    marks = entity(text, text.split(maxsplit=1)[0], "bot_command")
    command = read(message=message(text=text, chat=GROUP, entities=marks))
    assert (command.text if command else None) == heard


def test_a_reply_to_the_bot_quotes_it() -> None:
    quoted = {"message_id": 2, "chat": GROUP, "text": "42", "from": {"id": 99, "is_bot": True}}
    reply = read(message=message(text="why?", chat=GROUP, reply_to_message=quoted))
    assert reply is not None
    assert reply.reply is not None
    assert (reply.reply.id, reply.reply.text, reply.reply.is_me) == ("2", "42", True)


def test_a_topic_is_a_thread_and_its_first_message_is_no_quote() -> None:
    topic = {"message_thread_id": 40, "is_topic_message": True}
    first = {"message_id": 40, "chat": GROUP, "from": ADA}
    asked = read(message=message(text="x", chat=GROUP, reply_to_message=first, **topic))
    assert asked is not None
    assert (asked.thread_id, asked.reply) == ("40", None)
    reply = read(message=message(text="x", chat=GROUP, message_thread_id=12))
    assert reply is not None
    assert reply.thread_id is None, "the number of a thread of replies is no topic"


def test_files_of_each_kind_are_attachments() -> None:
    sizes = [{"file_id": "s", "file_size": 10}, {"file_id": "l", "file_size": 90}]
    photo = read(message=message(photo=sizes, caption="look"))
    assert photo is not None
    (image,) = photo.attachments
    assert (photo.text, image.handle, image.kind) == ("look", "l", AttachmentKind.IMAGE)
    voice = read(message=message(voice={"file_id": "v", "mime_type": "audio/ogg"}))
    assert voice is not None
    assert (voice.text, voice.attachments[0].kind) == ("", AttachmentKind.AUDIO)
    document = {"file_id": "d", "file_name": "../../etc/passwd", "file_size": 5}
    file = read(message=message(document=document))
    assert file is not None
    assert file.attachments[0].name == "../../etc/passwd", "names are the sender's, as they are"


@pytest.mark.abuse(49)
def test_a_pressed_button_is_the_command_of_who_pressed_it() -> None:
    below = {"message_id": 8, "chat": GROUP, "from": {"id": 99, "is_bot": True}}
    query = {"id": "q1", "from": ADA, "message": below, "data": "/approve x allow-once"}
    pressed = read(callback_query=query)
    assert pressed is not None
    assert (pressed.text, pressed.sender_id) == ("/approve x allow-once", "7")
    assert (pressed.message_id, pressed.peer.id) == ("cb:q1", "-100")
    assert wire.pressed_id(pressed.message_id) == "q1"
    assert wire.plain_id(pressed.message_id) is None


def test_an_anonymous_administrator_writes_as_the_group() -> None:
    bot = {"id": 1087968824, "is_bot": True, "first_name": "Group"}
    fields = message(text="x", chat=GROUP, sender_chat=GROUP) | {"from": bot}
    anonymous = read(message=fields)
    assert anonymous is not None
    assert anonymous.sender_id == "-100"


def test_what_nobody_wrote_is_no_message() -> None:
    assert read(message={"message_id": 1, "chat": GROUP}) is None
    assert read(message=message(chat=GROUP)) is None, "such as a new member"
