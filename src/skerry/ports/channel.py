"""Protocols of a chat platform's adapter: the required methods, and the optional ones."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from msgspec import Struct

from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Attachment, InboundMessage, ReplyTo
from skerry.model.outbound import OutboundPart, Receipt, Settlement, TextUnit

Inbox = Callable[[InboundMessage], Awaitable[None]]
"""Accepts a message that arrived; returns when the message is stored."""


class ChannelAdapter(Protocol):
    """One account on one platform. The adapter translates and sends; the core stores messages."""

    @property
    def channel(self) -> ChannelId:
        """Returns the platform's name, such as `telegram`."""
        ...

    @property
    def account(self) -> AccountId:
        """Returns the account's name."""
        ...

    @property
    def text_limit(self) -> int:
        """Returns the maximum length of one message, counted in `text_unit`."""
        ...

    @property
    def text_unit(self) -> TextUnit:
        """Returns the unit in which the platform counts the length of a text."""
        ...

    async def run(self, inbox: Inbox) -> None:
        """Receives messages until cancelled.

        Acknowledge a message to the platform only after `inbox` has returned.
        """
        ...

    async def send(self, part: OutboundPart) -> Receipt:
        """Sends one part; returns when the platform has accepted it.

        Raises:
            DeliveryRefusedError: the platform will never accept the part; it is not sent again.
            DeliveryDelayedError: the platform did not accept the part now, and may say when to try
                again. After any other error the core calls `settle`, then sends the part again
                after growing waits.
        """
        ...

    async def typing(self, to: ReplyTo) -> None:
        """Shows for some seconds that an answer is being written; does nothing if it cannot.

        The core logs what it raises and continues.
        """
        ...

    async def settle(self, part: OutboundPart) -> Settlement:
        """Returns whether a part arrived whose sending was interrupted.

        UNKNOWN if the platform cannot be asked.
        """
        ...


class Capabilities(Struct, frozen=True):
    """Features of a platform that its adapter offers; all are off by default."""

    edits: bool = False
    """`Edits`: a sent message can be replaced, so a long answer may grow in one message."""
    reactions: bool = False
    """`Reacts`: the account can react to a message with an emoji to show that it was read."""
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
    """Markdown is translated to the platform's bold text, code and links."""
    late_refusals: bool = False
    """The platform may report later that it did not deliver a part that it had accepted, so a file
    that was sent is kept until it expires."""


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
    """The platform cannot be reached; the adapter tries again after growing waits."""
    NEEDS_LOGIN = "needs-login"
    """The platform refuses the credentials; a person has to log in."""
    STOPPED = "stopped"


class AccountState(Struct, frozen=True):
    """State of one account, for people."""

    state: ConnectionState = ConnectionState.STARTING
    message: str = ""
    """Cause of a state other than `connected`, in a sentence without secrets."""
    remedy: str = ""
    """The next step for a person, or empty."""
    name: str = ""
    """Name of the account on the platform, such as `@house_bot`."""
    about: str = ""
    """Details for people, such as the fingerprint of the account's device."""


STARTING: Final = AccountState()


def account_state(adapter: ChannelAdapter) -> AccountState:
    """Returns the state that the adapter reports; `connected` for one that reports none."""
    state = getattr(adapter, "state", None)
    return state if isinstance(state, AccountState) else AccountState(ConnectionState.CONNECTED)


@runtime_checkable
class Fetches(Protocol):
    """An adapter with `Capabilities.media_in`."""

    async def fetch(self, attachment: Attachment, limit: int) -> bytes:
        """Returns the bytes of a file that was attached to a message.

        Raises:
            MediaError: the file has more than `limit` bytes, does not exist any more, or cannot be
                fetched now.
        """
        ...


@runtime_checkable
class Edits(Protocol):
    """An adapter with `Capabilities.edits`."""

    async def edit(self, to: ReplyTo, platform_id: str, text: str) -> None:
        """Replaces the text of a message that the account sent.

        Raises:
            DeliveryRefusedError: the message was deleted, or cannot be changed any more.
            DeliveryDelayedError: the platform did not accept the change now, and may say when to
                try again.
        """
        ...


@runtime_checkable
class Locates(Protocol):
    """An adapter with `Capabilities.edits` that can look up a message of its account."""

    async def locate(self, part: OutboundPart) -> Receipt | None:
        """Returns the ids of the message that a part became; None if no message is found."""
        ...


@runtime_checkable
class Reacts(Protocol):
    """An adapter with `Capabilities.reactions`."""

    async def react(self, to: ReplyTo, emoji: str) -> None:
        """Sets the account's reaction on the message `to.message_id`; an empty emoji removes it.

        Raises:
            DeliveryRefusedError: the platform has no such reaction, or no such message any more.
        """
        ...


@runtime_checkable
class Probes(Protocol):
    """An adapter that can test its connection and credentials with one request."""

    async def probe(self) -> AccountState:
        """Returns the state after one request to the platform; raises nothing."""
        ...


class Post(Struct, frozen=True):
    """An HTTP request that a platform sends to an account."""

    method: str
    path: str
    """Path below the account's address, without a leading slash; often empty."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Values by name; the names are in lower case."""
    body: bytes


class PostAnswer(Struct, frozen=True):
    """The response to a `Post`."""

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain; charset=utf-8"


@runtime_checkable
class TakesPosts(Protocol):
    """An adapter whose platform sends its events to `/channels/<channel>/<account>`."""

    async def posted(self, post: Post) -> PostAnswer:
        """Answers one request.

        The sender is not authenticated: check the signature of the request first, and answer 401 or
        403 without a valid one. Answer 200 only after the `inbox` of `run` has returned. An
        exception becomes a 503, after which platforms send the event again.
        """
        ...


@runtime_checkable
class ChecksHeaders(Protocol):
    """An adapter with `TakesPosts` whose platform authenticates requests by their headers."""

    async def refuses(self, post: Post) -> PostAnswer | None:
        """Returns the answer that refuses a request; None for a request of the platform.

        `post.body` is empty: the body of a refused request is never read. `posted` checks again.
        """
        ...


class AccountReport(Struct, frozen=True):
    """One account that is configured, or that a plugin registered."""

    channel: str
    account: str
    label: str
    """Name of the platform for people."""
    state: AccountState
    is_configured: bool = True
    """False for an account of a plugin, which is not in `channels` of the configuration."""
    is_enabled: bool = True
    last_inbound_at: int = 0
    """Time of the last message, in milliseconds since 1970; 0 if none arrived since the start."""
    offers: Capabilities = NO_CAPABILITIES
    webhook: str = ""
    """Path at which the gateway accepts posts for the account; empty if it accepts none."""


class Channels(Protocol):
    """The accounts of all platforms, for gateway methods."""

    def reports(self) -> list[AccountReport]:
        """Returns every account, including those of plugins and disabled ones."""
        ...

    async def probe(self, channel: str, account: str) -> AccountState:
        """Returns the state of an account, after one request if its adapter has `Probes`.

        A platform that does not answer in time makes the state `retrying`. The state is `stopped`
        if no such account is connected.
        """
        ...

    def restart(self, channel: str, account: str) -> None:
        """Disconnects an account and connects it again, in the background.

        Raises:
            KeyError: no such account is configured.
        """
        ...

    def adapter(self, channel: str, account: str) -> ChannelAdapter | None:
        """Returns the adapter of an account; None if no such account is connected."""
        ...

    def parts(self, to: ReplyTo, text: str) -> list[str]:
        """Splits a text into parts that fit the platform's limit."""
        ...

    def wake(self, to: ReplyTo) -> None:
        """Wakes the account's sender because a row was added to its outbox."""
        ...
