"""Messages that arrive from a chat platform."""

from enum import StrEnum

from msgspec import Struct, structs

from skerry.model.ids import AccountId, ChannelId


class PeerKind(StrEnum):
    """The chat's other side."""

    DIRECT = "direct"
    GROUP = "group"
    CHANNEL = "channel"


class Peer(Struct, frozen=True):
    """A conversation on a platform: `id` is the platform's own."""

    kind: PeerKind
    id: str


class AttachmentKind(StrEnum):
    """Kind of a file that comes with a message."""

    IMAGE = "image"
    AUDIO = "audio"
    """Sound, a voice message included."""
    VIDEO = "video"
    FILE = "file"


class Attachment(Struct, frozen=True):
    """One file that comes with a message; its bytes are fetched after the sender was let in.

    The name, the type and the size are what the platform or the sender claims.
    """

    kind: AttachmentKind
    handle: str
    """The adapter's own name of the file, which `ports.channel.Fetches.fetch` takes."""
    mime: str = ""
    """Media type; empty where the platform gives none."""
    name: str = ""
    """File name as the sender gave it; empty where there is none."""
    size: int = 0
    """Bytes; 0 where the platform does not say."""


class Quoted(Struct, frozen=True):
    """The message that a message answers, as far as the platform shows it."""

    id: str
    sender_id: str = ""
    sender_name: str = ""
    text: str = ""
    is_me: bool = False
    """True when the account of the gateway wrote it."""


class InboundMessage(Struct, frozen=True):
    """One message as a channel adapter hands it in.

    `message_id` is unique in its chat (account, peer, thread), which is what platforms promise; an
    empty one says that the platform has none, and then a repeated message is a new one. An edited
    message has another id than the one that it replaces, such as `<id>:<time of the edit>`.
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
    """True when the platform marks a mention of the account."""
    mentions: tuple[str, ...] = ()
    """Ids or user names of all whom the platform marks as mentioned."""
    reply: Quoted | None = None
    attachments: tuple[Attachment, ...] = ()
    edited: bool = False
    """True when it replaces an earlier message of the sender."""
    forwarded: bool = False
    """True when the sender passes on words of somebody else: they are read as data, and give no
    command."""
    passed_on: str = ""
    """Words of others that the sender passes on below `text`, as one quotes in a mail; data too."""
    deletes: str = ""
    """Id of an earlier message that was deleted; such an event has no text and no id."""
    parent: Peer | None = None
    """The conversation in which its thread began, where a binding may name the thread itself."""
    guild_id: str = ""
    """Server of the group, on Discord."""
    team_id: str = ""
    """Workspace of the conversation, on Slack and MS Teams."""
    roles: tuple[str, ...] = ()
    """Ids of the sender's roles on that server."""
    sent_at: int = 0
    """Time at the platform, in milliseconds since 1970; 0 where it says none."""
    is_verified: bool = True
    """False where the platform does not vouch for `sender_id`, as with most mail: whoever it claims
    to be, it is never the owner."""

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
    """Returns the text with `?` for each half of a surrogate pair, which nothing could store."""
    return text.encode("utf-8", "replace").decode()


def normalized(message: InboundMessage) -> InboundMessage:
    """Returns the message as hooks, routing and the model get it.

    Texts can be stored, their lines end with a line feed, and names have no blanks around them.
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
    """The message that a part is to quote where the platform can, because the model said so."""
