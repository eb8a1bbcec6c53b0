"""Protocols of a chat platform's adapter: what every one does, and what some can do besides."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Attachment, InboundMessage, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit

Inbox = Callable[[InboundMessage], Awaitable[None]]


class ChannelAdapter(Protocol):
    """One account on one platform. Maps and sends; the core keeps what must not be lost."""

    @property
    def channel(self) -> ChannelId:
        """Returns the platform's name."""
        ...

    @property
    def account(self) -> AccountId:
        """Returns the account's name."""
        ...

    @property
    def text_limit(self) -> int:
        """Returns the most that one message may have, in `text_unit`."""
        ...

    @property
    def text_unit(self) -> TextUnit:
        """Returns in what the platform counts."""
        ...

    async def run(self, inbox: Inbox) -> None:
        """Receives until cancelled. Acknowledge a message only after `inbox` has returned."""
        ...

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; returns when the platform has taken it.

        Raises:
            DeliveryRefusedError: it never will, so nobody tries again.
            DeliveryDelayedError: it did not take the part now, and may say when to try again. After
                any other error the part is settled and tried again, later and later.
        """
        ...

    async def typing(self, to: ReplyTo) -> None:
        """Shows for some seconds that an answer is being written; does nothing if it cannot.

        What it raises is noted and harms nobody.
        """
        ...

    async def settle(self, part: OutboundPart) -> Settlement:
        """Says whether a part arrived whose sending was interrupted; UNKNOWN where nobody can."""
        ...


class Capabilities(Struct, frozen=True):
    """Features of a platform that its adapter offers; an adapter that names none has none."""

    edits: bool = False
    """`Edits`: a sent message can be replaced, so a long answer may grow in one message."""
    reactions: bool = False
    """`Reacts`: a message can get an emoji as a sign that it was read."""
    buttons: bool = False
    """`Additions.buttons` are shown; presses arrive as messages."""
    threads: bool = False
    """`thread_id` names a conversation within a conversation."""
    media_in: bool = False
    """`Fetches`: files that arrive can be fetched."""
    media_out: bool = False
    """`Additions.media` is sent."""
    polls: bool = False
    """`Additions.poll` is sent."""
    rich_text: bool = False
    """Markdown becomes what the platform shows as bold, code and links."""
    late_refusals: bool = False
    """The platform may say later that it did not deliver a part that it took: so a file that was
    sent is kept until it expires."""


NO_CAPABILITIES: Final = Capabilities()


def capabilities(adapter: ChannelAdapter) -> Capabilities:
    """Returns the features that the adapter offers besides text."""
    offered = getattr(adapter, "capabilities", NO_CAPABILITIES)
    return offered if isinstance(offered, Capabilities) else NO_CAPABILITIES


class ConnectionState(StrEnum):
    """State of an account's connection to its platform."""

    STARTING = "starting"
    CONNECTED = "connected"
    RETRYING = "retrying"
    """The platform cannot be reached; the adapter tries again, later and later."""
    NEEDS_LOGIN = "needs-login"
    """The platform refuses the credentials; only a person can help."""
    STOPPED = "stopped"


class AccountState(Struct, frozen=True):
    """State of one account, as people read it."""

    state: ConnectionState = ConnectionState.STARTING
    message: str = ""
    """Cause of a state other than `connected`, in a sentence; never has a secret."""
    remedy: str = ""
    """The next step for a person, or empty."""
    name: str = ""
    """Name of the account on the platform, such as `@house_bot`."""
    about: str = ""
    """More about it for people, such as the fingerprint of its device."""


STARTING: Final = AccountState()


def account_state(adapter: ChannelAdapter) -> AccountState:
    """Returns the state that the adapter reports; `connected` for one that reports none."""
    state = getattr(adapter, "state", None)
    return state if isinstance(state, AccountState) else AccountState(ConnectionState.CONNECTED)


@runtime_checkable
class Fetches(Protocol):
    """An adapter with `Capabilities.media_in`."""

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that came with a message.

        Raises:
            MediaError: it has more than `limit` bytes, is gone, or cannot be fetched now.
        """
        ...


@runtime_checkable
class Edits(Protocol):
    """An adapter with `Capabilities.edits`."""

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message that the account sent.

        Raises:
            DeliveryRefusedError: the message is gone or can no longer be changed.
            DeliveryDelayedError: the platform says when to try again.
        """
        ...


@runtime_checkable
class Locates(Protocol):
    """An adapter with `Capabilities.edits` that finds a message of its account again."""

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the ids of the message that a part became; None where none is found."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """An adapter with `Capabilities.reactions`."""

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the account's reaction on the message `to.message_id`; an empty emoji removes it.

        Raises:
            DeliveryRefusedError: the platform has no such reaction, or the message is gone.
        """
        ...


@runtime_checkable
class Probes(Protocol):
    """An adapter that can ask its platform who it is."""

    async def probe(self) -> AccountState:
        """Returns the state after one question to the platform; raises nothing."""
        ...


class Post(Struct, frozen=True):
    """An HTTP request that a platform sends to an account."""

    method: str
    path: str
    """Path beneath the account's address, without a slash at its begin; often empty."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Values by name, in small letters."""
    body: bytes


class PostAnswer(Struct, frozen=True):
    """The response to it."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@runtime_checkable
class TakesPosts(Protocol):
    """An adapter whose platform sends its events to `/channels/<channel>/<account>`."""

    async def posted(self, post: Post) -> PostAnswer:
        """Answers one request.

        Nothing before this has asked who sends it: check its signature before all else, and answer
        401 or 403 without one. Answer 200 only after the `inbox` of `run` has returned; what is
        raised becomes a 503, after which platforms send the event again.
        """
        ...


@runtime_checkable
class ChecksHeaders(Protocol):
    """An adapter with `TakesPosts` whose platform proves itself in the headers of a request."""

    async def refuses(self, post: Post) -> PostAnswer | None:
        """Returns the answer to a request that the platform does not prove; None for its own.

        `post` has no body yet: that of a stranger is never read. `posted` checks again.
        """
        ...


class AccountReport(Struct, frozen=True):
    """One account that the gateway has or should have."""

    channel: str
    account: str
    label: str
    """Name of the platform for people."""
    state: AccountState
    is_configured: bool = True
    """False for an account of a plugin, which `channels` of the configuration does not have."""
    is_enabled: bool = True
    last_inbound_at: int = 0
    """Time of the last message, in milliseconds since 1970; 0 is none since the start."""
    offers: Capabilities = NO_CAPABILITIES
    webhook: str = ""
    """Path of the gateway at which it takes posts; empty for one that takes none."""


class Channels(Protocol):
    """The accounts of all platforms, as methods use them."""

    def reports(self) -> list[AccountReport]:
        """Returns every account, those of plugins and those that are switched off included."""
        ...

    async def probe(self, channel: str, account: str) -> AccountState:
        """Returns the state after one question to the platform, if its adapter can ask."""
        ...

    def restart(self, channel: str, account: str) -> None:
        """Connects an account anew.

        Raises:
            KeyError: there is no such account of the configuration.
        """
        ...

    def adapter(self, channel: str, account: str) -> ChannelAdapter | None:
        """Returns the adapter of an account."""
        ...

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Cuts a text into parts that the platform takes."""
        ...

    def wake(self, to: ReplyTo) -> None:
        """Tells the account's sender that its outbox has something."""
        ...
