"""Parses events of Matrix rooms and converts them to messages."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.matrix import encrypted_files
from skerry.infra.untrusted_json import DEEPEST, is_deep
from skerry.sdk.channels import (
    AccountId,
    Attachment,
    AttachmentKind,
    ChannelId,
    InboundMessage,
    Peer,
    PeerKind,
    Quoted,
)

CHANNEL: Final = ChannelId("matrix")
MESSAGE: Final = "m.room.message"
ENCRYPTED: Final = "m.room.encrypted"
REDACTION: Final = "m.room.redaction"
ENCRYPTION: Final = "m.room.encryption"
MEMBER: Final = "m.room.member"
JOIN_RULES: Final = "m.room.join_rules"
VISIBILITY: Final = "m.room.history_visibility"
ACCESS: Final = (MEMBER, JOIN_RULES, VISIBILITY)
"""States that decide who else may read a room."""
_BY_INVITATION: Final = frozenset({"invite", "knock", "private"})
PART: Final = "skerry.part"
"""Key for the name of the part in the content of a message."""
_MAX_NAME: Final = 256
_KINDS: Final = {
    "m.image": AttachmentKind.IMAGE,
    "m.audio": AttachmentKind.AUDIO,
    "m.video": AttachmentKind.VIDEO,
    "m.file": AttachmentKind.FILE,
}
TYPES: Final = {kind: name for name, kind in _KINDS.items()}
_TEXTS: Final = frozenset({"m.text", "m.emote"})


class RoomEvent(Struct, frozen=True):
    """One event of a room."""

    type: str
    sender: str = ""
    event_id: str = ""
    origin_server_ts: int = 0
    content: dict[str, Any] = field(default_factory=dict)
    unsigned: dict[str, Any] = field(default_factory=dict)
    state_key: str | None = None
    redacts: str = ""

    @property
    def deleted(self) -> str:
        """Returns the redacted event; newer rooms have it in the content."""
        return _text(self.content.get("redacts")) or self.redacts if self.type == REDACTION else ""


class Timeline(Struct, frozen=True):
    """New events of a room; `limited` means that there are more before them."""

    events: tuple[Raw, ...] = ()
    limited: bool = False
    prev_batch: str = ""


class _States(Struct, frozen=True):
    events: tuple[Raw, ...] = ()


class JoinedRoom(Struct, frozen=True):
    """Changes of a room of which the account is a member."""

    timeline: Timeline = Timeline()


class InvitedRoom(Struct, frozen=True):
    """A room to which the account is invited."""

    invite_state: _States = _States()


class _Rooms(Struct, frozen=True):
    join: dict[str, JoinedRoom] = field(default_factory=dict)
    invite: dict[str, InvitedRoom] = field(default_factory=dict)


class _ToDevice(Struct, frozen=True):
    events: tuple[Raw, ...] = ()


class _DeviceLists(Struct, frozen=True):
    changed: tuple[str, ...] = ()


class Synced(Struct, frozen=True):
    """Response to a sync request."""

    next_batch: str
    rooms: _Rooms = _Rooms()
    to_device: _ToDevice = _ToDevice()
    device_lists: _DeviceLists = _DeviceLists()
    device_one_time_keys_count: dict[str, int] | None = None
    device_unused_fallback_key_types: tuple[str, ...] | None = None


class Page(Struct, frozen=True):
    """Earlier events of a room, newest first."""

    chunk: tuple[Raw, ...] = ()
    end: str = ""


class _Member(Struct, frozen=True):
    display_name: str | None = None


class Members(Struct, frozen=True):
    """Members of a room by id."""

    joined: dict[str, _Member] = field(default_factory=dict)

    def name(self, user: str) -> str:
        """Returns the name that a member chose."""
        member = self.joined.get(user)
        return (member.display_name or "")[:_MAX_NAME] if member else ""


class Me(Struct, frozen=True):
    """Account and device of the access token."""

    user_id: str = ""
    device_id: str = ""


class SentEvent(Struct, frozen=True):
    """The event that a request made."""

    event_id: str = ""


class Uploaded(Struct, frozen=True):
    """The address of an uploaded file."""

    content_uri: str = ""


synced = msgspec.json.Decoder(Synced)
_event = msgspec.json.Decoder(RoomEvent)
page = msgspec.json.Decoder(Page)
members = msgspec.json.Decoder(Members)
me = msgspec.json.Decoder(Me)
sent = msgspec.json.Decoder(SentEvent)
states = msgspec.json.Decoder(tuple[Raw, ...])
uploaded = msgspec.json.Decoder(Uploaded)


def read_event(raw: Raw | bytes) -> RoomEvent:
    """Parses an event of an untrusted sender.

    Raises:
        ValueError: it is no event, or its content has more levels than are kept.
        RecursionError: it has more levels than can be read.
    """
    read = _event.decode(raw)
    if is_deep(read.content) or is_deep(read.unsigned):
        raise ValueError(f"it has more than {DEEPEST} levels")
    return read


class Room(Struct, frozen=True):
    """Fields of a room that its messages need."""

    id: str
    members: Members = Members()
    name: str = ""
    is_open: bool = False
    """True if people who are no members may read it, or join it without a new invitation."""

    @property
    def peer(self) -> Peer:
        """Returns the room as a peer: a direct chat if only two people can read it."""
        is_direct = is_pair(self.members) and not self.is_open
        return Peer(PeerKind.DIRECT if is_direct else PeerKind.GROUP, self.id)


def is_pair(members: Members) -> bool:
    """Returns whether a room has no other members than the account and one person."""
    return len(members.joined) <= 2  # noqa: PLR2004 - the account and one person


def is_open(state: Iterable[RoomEvent]) -> bool:
    """Returns whether people who are no members may read a room, or join it and then read it.

    The creator of a room sets its rules, and may have left it since.
    """
    for event in state:
        value = _text(event.content.get(_ACCESS_FIELDS.get(event.type, "")))
        match event.type:
            case "m.room.join_rules" if value not in _BY_INVITATION:
                return True
            case "m.room.history_visibility" if value == "world_readable":
                return True
            case "m.room.member" if value == "invite":
                return True
    return False


_ACCESS_FIELDS: Final = {
    JOIN_RULES: "join_rule",
    VISIBILITY: "history_visibility",
    MEMBER: "membership",
}


def inbound(
    message: RoomEvent, room: Room, account: AccountId, my_id: str, now: int, reply: Quoted | None
) -> InboundMessage | None:
    """Returns the message of an event; None if it is not a message of a person."""
    if message.type != MESSAGE or message.sender == my_id or not message.event_id:
        return None
    relation = _mapping(message.content.get("m.relates_to"))
    is_edit = relation.get("rel_type") == "m.replace"
    content = _mapping(message.content.get("m.new_content")) if is_edit else message.content
    kind = _text(content.get("msgtype"))
    files = _files(content, kind)
    text = _body(content, kind, is_reply=reply is not None)
    if not (text or files):
        return None
    original = _text(relation.get("event_id")) if is_edit else ""
    mentioned = _mapping(content.get("m.mentions")).get("user_ids")
    mentions = tuple(map(str, mentioned)) if isinstance(mentioned, list) else ()
    thread = relation.get("rel_type") == "m.thread"
    return InboundMessage(
        CHANNEL,
        account,
        room.peer,
        message.sender,
        text,
        f"{original}:{message.event_id}" if is_edit else message.event_id,
        now,
        thread_id=_text(relation.get("event_id")) or None if thread else None,
        sender_name=room.members.name(message.sender),
        group_name=room.name[:_MAX_NAME],
        mentions_me=my_id in mentions,
        mentions=mentions,
        reply=reply,
        attachments=files,
        edited=is_edit,
        sent_at=message.origin_server_ts,
    )


def withdrawn(
    message: RoomEvent, room: Room, account: AccountId, now: int
) -> InboundMessage | None:
    """Returns the deletion of a message; None for another event."""
    if not message.deleted:
        return None
    return InboundMessage(
        CHANNEL, account, room.peer, message.sender, "", "", now, deletes=message.deleted
    )


def reply_id(message: RoomEvent) -> str:
    """Returns the id of the answered message; empty for none.

    In a thread the reference to the last message is only for programs that know no threads.
    """
    relation = _mapping(message.content.get("m.relates_to"))
    if relation.get("is_falling_back") is True:
        return ""
    return _text(_mapping(relation.get("m.in_reply_to")).get("event_id"))


def quoted(message: RoomEvent, room: Room, my_id: str) -> Quoted:
    """Returns a message as a quote."""
    text = _body(message.content, _text(message.content.get("msgtype")), is_reply=True)
    name = room.members.name(message.sender)
    return Quoted(message.event_id, message.sender, name, text, message.sender == my_id)


def _body(content: Mapping[str, Any], kind: str, *, is_reply: bool) -> str:
    text = _text(content.get("body"))
    if kind in _KINDS:  # a caption is a body beside a file name
        name = _text(content.get("filename"))
        return text if name and name != text else ""
    if kind not in _TEXTS:
        return ""
    if is_reply and text.startswith("> <"):
        lines = text.splitlines()
        while lines and lines[0].startswith(">"):
            lines.pop(0)
        text = "\n".join(lines).strip()
    return text


def _files(content: Mapping[str, Any], kind: str) -> tuple[Attachment, ...]:
    encrypted = encrypted_files.parsed(content["file"]) if "file" in content else None
    address = encrypted_files.handle(encrypted) if encrypted else _text(content.get("url"))
    if kind not in _KINDS or not (encrypted or encrypted_files.is_address(address)):
        return ()
    info = _mapping(content.get("info"))
    size = info.get("size")
    name = _text(content.get("filename")) or _text(content.get("body"))
    return (
        Attachment(
            _KINDS[kind],
            address,
            _text(info.get("mimetype"))[:_MAX_NAME],
            name[:_MAX_NAME],
            size if isinstance(size, int) and size > 0 else 0,
        ),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
