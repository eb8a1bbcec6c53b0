"""Messages that arrive from a chat platform."""

from enum import StrEnum

from msgspec import Struct, structs

from skerry.model.ids import AccountId, ChannelId


class PeerKind(StrEnum):
    """Kind of a chat."""

    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"


class Peer(Struct, frozen=True):
    """A conversation on a platform; `id` is its id on the platform."""

    kind: PeerKind
    id: str


class AttachmentKind(StrEnum):
    """Kind of a file that is attached to a message."""

    IMAGE = "image"
    AUDIO = "audio"
    """Sound, including voice messages."""
    VIDEO = "video"
    FILE = "file"


class Attachment(Struct, frozen=True):
    """One file that is attached to a message; it is fetched only after the sender was admitted.

    Name, type and size are claims of the platform or the sender.
    """

    kind: AttachmentKind
    handle: str
    """The adapter's reference to the file, for `ports.channel.Fetches.fetch`."""
    mime: str = ""
    """Media type; empty if the platform gives none."""
    name: str = ""
    """File name that the sender chose, or empty."""
    size: int = 0
    """Size in bytes; 0 if unknown."""


class Quoted(Struct, frozen=True):
    """The message to which a message replies, as far as the platform provides it."""

    id: str
    sender_id: str = ""
    sender_name: str = ""
    text: str = ""
    is_me: bool = False
    """True if the account of the gateway wrote it."""


class InboundMessage(Struct, frozen=True):
    """One message from a channel adapter.

    `message_id` is unique in its chat (account, peer, thread). It is empty if the platform has no
    ids; then a repeated message counts as a new one. An edited message has another id than the
    message that it replaces, such as `<id>:<time of the edit>`.
    """

    channel: ChannelId
    account: AccountId
    peer: Peer
    sender_id: str
    text: str
    message_id: str
    received_at: int
    thread_id: str | None = None
    sender_name: str = ""
    """Name that the platform shows; the sender chooses it."""
    sender_username: str = ""
    """Unique name of the sender on the platform, without `@`; the sender may change it."""
    group_name: str = ""
    """Title of the group or channel; its members choose it."""
    mentions_me: bool = False
    """True if the platform marks a mention of the account."""
    mentions: tuple[str, ...] = ()
    """Ids or user names of all people that the platform marks as mentioned."""
    reply: Quoted | None = None
    attachments: tuple[Attachment, ...] = ()
    edited: bool = False
    """True if it replaces an earlier message of the sender."""
    forwarded: bool = False
    """True if the text is a forwarded message of another person: it is untrusted data, and no
    command."""
    passed_on: str = ""
    """Quoted text of other people below `text`, as in a mail; it is untrusted data too."""
    deletes: str = ""
    """Id of an earlier message that was deleted; such an event has no text and no id."""
    parent: Peer | None = None
    """The conversation that contains its thread, if bindings may name the thread as a peer."""
    guild_id: str = ""
    """Server of the group, on Discord."""
    team_id: str = ""
    """Workspace of the conversation, on Slack and MS Teams."""
    roles: tuple[str, ...] = ()
    """Ids of the sender's roles on that server."""
    sent_at: int = 0
    """Time of sending by the platform, in milliseconds since 1970; 0 if unknown."""
    is_verified: bool = True
    """False if the platform does not authenticate `sender_id`, as with most mail: such a sender is
    never the owner."""

    @property
    def sender(self) -> tuple[str, ...]:
        """Returns the typed keys of the sender, in lower case: `id:`, `e164:` and the names."""
        id_ = self.sender_id
        is_number = id_.startswith("+") and id_[1:].isascii() and id_[1:].isdecimal()
        keys = (
            ("id", id_),
            ("e164", id_ if is_number else ""),
            ("username", self.sender_username),
            ("name", self.sender_name),
        )
        return tuple(f"{kind}:{value.strip().lower()}" for kind, value in keys if value.strip())


def well_formed(text: str) -> str:
    """Returns the text with `?` for each unpaired surrogate, which cannot be stored."""
    return text.encode("utf-8", "replace").decode()


def normalized(message: InboundMessage) -> InboundMessage:
    """Returns the message in the form for hooks, routing and the model.

    Texts have no unpaired surrogates, lines end with a line feed, and names are stripped.
    """
    reply = message.reply
    if reply is not None:
        named = _name(reply.sender_name)
        reply = structs.replace(reply, text=_lines(reply.text), sender_name=named)
    return structs.replace(
        message,
        text=_lines(message.text),
        passed_on=_lines(message.passed_on),
        sender_name=_name(message.sender_name),
        sender_username=_name(message.sender_username),
        group_name=_name(message.group_name),
        reply=reply,
    )


def _lines(text: str) -> str:
    return well_formed(text).replace("\r\n", "\n").replace("\r", "\n")


def _name(text: str) -> str:
    return well_formed(text).strip()


class ReplyTo(Struct, frozen=True):
    """Address for the answer to an inbound message; stored with the run."""

    channel: ChannelId
    account: AccountId
    peer: Peer
    message_id: str
    thread_id: str | None = None
    quote: str | None = None
    """Id of the message that the model wants to quote, on platforms with quotes."""
