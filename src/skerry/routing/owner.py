"""Who the owner is on a chat platform (pure). Whatever is in doubt is somebody else."""

from collections.abc import Sequence

from skerry.model.inbound import InboundMessage


def is_owner(message: InboundMessage, owners: Sequence[str]) -> bool:
    """Return whether the sender is one of `owners`, each written `channel:id`.

    The channel is compared whatever its case, the id exactly: on some platforms two persons differ
    in it. A sender without an id is nobody.
    """
    if not message.sender_id:
        return False
    for one in owners:
        channel, _, name = one.partition(":")
        if channel.lower() == message.channel.lower() and name == message.sender_id:
            return True
    return False
