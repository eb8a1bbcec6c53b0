"""Section `messages`: handling of messages that arrive during a run, and of replies."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field

from skerry.config.base import OpenSection
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.queue import DropPolicy, QueueMode, QueueRules, queue_mode
from skerry.model.session import SessionSettings

MAX_DEBOUNCE_MS = 60_000
MAX_CAP = 1000


def _mode(value: object) -> object:
    return queue_mode(value) if isinstance(value, str) else value


def _compiles(value: str) -> str:
    # Imported here: few configurations have patterns.
    from skerry.infra.linear_patterns import compiled  # noqa: PLC0415 - at first use

    compiled(value)
    return value


Mode = Annotated[QueueMode, BeforeValidator(_mode)]
Debounce = Annotated[int, Field(ge=0, le=MAX_DEBOUNCE_MS)]


class QueueConfig(OpenSection):
    """Handling of a message that arrives during a run of its session."""

    mode: Mode = QueueMode.COLLECT
    """`collect`: all waiting messages become one later prompt. `steer`: the message enters the
    active run after the current tool call. `followup`: each message gets a separate later turn.
    `steer-backlog`: both `steer` and `followup`. `interrupt`: the message stops the active run."""
    by_channel: dict[str, Mode] = Field(default_factory=dict, max_length=100)
    """Mode by channel, such as `telegram` or `webchat`; it overrides `mode`."""
    debounce_ms: Debounce = 1000
    """Milliseconds without a new message before the queued messages are processed."""
    debounce_ms_by_channel: dict[str, Debounce] = Field(default_factory=dict, max_length=100)
    """`debounceMs` by channel."""
    cap: int = Field(default=20, ge=1, le=MAX_CAP)
    """Maximum number of waiting messages of a session."""
    drop: DropPolicy = DropPolicy.SUMMARIZE
    """Policy for a full queue: `old` drops the oldest message, `new` rejects the newest,
    `summarize` drops the oldest and keeps one line of each for the model."""

    def rules(
        self, channel: str, settings: SessionSettings | None = None, mode: QueueMode | None = None
    ) -> QueueRules:
        """Returns the queue rules for a message.

        The mode is `mode`, else that of the session, of the channel, or of the configuration.

        Source: openclaw-behaviour 5.2.
        """
        settings = settings or SessionSettings()
        debounce = settings.queue_debounce_ms
        if debounce is None:
            debounce = self.debounce_ms_by_channel.get(channel, self.debounce_ms)
        return QueueRules(
            mode or settings.queue_mode or self.by_channel.get(channel, self.mode),
            debounce,
            settings.queue_cap or self.cap,
            settings.queue_drop or self.drop,
        )


_OWNER: Final = r"^[A-Za-z0-9_-]+(/[^:/]+)?:.+$"


class UnknownDelivery(StrEnum):
    """Handling of a part whose delivery is uncertain."""

    NOTICE = "notice"
    REPEAT = "repeat"


class DeliveryConfig(OpenSection):
    """Delivery of replies to a platform."""

    unknown: UnknownDelivery = UnknownDelivery.NOTICE
    """Handling of a part that was being sent when the gateway died, on platforms that cannot be
    asked whether it arrived: `notice` sends a notice that a part may be missing and keeps the part
    for `skerry outbox`; `repeat` sends the part again with a mark."""
    notify_owner: str | None = Field(default=None, max_length=400, pattern=_OWNER)
    """Chat that is notified if a reply could not be delivered elsewhere: `CHANNEL:PERSON` or
    `CHANNEL/ACCOUNT:PERSON`, such as `telegram:42`."""

    @property
    def owner(self) -> ReplyTo | None:
        """Returns the chat of `notifyOwner`; None if it is not set."""
        if self.notify_owner is None:
            return None
        address, _, person = self.notify_owner.partition(":")
        channel, _, account = address.partition("/")
        peer = Peer(PeerKind.DIRECT, person)
        return ReplyTo(ChannelId(channel), AccountId(account or "default"), peer, "")


Pattern = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_compiles)]


class MentionConfig(OpenSection):
    """Recognition of messages that are addressed to an agent."""

    mention_patterns: tuple[Pattern, ...] | None = Field(default=None, max_length=50)
    """Regular expressions, without regard to case, that recognise a mention. When unset, the name
    and emoji of the agent; with an empty list only mentions and replies of the platform count."""


class GroupChatConfig(MentionConfig):
    """Handling of messages in groups."""

    history_limit: int = Field(default=50, ge=0, le=1000)
    """Messages of a group that are kept until the agent is addressed; 0 keeps none."""


class InboundConfig(OpenSection):
    """Joining of messages that a person writes in quick succession on a platform."""

    debounce_ms: Debounce = 0
    """Milliseconds for which a message waits for the next one of the same sender; messages that
    waited are joined. Messages with a file or a command do not wait. 0 joins none."""
    by_channel: dict[str, Debounce] = Field(default_factory=dict, max_length=100)
    """`debounceMs` by channel."""

    def seconds(self, channel: str) -> float:
        """Returns the waiting time for a channel, in seconds."""
        return self.by_channel.get(channel, self.debounce_ms) / 1000


class AckScope(StrEnum):
    """Messages that get a reaction."""

    GROUP_MENTIONS = "group-mentions"
    GROUP_ALL = "group-all"
    DIRECT = "direct"
    ALL = "all"
    OFF = "off"


class MessagesConfig(OpenSection):
    """Handling of messages."""

    ack_reaction: str = Field(default="", max_length=32)
    """Emoji with which the agent reacts to an accepted message, such as `👀`, on platforms with
    reactions; empty is none."""
    ack_reaction_scope: AckScope = AckScope.GROUP_MENTIONS
    """Messages that get the reaction: `group-mentions` messages that mention the agent in groups
    that require it, `group-all` all answered messages in groups, `direct` messages in direct chats,
    `all` both, `off` none."""
    remove_ack_after_reply: bool = False
    """Removes the reaction when the answer was sent."""

    inbound: InboundConfig = InboundConfig.model_construct()

    group_chat: GroupChatConfig = GroupChatConfig.model_construct()

    queue: QueueConfig = QueueConfig.model_construct()
    response_prefix: str = Field(default="", max_length=200)
    """Text before every answer on a platform. `{model}`, `{provider}`, `{thinkingLevel}` and
    `{identity.name}` are replaced by their values."""
    delivery: DeliveryConfig = DeliveryConfig.model_construct()
