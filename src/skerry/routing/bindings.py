"""Selection of the binding for a message: the most specific, then the first (pure).

Source: openclaw-behaviour 3; decisions 6, "bindings without accountId".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from skerry.config.bindings import Binding, Match, PeerMatch
from skerry.config.root import Config
from skerry.model.ids import AgentId, agent_id
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.policy.channel_access import topic_agent

ANY = "*"
BROADCAST = "broadcast"
_SHARED = frozenset({PeerKind.GROUP, PeerKind.CHANNEL})


class MatchedBy(StrEnum):
    """Specificity of the binding, the most specific first."""

    TOPIC = "topic"
    """The topic's own settings name the agent (`channels.<name>.groups.<id>.topics`)."""
    PEER = "binding.peer"
    PARENT = "binding.peer.parent"
    KIND = "binding.peer.wildcard"
    """A kind of conversation without an id (seed 003)."""
    ROLES = "binding.guild+roles"
    GUILD = "binding.guild"
    TEAM = "binding.team"
    ACCOUNT = "binding.account"
    CHANNEL = "binding.channel"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Source of a message, with the platform ids that bindings can match."""

    channel: str
    account: str
    peer: Peer
    parent: Peer | None = None
    """Conversation that contains the thread."""
    guild_id: str = ""
    team_id: str = ""
    roles: frozenset[str] = frozenset()

    @classmethod
    def of(cls, message: InboundMessage) -> "MessageOrigin":
        """Returns the source of a platform message; a thread with a parent is a peer."""
        peer = message.peer
        if message.parent is not None and message.thread_id:
            peer = Peer(peer.kind, message.thread_id)
        return cls(
            message.channel,
            message.account,
            peer,
            message.parent,
            message.guild_id,
            message.team_id,
            frozenset(message.roles),
        )


@dataclass(frozen=True, slots=True)
class Route:
    """Selected agent, and the kind of binding that selected it."""

    agent: AgentId
    matched_by: MatchedBy


def route(
    origin: MessageOrigin, bindings: Sequence[Binding], agents: Sequence[AgentId], default: AgentId
) -> Route:
    """Returns the agent for a message. A binding to an unknown agent selects the default."""
    tiers = list(MatchedBy)
    best: tuple[int, Binding] | None = None
    for binding in bindings:
        tier = specificity(binding.match, origin)
        if tier is not None and (best is None or tiers.index(tier) < best[0]):
            best = (tiers.index(tier), binding)
    if best is None:
        return Route(default, MatchedBy.DEFAULT)
    agent = agent_id(best[1].agent_id)
    return Route(agent if agent in agents else default, tiers[best[0]])


def broadcast(message: InboundMessage, config: Config) -> tuple[AgentId, ...] | None:
    """Returns the agents of the conversation's broadcast group; None without one."""
    for name in (f"{message.channel}:{message.peer.id}", message.peer.id):
        if message.peer.id and (listed := config.broadcast.get(name)):
            return tuple(dict.fromkeys(map(agent_id, listed)))
    return None


def addressees(message: InboundMessage, config: Config) -> tuple[AgentId, ...]:
    """Returns the agents for a message: those of its broadcast group, or the bound one."""
    listed = broadcast(message, config)
    if listed is not None:
        return listed
    return (chosen(message, config).agent,)


def chosen(message: InboundMessage, config: Config) -> Route:
    """Returns the agent in the settings of the message's topic, else the bound one."""
    agents, section = config.agents, config.channel(message.channel)
    if section is not None and message.peer.kind is not PeerKind.DIRECT:
        rules = section.access_rules(f"channels.{message.channel}", message.account)
        if named := topic_agent(message, rules):
            agent = agent_id(named)
            return Route(agent if agent in agents.ids else agents.default_id, MatchedBy.TOPIC)
    origin = MessageOrigin.of(message)
    return route(origin, config.bindings, agents.ids, agents.default_id)


def specificity(match: Match, origin: MessageOrigin) -> MatchedBy | None:
    """Returns the tier of a match; None unless all of its fields match the origin."""
    fits = (
        match.channel.lower() == origin.channel.lower()
        and match.account_id in {None, ANY, origin.account}
        and match.guild_id in {None, origin.guild_id}
        and match.team_id in {None, origin.team_id}
        and (not match.roles or not origin.roles.isdisjoint(match.roles))
    )
    if not fits:
        return None
    if match.peer is not None:
        return _peer(match.peer, origin)
    if match.guild_id is not None:
        return MatchedBy.ROLES if match.roles else MatchedBy.GUILD
    if match.roles:
        return None  # roles belong to a guild, which the match does not name
    if match.team_id is not None:
        return MatchedBy.TEAM
    return MatchedBy.CHANNEL if match.account_id in {None, ANY} else MatchedBy.ACCOUNT


def _peer(match: PeerMatch, origin: MessageOrigin) -> MatchedBy | None:
    def same(peer: Peer | None) -> bool:
        if peer is None or not peer.id or peer.id != match.id:
            return False
        return _alike(peer.kind, match.kind)

    if same(origin.peer):
        return MatchedBy.PEER
    if same(origin.parent):
        return MatchedBy.PARENT
    if match.id == ANY and _alike(match.kind, origin.peer.kind):
        return MatchedBy.KIND
    return None


def _alike(first: PeerKind, second: PeerKind) -> bool:
    """Returns whether kinds match: a group on one platform is called a channel on another."""
    return first is second or {first, second} == _SHARED
