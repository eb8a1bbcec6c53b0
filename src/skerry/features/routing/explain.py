"""Finds the agent for a message of a platform, by the rules of message routing."""

from typing import Any

from msgspec import Struct

from skerry.config.root import Config
from skerry.model.ids import AccountId, ChannelId
from skerry.model.inbound import InboundMessage, Peer, PeerKind
from skerry.routing.bindings import BROADCAST, addressees, broadcast, chosen
from skerry.routing.owner import is_owner
from skerry.routing.routing import session_key

KINDS = {"dm": PeerKind.DIRECT, **{kind.value: kind for kind in PeerKind}}


class RoutingQuestion(Struct, frozen=True):
    """A message to route; ids are those of the platform."""

    channel: str
    peer: str
    """`KIND:ID`, with the kinds `direct` (or `dm`), `group` and `channel`."""
    account: str = "default"
    parent: str = ""
    """`KIND:ID` of the conversation in which a thread began."""
    thread: str = ""
    guild: str = ""
    roles: tuple[str, ...] = ()
    team: str = ""
    sender: str = ""
    """Id of the sender; in a direct chat empty means its peer."""


def parsed_peer(text: str) -> Peer:
    """Parses `KIND:ID`.

    Raises:
        ValueError: the kind is unknown, or the id is missing.
    """
    kind, _, id_ = text.partition(":")
    if kind.lower() not in KINDS or not id_:
        kinds = ", ".join(KINDS)
        message = f"{text!r} is not a conversation; write KIND:ID with a kind of {kinds}"
        raise ValueError(message)
    return Peer(KINDS[kind.lower()], id_)


def explain(question: RoutingQuestion, config: Config) -> dict[str, Any]:
    """Returns agent, session key and the kind of binding; a broadcast lists all its agents.

    Raises:
        ValueError: a conversation is not written as `KIND:ID`.
    """
    peer = parsed_peer(question.peer)
    sender = question.sender or (peer.id if peer.kind is PeerKind.DIRECT else "")
    message = InboundMessage(
        ChannelId(question.channel),
        AccountId(question.account),
        peer,
        sender,
        "",
        "",
        0,
        question.thread or None,
        parent=parsed_peer(question.parent) if question.parent else None,
        guild_id=question.guild,
        team_id=question.team,
        roles=question.roles,
    )
    owns = is_owner(message, config.commands.owner_allow_from)
    listed = addressees(message, config)
    keys = [str(session_key(message, agent, config.session, is_owner=owns)) for agent in listed]
    is_broadcast = broadcast(message, config) is not None
    answer: dict[str, Any] = {
        "agentId": listed[0],
        "sessionKey": keys[0],
        "matchedBy": BROADCAST if is_broadcast else chosen(message, config).matched_by.value,
    }
    if is_broadcast:
        pairs = zip(listed, keys, strict=True)
        answer["agents"] = [{"agentId": agent, "sessionKey": key} for agent, key in pairs]
    return answer
