"""Events of Slack, and their conversion to messages."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from skerry.channels.slack.markup import mentioned, plain
from skerry.sdk.channel_files import kind_of
from skerry.sdk.channels import (
    AccountId,
    Attachment,
    ChannelId,
    InboundMessage,
    Peer,
    PeerKind,
)

CHANNEL: Final = ChannelId("slack")
_KINDS: Final = {"im": PeerKind.DIRECT, "mpim": PeerKind.GROUP, "group": PeerKind.GROUP}
_TEXT_SUBTYPES: Final = frozenset({"", "file_share", "thread_broadcast", "me_message"})
"""Subtypes of messages that a person wrote."""
_BUTTON: Final = re.compile(rf"skerry-({PeerKind.GROUP}|{PeerKind.CHANNEL})-\d+-\d+")
_STAMP: Final = re.compile(r"\d{1,12}\.\d{1,6}")


class Me(Struct, frozen=True):
    """The app in its workspace, from `auth.test`."""

    user_id: str = ""
    user: str = ""
    bot_id: str = ""
    team_id: str = ""


class File(Struct, frozen=True):
    """A file of a message."""

    url_private: str = ""
    name: str | None = None
    mimetype: str = ""
    size: int = 0


class SlackEvent(Struct, frozen=True):
    """A message or a change of one."""

    type: str = ""
    subtype: str = ""
    channel: str = ""
    channel_type: str = ""
    user: str = ""
    bot_id: str = ""
    text: str = ""
    ts: str = ""
    thread_ts: str = ""
    parent_user_id: str = ""
    files: tuple[File, ...] = ()
    message: "SlackEvent | None" = None
    """The new content, where a message was changed."""
    previous_message: "SlackEvent | None" = None
    edited: dict[str, str] | None = None
    deleted_ts: str = ""


class EventCallback(Struct, frozen=True):
    """The body of an event."""

    event: SlackEvent = SlackEvent()
    team_id: str = ""


class Action(Struct, frozen=True):
    """A button that was pressed."""

    value: str = ""
    action_ts: str = ""
    action_id: str = ""


class Identified(Struct, frozen=True):
    """Anything with an id."""

    id: str = ""
    username: str = ""


class ButtonMessage(Struct, frozen=True):
    """The message that has a button."""

    ts: str = ""
    thread_ts: str = ""


class Interaction(Struct, frozen=True):
    """An act of a person in a message."""

    type: str = ""
    user: Identified = Identified()
    channel: Identified = Identified()
    team: Identified = Identified()
    message: ButtonMessage = ButtonMessage()
    actions: tuple[Action, ...] = ()


class SlashCommand(Struct, frozen=True):
    """A slash command that a person gave."""

    command: str = ""
    text: str = ""
    user_id: str = ""
    user_name: str = ""
    channel_id: str = ""
    channel_name: str = ""
    team_id: str = ""
    trigger_id: str = ""


class SlackUser(Struct, frozen=True):
    """A person of the workspace."""

    real_name: str = ""
    name: str = ""


class UserInfo(Struct, frozen=True):
    """The answer about a person."""

    user: SlackUser = SlackUser()


class Envelope(Struct, frozen=True):
    """One message of Socket Mode."""

    type: str = ""
    envelope_id: str = ""
    payload: Raw = field(default_factory=lambda: Raw(b"{}"))
    reason: str = ""


envelope = msgspec.json.Decoder(Envelope)
callback = msgspec.json.Decoder(EventCallback)
interaction = msgspec.json.Decoder(Interaction)
me = msgspec.json.Decoder(Me)
slash = msgspec.json.Decoder(SlashCommand)
user_info = msgspec.json.Decoder(UserInfo)


def inbound(outer: EventCallback, account: AccountId, bot: Me, now: int) -> InboundMessage | None:
    """Returns the message of an event; None when no person wrote it, or it is empty.

    An `app_mention` repeats a `message` with the same time stamp, so the ledger takes one of them.
    """
    event, edited = outer.event, False
    if event.type == "message" and event.subtype == "message_deleted":
        return _deleted(event, account, now)
    if event.subtype == "message_changed" and event.message is not None:
        changed, before = event.message, event.previous_message
        if before is not None and before.text == changed.text:
            return None  # a preview of a link was added
        edited = True
        place_fields = {"channel": event.channel, "channel_type": event.channel_type}
        event = msgspec.structs.replace(changed, **place_fields)
    if event.type not in {"message", "app_mention"} or event.subtype not in _TEXT_SUBTYPES:
        return None
    if not event.user or event.bot_id or event.user == bot.user_id:
        return None
    files = tuple(_files(event))
    if not _STAMP.fullmatch(event.ts) or not (event.text or files):
        return None
    mentions = mentioned(event.text)
    stamp = (event.edited or {}).get("ts", "") if edited else ""
    return InboundMessage(
        CHANNEL,
        account,
        Peer(_kind(event), event.channel),
        event.user,
        plain(event.text),
        f"{event.ts}:{stamp}" if edited else event.ts,
        now,
        thread_id=event.thread_ts or None,
        mentions_me=bot.user_id in mentions or event.type == "app_mention",
        mentions=mentions,
        attachments=files,
        edited=edited,
        team_id=outer.team_id,
        sent_at=round(float(event.ts) * 1000),
    )


def _deleted(event: SlackEvent, account: AccountId, now: int) -> InboundMessage | None:
    if not _STAMP.fullmatch(event.deleted_ts):
        return None
    peer, sender = Peer(_kind(event), event.channel), (event.previous_message or SlackEvent()).user
    return InboundMessage(CHANNEL, account, peer, sender, "", "", now, deletes=event.deleted_ts)


def _kind(event: SlackEvent) -> PeerKind:
    """Returns the kind of the conversation; a mention does not name it, but its id does."""
    if not event.channel_type:
        return PeerKind.DIRECT if event.channel.startswith("D") else PeerKind.CHANNEL
    return _KINDS.get(event.channel_type, PeerKind.CHANNEL)


def _files(event: SlackEvent) -> Iterator[Attachment]:
    for file in event.files:
        if file.url_private:
            kind = kind_of(file.mimetype)
            name = (file.name or "")[:256]
            yield Attachment(kind, file.url_private, file.mimetype, name, file.size)


def pressed(act: Interaction, account: AccountId, now: int) -> InboundMessage | None:
    """Returns the command of a button that a person pressed."""
    if act.type != "block_actions" or not act.actions or not act.actions[0].value:
        return None
    action, channel = act.actions[0], act.channel.id
    return InboundMessage(
        CHANNEL,
        account,
        Peer(_button_kind(action, channel), channel),
        act.user.id,
        action.value,
        f"act:{action.action_ts}",
        now,
        thread_id=act.message.thread_ts or None,
        sender_username=act.user.username,
        mentions_me=True,
        team_id=act.team.id,
        sent_at=now,
    )


def button_id(kind: PeerKind, row: int, position: int) -> str:
    """Returns the id of a button; it contains the kind of the conversation, as events lack it."""
    return f"skerry-{kind}-{row}-{position}"


def _button_kind(action: Action, channel: str) -> PeerKind:
    """Returns the kind of a button's conversation; by its id for a button without the kind."""
    if channel.startswith("D"):
        return PeerKind.DIRECT
    named = _BUTTON.fullmatch(action.action_id)
    return PeerKind(named[1]) if named is not None else PeerKind.CHANNEL


def commanded(
    slash_command: SlashCommand, account: AccountId, names: frozenset[str], now: int
) -> InboundMessage | None:
    """Returns a slash command as a message.

    A slash command with the name of a gateway command is that command. After any other name, such
    as `/skerry`, the text is a command if its first word names one, else an ordinary message.
    """
    app_command, text = slash_command.command.removeprefix("/").lower(), slash_command.text.strip()
    if app_command in names:
        text = f"/{app_command} {text}".strip()
    elif text.split(maxsplit=1)[:1] and text.split(maxsplit=1)[0].lower() in names:
        text = f"/{text}"
    if not (
        text and slash_command.user_id and slash_command.channel_id and slash_command.trigger_id
    ):
        return None
    return InboundMessage(
        CHANNEL,
        account,
        Peer(_named_kind(slash_command), slash_command.channel_id),
        slash_command.user_id,
        text,
        f"cmd:{slash_command.trigger_id}",
        now,
        sender_username=slash_command.user_name,
        mentions_me=True,
        team_id=slash_command.team_id,
        sent_at=now,
    )


def _named_kind(slash_command: SlashCommand) -> PeerKind:
    """Returns the kind of the conversation by its name: a slash command has no field for it."""
    if slash_command.channel_id.startswith("D") or slash_command.channel_name == "directmessage":
        return PeerKind.DIRECT
    is_group = (
        slash_command.channel_name == "privategroup"
        or slash_command.channel_name.startswith("mpdm-")
    )
    return PeerKind.GROUP if is_group else PeerKind.CHANNEL
