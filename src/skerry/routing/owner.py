"""Recognises the owner on a chat platform, and decides the rights of senders (pure).

A sender that cannot be identified with certainty is not the owner.
"""

from collections.abc import Sequence

from skerry.config.commands import CommandsConfig
from skerry.model.inbound import InboundMessage, PeerKind
from skerry.model.rights import Rights


def is_owner(message: InboundMessage, owners: Sequence[str]) -> bool:
    """Returns whether the sender is one of `owners`, each in the form `channel:id`.

    Ignores the case of the channel, but not of the id: on some platforms the ids of two persons
    differ only in case. False for a sender without an id, or with an unverified one.
    """
    if not message.sender_id or not message.is_verified:
        return False
    for owner in owners:
        channel, _, name = owner.partition(":")
        if channel.lower() == message.channel.lower() and name == message.sender_id:
            return True
    return False


def rights(message: InboundMessage, config: CommandsConfig) -> Rights:
    """Returns the sender's rights to commands. Source: openclaw-behaviour 4.8.

    If `allowFrom` is set, it alone decides; on a platform that it does not list, no sender has
    rights.
    """
    owns = is_owner(message, config.owner_allow_from)
    if config.allow_from is not None:
        if not _listed(message, config.allow_from):
            return Rights.NONE
        return Rights.OWNER if owns else Rights.LISTED
    if owns:
        return Rights.OWNER
    if config.use_access_groups and message.peer.kind is not PeerKind.DIRECT:
        return Rights.NONE
    return Rights.OPEN


def _listed(message: InboundMessage, allow_from: dict[str, tuple[str, ...]]) -> bool:
    channel, sender = message.channel.lower(), message.sender_id
    by_channel = {name.lower(): listed for name, listed in allow_from.items()}
    listed = by_channel.get(channel, by_channel.get("*", ()))
    if not sender:
        return False
    for sender_name in listed:
        prefix, _, name = sender_name.partition(":")
        # An id may contain a colon, as on Matrix.
        if sender_name in {"*", sender} or (prefix.lower() == channel and name == sender):
            return True
    return False
