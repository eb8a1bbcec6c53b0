"""Events of Discord as messages, and Markdown in both directions."""

from typing import Any

import msgspec
import pytest

from skerry.channels.discord import wire
from skerry.channels.discord.markup import DISCORD, gist, plain
from skerry.model.ids import AccountId
from skerry.model.inbound import AttachmentKind, InboundMessage, Peer, PeerKind
from skerry.testing import discord_objects as objects
from skerry.testing.discord_objects import BOT, GUILD, ROOM, THREAD

ME = wire.User(BOT, "house")
DIRECT = wire.DiscordChannel("700", wire.DIRECT)


def read(where: wire.DiscordChannel = DIRECT, content: str = "x", **more: Any) -> InboundMessage:
    message = reading(where, content, **more)
    assert message is not None
    return message


def reading(
    where: wire.DiscordChannel = DIRECT, content: str = "x", **more: Any
) -> InboundMessage | None:
    ada = objects.person("7", "Ada")
    fields = objects.message(objects.snowflake(1), where.id, ada, content) | more
    decoded = wire.message.decode(msgspec.json.encode(fields))
    return wire.inbound(decoded, where, AccountId("default"), ME, 5)


def channel(number: str) -> wire.DiscordChannel:
    fields = objects.channel(number, {"7": "Ada"})
    return wire.conversation.decode(msgspec.json.encode(fields))


def test_a_direct_chat_is_named_by_its_person() -> None:
    message = read(channel("700"))
    assert message.peer == Peer(PeerKind.DIRECT, "7")
    assert (message.sender_id, message.sender_name, message.sender_username) == (
        "7",
        "Ada",
        "user7",
    )
    assert (message.thread_id, message.parent, message.guild_id) == (None, None, "")
    assert message.sent_at == 1_700_000_000_001


def test_a_channel_has_its_server_and_the_roles_of_who_writes() -> None:
    ada = objects.member(None, ("71", "72")) | {"nick": "Captain"}
    message = read(channel(ROOM), member=ada)
    assert (message.peer, message.group_name) == (Peer(PeerKind.CHANNEL, ROOM), "harbour")
    assert (message.guild_id, message.roles) == (GUILD, ("71", "72"))
    assert message.sender_name == "Captain"


def test_a_thread_belongs_to_the_channel_in_which_it_began() -> None:
    message = read(channel(THREAD))
    assert (message.peer, message.thread_id) == (Peer(PeerKind.CHANNEL, ROOM), THREAD)
    assert message.parent == Peer(PeerKind.CHANNEL, ROOM)


def test_mentions_get_their_names_and_ours_before_a_command_is_left_out() -> None:
    me, bob = objects.person(BOT, "house", bot=True), objects.person("8", "Bob")
    message = read(channel(ROOM), f"<@{BOT}> ask <@!8> in <#{ROOM}>", mentions=[me, bob])
    assert message.text == f"@house ask @Bob in #{ROOM}"
    assert (message.mentions_me, message.mentions) == (True, (BOT, "8"))
    assert read(content=f"<@{BOT}> /status", mentions=[me]).text == "/status"
    assert not read(channel(ROOM), "@everyone", mention_everyone=True).mentions_me


def test_a_reply_has_what_it_answers() -> None:
    me = objects.person(BOT, "house", bot=True)
    quoted = objects.message("11", "700", me, "what *was* said")
    reference = {"type": 0, "message_id": "11", "channel_id": "700"}
    message = read(referenced_message=quoted, message_reference=reference, type=19)
    assert message.reply is not None
    assert (message.reply.id, message.reply.text, message.reply.is_me) == (
        "11",
        "what *was* said",
        True,
    )
    gone = read(referenced_message=None, message_reference=reference, type=19)
    assert gone.reply is None


def test_a_forwarded_message_and_a_sticker_are_their_text() -> None:
    snapshot = {"message": {"content": "from elsewhere", "attachments": []}}
    forwarded = read(content="", message_snapshots=[snapshot])
    assert (forwarded.text, forwarded.forwarded) == ("from elsewhere", True)
    assert not read(content="mine").forwarded
    assert read(content="", sticker_items=[{"id": "1", "name": "wave"}]).text == "[sticker: wave]"


def test_files_have_their_kind_and_the_size_that_is_claimed() -> None:
    voice = {"id": "1", "filename": "v.ogg", "size": 9, "content_type": "audio/ogg; codecs=opus"}
    other = {"id": "2", "filename": "f", "size": 8, "url": "https://cdn.discordapp.com/f"}
    message = read(content="", attachments=[voice | {"url": "https://cdn.discordapp.com/v"}, other])
    assert [
        (attachment.kind, attachment.mime, attachment.size) for attachment in message.attachments
    ] == [
        (AttachmentKind.AUDIO, "audio/ogg", 9),
        (AttachmentKind.FILE, "", 8),
    ]


def test_an_edit_is_another_message() -> None:
    edited = read(edited_timestamp="2023-11-15T00:00:00+00:00")
    assert edited.edited
    assert edited.message_id == f"{objects.snowflake(1)}:2023-11-15T00:00:00+00:00"
    assert wire.plain_id(edited.message_id) == objects.snowflake(1)


@pytest.mark.parametrize(
    "more",
    [
        {"author": objects.person("8", "bot", bot=True)},
        {"webhook_id": "5"},
        {"type": 7},
        {"content": ""},
        {"id": "no number"},
        {"author": {}},
    ],
    ids=str,
)
def test_what_no_person_wrote_is_no_message(more: dict[str, Any]) -> None:
    assert reading(**{"content": "x", **more}) is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("**b** *i* ~~s~~ `c*d`", "**b** *i* ~~s~~ `c*d`"),
        ("a_b*c|d", r"a\_b\*c\|d"),
        (r"2\. no list" + "\n# head", "2\\. no list\n\n**head**"),
        ("- one\n- two", "• one\n• two"),
        ("a\n\\> b", "a\n\\> b"),
        ("see https://x.example/a_b_c now_", r"see https://x.example/a_b_c now\_"),
        ("[l](https://x.example/?a=1&b=2)", "[l](https://x.example/?a=1&b=2)"),
        ("[l](https://x.example/a(b))", "l (https://x.example/a(b))"),
        ("[l](javascript:x)", "[l](javascript:x)"),
        ("```py\nx = '*'\n```", "```py\nx = '*'\n```"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\n```"),
        ("> q\n> r", "> q\n> r"),
    ],
)
def test_markdown_is_what_discord_reads(text: str, shown: str) -> None:
    assert DISCORD.render(text) == shown


def test_marks_of_discord_become_plain_text() -> None:
    text = "<:wave:123> <a:spin:45> </status:6> <@&71> <@5> <b> <t:1>"
    assert plain(text, {}, BOT) == ":wave: :spin: /status @&71 @5 <b> <t:1>"


def test_the_gist_of_a_text_survives_what_a_platform_changes() -> None:
    assert gist(r"a\_b  c" + "\n") == gist("a_b c")
    assert gist("abc") != gist("abd")


def test_ids_of_interactions_bound_answers_and_name_no_message() -> None:
    assert (wire.since("act:12"), wire.plain_id("act:12")) == (12, "")
    assert (wire.since("12:2023"), wire.since("")) == (0, 0)
