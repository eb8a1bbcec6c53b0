"""Decides whether a message of a platform is admitted, before anything is spent on it (pure).

Whatever is in doubt is refused: a sender without an id, a group without an id, a channel without
rules. A pairing admits to direct chats only. Sources: openclaw-behaviour 4.4 and 4.5.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from skerry.model.inbound import InboundMessage, PeerKind

ANY: Final = "*"
GENERAL: Final = "1"
"""Topic of the messages of a group that name none."""


class DmPolicy(StrEnum):
    """Senders who may write in direct chats."""

    PAIRING = "pairing"
    """Senders who are listed or paired; anybody else gets a pairing code."""
    ALLOWLIST = "allowlist"
    """Senders who are listed or paired."""
    OPEN = "open"
    """Everybody."""
    DISABLED = "disabled"
    """Nobody."""


class GroupPolicy(StrEnum):
    """Groups and senders in groups that are read."""

    OPEN = "open"
    """Every group."""
    ALLOWLIST = "allowlist"
    """Groups that are listed, or without a list of groups the listed senders."""
    DISABLED = "disabled"
    """No group."""


class ChannelVerdict(StrEnum):
    """Decision about one message."""

    ADMIT = "admit"
    PAIRED = "paired"
    """Admitted when its sender is paired."""
    REFUSE = "refuse"


class GroupAccess(Struct, frozen=True):
    """Rules of one group of a channel, or of every group (`*`)."""

    enabled: bool = True
    allow_from: frozenset[str] | None = None
    """Senders who may write there; None takes those of the channel."""
    require_mention: bool = True
    """Answers only what is addressed to the agent."""
    system_prompt: str = ""
    """Added to the system prompt in this group."""
    skills: tuple[str, ...] | None = None
    """Names of the skills that are offered in this group; None is all."""
    agent: str = ""
    """Id of the agent that answers there; empty where the bindings say it."""
    topic: str = ""
    """Key of the topic that these rules are of; empty for a whole group."""
    topics: Mapping[str, "GroupAccess"] = MappingProxyType({})
    """Rules by id of a topic, those of the group included; `*` is every topic."""


class AccessRules(Struct, frozen=True):
    """Rules of one account of a channel."""

    path: str = "channels"
    """Key of the configuration that names the account, or its channel."""
    dm: DmPolicy = DmPolicy.PAIRING
    allow_from: frozenset[str] = frozenset()
    """Senders who may write in direct chats; `*` is everybody under `open`."""
    group: GroupPolicy = GroupPolicy.ALLOWLIST
    group_allow_from: frozenset[str] | None = None
    """Senders who may write in groups; None takes `allow_from` where no group is listed."""
    groups: Mapping[str, GroupAccess] = MappingProxyType({})
    history_limit: int | None = None
    """Messages of a group that are kept until the agent is addressed; None takes that of all."""


class ChannelDecision(Struct, frozen=True):
    """Decision with the rule that made it."""

    verdict: ChannelVerdict
    rule: str


def decide(message: InboundMessage, rules: AccessRules, *, is_owner: bool) -> ChannelDecision:
    """Returns whether the message is admitted; a pairing is looked up for `PAIRED` alone."""
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
    # Under a policy that asks, `*` is no sender: only `open` opens.
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
    """Returns the rules of the message's topic, or of its group, or those of every group."""
    group = rules.groups.get(message.peer.id) or rules.groups.get(ANY)
    if group is None or not group.topics:
        return group
    return group.topics.get(message.thread_id or GENERAL) or group.topics.get(ANY) or group


def topic_agent(message: InboundMessage, rules: AccessRules) -> str:
    """Returns the id of the agent that the message's topic names; empty where it names none."""
    group = None if message.peer.kind is PeerKind.DIRECT else group_of(message, rules)
    return group.agent if group else ""


def group_prompt(message: InboundMessage, rules: AccessRules) -> str:
    """Returns the text that the system prompt has in the group of a message beside the usual."""
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
    """Returns whether the sender's id is in a list, as it is or behind `channel:`.

    Names are not looked at: their bearers choose them. An id may itself have a colon.
    """
    names = {message.sender_id, f"{message.channel}:{message.sender_id}"}
    return not names.isdisjoint(entries)
