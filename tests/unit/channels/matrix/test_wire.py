"""Events of Matrix rooms as messages: edits, replies, threads, files, and ignored events."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.channels.matrix.markup import rendered
from skerry.channels.matrix.wire import (
    Members,
    Room,
    RoomEvent,
    inbound,
    quoted,
    read_event,
    reply_id,
    withdrawn,
)
from skerry.model.ids import AccountId
from skerry.model.inbound import InboundMessage, PeerKind

ME, ALICE, BOB = "@me:local", "@alice:local", "@bob:local"
DIRECT = Room(
    "!r:local", msgspec.convert({"joined": {ME: {}, ALICE: {"display_name": "Alice"}}}, Members)
)
GROUP = Room("!g:local", msgspec.convert({"joined": {ME: {}, ALICE: {}, BOB: {}}}, Members), "Crew")


def message(
    content: dict[str, Any], sender: str = ALICE, kind: str = "m.room.message"
) -> RoomEvent:
    return RoomEvent(kind, sender, "$e", 5, content)


def taken(
    content: dict[str, Any], room: Room = DIRECT, sender: str = ALICE
) -> InboundMessage | None:
    return inbound(message(content, sender), room, AccountId("default"), ME, 9, None)


def test_a_room_of_two_is_a_direct_chat_and_one_of_three_a_group() -> None:
    text = {"msgtype": "m.text", "body": "hi"}
    direct, group = taken(text), taken(text, GROUP)
    assert direct is not None
    assert group is not None
    assert (direct.peer.kind, direct.sender_id, direct.sender_name) == (
        PeerKind.DIRECT,
        ALICE,
        "Alice",
    )
    assert (group.peer.kind, group.peer.id, group.group_name) == (
        PeerKind.GROUP,
        "!g:local",
        "Crew",
    )
    assert (direct.sent_at, direct.received_at, direct.message_id) == (5, 9, "$e")


def test_a_redaction_names_the_message_that_is_gone() -> None:
    old: dict[str, Any] = {"redacts": "$old"}
    for content, redacts in ((old, ""), ({}, "$old")):
        redaction = RoomEvent("m.room.redaction", ALICE, "$r", 5, content, redacts=redacts)
        gone = withdrawn(redaction, DIRECT, AccountId("default"), 9)
        assert gone is not None
        assert (gone.deletes, gone.text, gone.peer) == ("$old", "", DIRECT.peer)
    assert withdrawn(message({"redacts": "$old"}), DIRECT, AccountId("default"), 9) is None


def test_mentions_threads_and_edits() -> None:
    thread = {"rel_type": "m.thread", "event_id": "$root", "is_falling_back": True}
    content = {"msgtype": "m.text", "body": "hi", "m.relates_to": thread}
    arrived = taken(content | {"m.mentions": {"user_ids": [ME, BOB]}}, GROUP)
    assert arrived is not None
    assert (arrived.thread_id, arrived.mentions_me, arrived.mentions) == ("$root", True, (ME, BOB))
    edit = {
        "msgtype": "m.text",
        "body": "* new",
        "m.new_content": {"msgtype": "m.text", "body": "new"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$old"},
    }
    edited = taken(edit)
    assert edited is not None
    assert (edited.text, edited.edited, edited.message_id) == ("new", True, "$old:$e")


def test_a_quoted_message_and_its_fall_back() -> None:
    relation = {"m.in_reply_to": {"event_id": "$q"}}
    reply = message(
        {"msgtype": "m.text", "body": "> <@me:local> hi\n\nyes", "m.relates_to": relation}
    )
    assert reply_id(reply) == "$q"
    fall_back = message({"m.relates_to": relation | {"is_falling_back": True}})
    assert not reply_id(fall_back)
    mine = quoted(message({"msgtype": "m.text", "body": "hi"}, ME), DIRECT, ME)
    assert (mine.is_me, mine.text) == (True, "hi")
    arrived = inbound(reply, DIRECT, AccountId("default"), ME, 0, mine)
    assert arrived is not None
    assert arrived.text == "yes"


def test_a_file_and_its_caption() -> None:
    info = {"mimetype": "image/png", "size": 7}
    content = {"msgtype": "m.image", "url": "mxc://local/abc", "info": info}
    named = taken(content | {"body": "a.png"})
    assert named is not None
    (file,) = named.attachments
    assert (named.text, file.handle, file.mime, file.name, file.size) == (
        "",
        "mxc://local/abc",
        "image/png",
        "a.png",
        7,
    )
    captioned = taken(content | {"body": "look", "filename": "a.png"})
    assert captioned is not None
    assert captioned.text == "look"
    assert taken(content | {"url": "https://elsewhere/x", "body": "a.png"}) is None


@pytest.mark.abuse(96)
@pytest.mark.parametrize(
    "address",
    [
        "mxc://../..",
        "mxc://local/..",
        "mxc://../abc",
        "mxc://local/../../v3/sync",
        "mxc://local/..%2F..%2Fv3%2Fsync",
        "mxc://local/a/b",
        "mxc://local/",
        "mxc://user@local/abc",
        "mxc://local/abc?filter=x",
        "mxc://local/abc#x",
    ],
)
def test_an_address_that_leads_elsewhere_at_the_server_names_no_file(address: str) -> None:
    content = {"msgtype": "m.image", "body": "a.png"}
    assert taken(content | {"url": address}) is None
    key = {"kty": "oct", "alg": "A256CTR", "k": "x", "ext": True, "key_ops": []}
    sealed = {"url": address, "key": key, "iv": "x", "hashes": {"sha256": "x"}, "v": "v2"}
    assert taken(content | {"file": sealed}) is None


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"msgtype": "m.notice", "body": "of another program"},
        {"msgtype": "m.text", "body": 7},
        {"msgtype": ["m.text"], "body": "x"},
        {"msgtype": "m.text", "body": ""},
        {"msgtype": "m.image", "body": "x", "url": {"a": 1}},
        {"msgtype": "m.text", "m.relates_to": "x"},
    ],
    ids=str,
)
def test_what_is_no_message_is_passed_over(content: dict[str, Any]) -> None:
    assert taken(content) is None


def test_what_the_account_wrote_itself_is_passed_over() -> None:
    assert taken({"msgtype": "m.text", "body": "hi"}, sender=ME) is None


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
keys = st.sampled_from(
    ["msgtype", "body", "m.relates_to", "m.mentions", "m.new_content", "url", "info", "filename"]
)


@given(st.dictionaries(keys, json | st.sampled_from(["m.text", "m.image", "mxc://a/b"])))
def test_no_content_breaks_it(content: dict[str, Any]) -> None:
    made = read_event(msgspec.json.encode({"type": "m.room.message", "content": content}))
    reply_id(made)
    quoted(made, DIRECT, ME)
    taken(content)


def test_markdown_becomes_html_without_any_of_its_own() -> None:
    assert rendered("plain words") == ""
    assert rendered("**bold**") == "<p><strong>bold</strong></p>"
    assert "<script>" not in rendered("<script>alert(1)</script>")
    assert "javascript:" not in rendered("[x](javascript:alert(1))").partition("href")[2]
    assert "<img" not in rendered("![x](https://tracker.example/p.png)")


@pytest.mark.parametrize("depth", [70, 2000])
def test_an_event_of_many_levels_is_none(depth: int) -> None:
    deep = b'{"type":"m.room.message","content":{"x":%b%b}}' % (b"[" * depth, b"]" * depth)
    with pytest.raises((ValueError, RecursionError)):
        read_event(deep)
