"""Builds the session key of a platform message (pure).

Source: openclaw-behaviour 2.1 and 2.2; decisions 6, "dmScope main". Two persons share a
conversation only if the configuration allows it: a missing id, or an id that could be confused with
another, gets a unique part in the key.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

from skerry.config.session import DmScope, Scope, SessionConfig
from skerry.model.ids import AgentId, SessionKey
from skerry.model.inbound import InboundMessage, PeerKind

_PLAIN: Final = re.compile(r"[!-$&-9;-~]+(?::[!-$&-9;-~]+)*")
"""Printable ASCII without spaces and `%`; colons only between other characters."""
_RESERVED: Final = re.compile(r"(^|:)(thread|topic|direct|dm|group|channel)(:|$)", re.IGNORECASE)
"""Reserved words of a session key."""
_MAX_ID_CHARS: Final = 120


def session_key(
    message: InboundMessage, agent: AgentId, config: SessionConfig, *, is_owner: bool
) -> SessionKey:
    """Returns the session key for the message."""
    if config.scope is Scope.GLOBAL:
        return SessionKey.parse("global", agent)
    if message.peer.kind is PeerKind.DIRECT:
        return _direct(message, agent, config, is_owner=is_owner)
    scope = [_part(message.channel), message.peer.kind.value]
    scope.append(_part(message.peer.id) if message.peer.id else _unique_part(message))
    if message.thread_id:
        scope += ["thread", _part(message.thread_id)]
    return _key(agent, scope)


def _direct(
    message: InboundMessage, agent: AgentId, config: SessionConfig, *, is_owner: bool
) -> SessionKey:
    scope = config.dm_scope or (DmScope.MAIN if is_owner else DmScope.PER_CHANNEL_PEER)
    if scope is DmScope.MAIN:
        return SessionKey.main(agent)
    peer = message.peer.id or message.sender_id
    links = config.identity_links
    # On some platforms the peer of a direct chat is a room, not the person.
    if name := _linked(message.channel, peer, links) or _linked(
        message.channel, message.sender_id, links
    ):
        return _key(agent, ["direct", _part(name)])
    part = _part(peer) if peer else _unique_part(message)
    peer_scope = ["direct", part]
    is_linked_name = part in map(_part, config.identity_links)
    if scope is DmScope.PER_PEER and not is_linked_name and peer:
        return _key(agent, peer_scope)
    if scope is DmScope.PER_ACCOUNT_CHANNEL_PEER:
        return _key(agent, [_part(message.channel), _part(message.account), *peer_scope])
    return _key(agent, [_part(message.channel), *peer_scope])


def _linked(channel: str, peer: str, links: Mapping[str, Sequence[str]]) -> str | None:
    """Returns the name of the first person with `channel:peer` in the links; None without one."""
    if not peer:
        return None
    address = f"{channel}:{peer}".lower()
    return next((name for name, ids in links.items() if address in map(str.lower, ids)), None)


def _part(text: str) -> str:
    """Returns an id as part of a key: in lower case, and percent-encoded unless it is plain.

    Ids that differ in more than the case of ASCII letters have different parts.
    """
    if _PLAIN.fullmatch(text) and not _RESERVED.search(text) and len(text) <= _MAX_ID_CHARS:
        return text.lower()
    try:
        quoted = quote(text, safe="", errors="strict").lower()
    except UnicodeEncodeError:  # half of a surrogate pair
        return _hashed(text)
    return quoted if "%" in quoted and len(quoted) <= _MAX_ID_CHARS else _hashed(text)


def _unique_part(message: InboundMessage) -> str:
    """Returns a unique part for a message of an unknown sender."""
    return _hashed(f"{message.channel}\0{message.account}\0{message.message_id}")


def _hashed(text: str) -> str:
    return "%" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _key(agent: AgentId, scope: Sequence[str]) -> SessionKey:
    return SessionKey.parse(":".join(("agent", agent, *scope)))
