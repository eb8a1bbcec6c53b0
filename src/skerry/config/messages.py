"""Section `messages`: what happens to messages that come during a run, and to replies."""

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
    """`collect`: what comes meanwhile becomes one later prompt. `steer`: it enters the present run
    after the current tool call. `followup`: each has a later turn of its own. `steer-backlog`: both
    of these. `interrupt`: it stops the present run."""
    by_channel: dict[str, Mode] = Field(default_factory=dict, max_length=100)
    """The mode of single channels: `telegram`, `webchat`."""
    debounce_ms: Debounce = 1000
    """Milliseconds without a new message before the queued messages are processed."""
    debounce_ms_by_channel: dict[str, Debounce] = Field(default_factory=dict, max_length=100)
    """The same for single channels."""
    cap: int = Field(default=20, ge=1, le=MAX_CAP)
    """Messages of a session that may wait."""
    drop: DropPolicy = DropPolicy.SUMMARIZE
    """Policy for a full queue: `old` drops the oldest message, `new` rejects the newest,
    `summarize` keeps a line of each of the oldest for the model."""

    def rules(
        self, channel: str, settings: SessionSettings | None = None, mode: QueueMode | None = None
    ) -> QueueRules:
        """Returns the rules for a message of `mode`, else of its session, its channel, or any.

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
    """Handling of a part that was being sent when the gateway died, where the platform cannot be
    asked: `notice` tells the person that a part may be missing and keeps it for `skerry outbox`;
    `repeat` sends it once more with a mark."""
    notify_owner: str | None = Field(default=None, max_length=400, pattern=_OWNER)
    """Chat in which you read that a reply could not be delivered elsewhere: `CHANNEL:PERSON`, or
    `CHANNEL/ACCOUNT:PERSON`, such as `telegram:42`."""

    @property
    def owner(self) -> ReplyTo | None:
        """Returns the chat of `notifyOwner`; None where it is not set."""
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
    """Regular expressions, whatever the case of letters. Without them the name of the agent and its
    emoji; an empty list recognises only what the platform marks, and replies."""


class GroupChatConfig(MentionConfig):
    """Handling of groups."""

    history_limit: int = Field(default=50, ge=0, le=1000)
    """Messages of a group that are kept until the agent is addressed; 0 keeps none."""


class InboundConfig(OpenSection):
    """Joining of messages that a person writes in quick succession on a platform."""

    debounce_ms: Debounce = 0
    """Milliseconds without a further message of its sender for which a message without a file or a
    command waits; those that waited become one message. 0 joins none."""
    by_channel: dict[str, Debounce] = Field(default_factory=dict, max_length=100)
    """The same for single channels."""

    def seconds(self, channel: str) -> float:
        """Returns the pause for a channel."""
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
    """Emoji that a message gets as a sign that it was taken, such as `👀`; on platforms that have
    reactions. Without it none does."""
    ack_reaction_scope: AckScope = AckScope.GROUP_MENTIONS
    """Messages that get it: `group-mentions` those of groups that mention the agent where it must
    be mentioned, `group-all` all of groups that are answered, `direct` those of direct chats, `all`
    both, `off` none."""
    remove_ack_after_reply: bool = False
    """Removes it when the answer was sent."""

    inbound: InboundConfig = InboundConfig.model_construct()

    group_chat: GroupChatConfig = GroupChatConfig.model_construct()

    queue: QueueConfig = QueueConfig.model_construct()
    response_prefix: str = Field(default="", max_length=200)
    """Text before every answer on a platform. `{model}`, `{provider}`, `{thinkingLevel}` and
    `{identity.name}` are filled in."""
    delivery: DeliveryConfig = DeliveryConfig.model_construct()
