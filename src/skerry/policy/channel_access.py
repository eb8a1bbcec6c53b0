"""Decides whether a message of a platform is admitted, before any other work on it (pure).

Doubtful messages are refused: a sender without an id, a group without an id, a channel without
rules. A pairing gives access to direct chats only. Sources: openclaw-behaviour 4.4 and 4.5.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.model.inbound import InboundMessage, PeerKind

ANY: Final = "*"
GENERAL: Final = "1"
"""Topic of the messages of a group that have no topic id."""


class DmPolicy(StrEnum):
    """Senders who may write in direct chats."""

    PAIRING = "pairing"
    """Listed and paired senders; any other sender is sent a pairing code."""
    ALLOWLIST = "allowlist"
    """Listed and paired senders."""
    OPEN = "open"
    """Everybody."""
    DISABLED = "disabled"
    """Nobody."""


class GroupPolicy(StrEnum):
    """Groups and senders in groups that are read."""

    OPEN = "open"
    """Every group."""
    ALLOWLIST = "allowlist"
    """Listed groups; without a list of groups, any group, but only listed senders."""
    DISABLED = "disabled"
    """No group."""


class ChannelVerdict(StrEnum):
    """Decision about one message."""

    ADMIT = "admit"
    PAIRED = "paired"
    """Admitted if its sender is paired."""
    REFUSE = "refuse"


class GroupAccess(Struct, frozen=True):
    """Rules of one group of a channel, or of every group (`*`)."""

    enabled: bool = True
    allow_from: frozenset[str] | None = None
    """Senders who may write in the group; None takes those of the channel."""
    require_mention: bool = True
    """Answers only messages that are addressed to the agent."""
    system_prompt: str = ""
    """Text that is added to the system prompt in this group."""
    skills: tuple[str, ...] | None = None
    """Names of the skills that are offered in this group; None is all."""
    agent: str = ""
    """Id of the agent that answers; empty if the bindings decide."""
    topic: str = ""
    """Key of the topic that has these rules; empty for the whole group."""
    topics: Mapping[str, "GroupAccess"] = MappingProxyType({})
    """Rules by topic id, with those of the group merged in; `*` is every topic."""


class AccessRules(Struct, frozen=True):
    """Rules of one account of a channel."""

    path: str = "channels"
    """Configuration key of the account or its channel."""
    dm: DmPolicy = DmPolicy.PAIRING
    allow_from: frozenset[str] = frozenset()
    """Senders who may write in direct chats; `*` is everybody under `open`."""
    group: GroupPolicy = GroupPolicy.ALLOWLIST
    group_allow_from: frozenset[str] | None = None
    """Senders who may write in groups; None takes `allow_from` if no group is listed."""
    groups: Mapping[str, GroupAccess] = MappingProxyType({})
    history_limit: int | None = None
    """Messages of a group that are kept until the agent is addressed; None takes the global
    limit."""


class ChannelDecision(Struct, frozen=True):
    """Decision with the rule that applied."""

    verdict: ChannelVerdict
    rule: str


def decide(message: InboundMessage, rules: AccessRules, *, is_owner: bool) -> ChannelDecision:
    """Returns the decision on a message; only for `PAIRED` the caller looks up the pairing."""
    if not message.sender_id:
        return ChannelDecision(ChannelVerdict.REFUSE, "the sender has no id")
    if message.peer.kind is PeerKind.DIRECT:
        return _direct(message, rules, is_owner=is_owner)
    return _group(message, rules, is_owner=is_owner)


def _direct(message: InboundMessage, rules: AccessRules, *, is_owner: bool) -> ChannelDecision:
    policy = f"{rules.path}.dmPolicy={rules.dm}"
    if rules.dm is DmPolicy.DISABLED:
        return ChannelDecision(ChannelVerdict.REFUSE, policy)
    if is_owner:
        return ChannelDecision(ChannelVerdict.ADMIT, "commands.ownerAllowFrom")
    if rules.dm is DmPolicy.OPEN:
        is_open = ANY in rules.allow_from or listed(message, rules.allow_from)
        return ChannelDecision(ChannelVerdict.ADMIT if is_open else ChannelVerdict.REFUSE, policy)
    # Under the other policies `*` is no sender: only `open` admits everybody.
    if listed(message, rules.allow_from - {ANY}):
        return ChannelDecision(ChannelVerdict.ADMIT, f"{rules.path}.allowFrom")
    return ChannelDecision(ChannelVerdict.PAIRED, policy)


def _group(message: InboundMessage, rules: AccessRules, *, is_owner: bool) -> ChannelDecision:
    policy = f"{rules.path}.groupPolicy={rules.group}"
    if rules.group is GroupPolicy.DISABLED or not message.peer.id:
        return ChannelDecision(ChannelVerdict.REFUSE, policy)
    group = group_of(message, rules)
    if group is not None and not group.enabled:
        topic = f".topics.{group.topic}" if group.topic else ""
        return ChannelDecision(
            ChannelVerdict.REFUSE, f"{rules.path}.groups.{message.peer.id}{topic}.enabled"
        )
    senders = group.allow_from if group else None
    if senders is None:
        senders = rules.group_allow_from
    if rules.group is GroupPolicy.ALLOWLIST and group is None:
        if rules.groups:
            return ChannelDecision(ChannelVerdict.REFUSE, f"{rules.path}.groups: not listed")
        senders = rules.allow_from - {ANY} if senders is None else senders
    if senders is None or ANY in senders or is_owner or listed(message, senders):
        return ChannelDecision(ChannelVerdict.ADMIT, policy)
    return ChannelDecision(ChannelVerdict.REFUSE, f"{rules.path}.groupAllowFrom: not listed")


def group_of(message: InboundMessage, rules: AccessRules) -> GroupAccess | None:
    """Returns the rules of the message's topic, else of its group, else of `*`, or None."""
    group = rules.groups.get(message.peer.id) or rules.groups.get(ANY)
    if group is None or not group.topics:
        return group
    return group.topics.get(message.thread_id or GENERAL) or group.topics.get(ANY) or group


def topic_agent(message: InboundMessage, rules: AccessRules) -> str:
    """Returns the id of the agent that is set for the message's topic; empty without one."""
    group = None if message.peer.kind is PeerKind.DIRECT else group_of(message, rules)
    return group.agent if group else ""


def group_prompt(message: InboundMessage, rules: AccessRules) -> str:
    """Returns the text that is added to the system prompt in the group of a message."""
    group = None if message.peer.kind is PeerKind.DIRECT else group_of(message, rules)
    return group.system_prompt if group else ""


def group_skills(message: InboundMessage, rules: AccessRules) -> tuple[str, ...] | None:
    """Returns the names of the skills that are offered in the group of a message; None is all."""
    group = None if message.peer.kind is PeerKind.DIRECT else group_of(message, rules)
    return group.skills if group else None


def requires_mention(message: InboundMessage, rules: AccessRules) -> bool:
    """Returns whether a message must be addressed to the agent to be answered."""
    if message.peer.kind is PeerKind.DIRECT:
        return False
    group = group_of(message, rules)
    return group is None or group.require_mention


def listed(message: InboundMessage, entries: Iterable[str]) -> bool:
    """Returns whether the sender's id is in a list, with or without the prefix `channel:`.

    Names are ignored, because senders choose them. An id may contain a colon.
    """
    names = {message.sender_id, f"{message.channel}:{message.sender_id}"}
    return not names.isdisjoint(entries)
