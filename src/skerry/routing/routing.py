"""Decides which agent and which session an inbound message belongs to (pure).

Until bindings and scopes are configurable, everything goes to the default agent: the direct chats
of an account each have a session of their own, and so does every group. A stranger never lands in
the owner's `main` (decisions 6, dmScope).
"""

from skerry.model.ids import AgentId, SessionKey
from skerry.model.inbound import InboundMessage, PeerKind


def session_key(message: InboundMessage, agent: AgentId) -> SessionKey:
    """Return the key of the conversation that the message belongs to.

    Source: openclaw-behaviour 2.1, `per-channel-peer`.
    """
    key = f"agent:{agent}:{message.channel}:{message.peer.kind}:{message.peer.id}"
    if message.peer.kind is not PeerKind.DIRECT and message.thread_id:
        key += f":thread:{message.thread_id}"
    return SessionKey.parse(key)
