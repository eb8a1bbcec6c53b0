"""Notice to the owner, in another chat, about a part that could not be delivered."""

from typing import Final

from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo
from skerry.model.outbound import OutboundPart
from skerry.store import Unit, outbox

WARNING: Final = "undelivered-"
"""Prefix of the run ids of notices."""
NOT_DELIVERED: Final = (
    "⚠️ A reply to {peer} on {channel}/{account} could not be delivered. To read why: skerry outbox"
    " show {serial}. To send it again: skerry outbox retry {serial}, or the page."
)


def warn_owner(unit: Unit, part: OutboundPart, to: ReplyTo | None, now: int) -> None:
    """Adds a notice for the owner, in the unit that marks the part as failed.

    No notice is added about a notice, or if the part was for the owner's chat itself.
    """
    chat = part.to
    same = to and (to.channel, to.account, to.peer) == (chat.channel, chat.account, chat.peer)
    if to is None or same or part.run_id.startswith(WARNING):
        return
    run_id = RunId(f"{WARNING}{part.serial}")
    text = NOT_DELIVERED.format(
        peer=chat.peer.id, channel=chat.channel, account=chat.account, serial=part.serial
    )
    outbox.add(unit, run_id, outbox.next_block(unit, run_id), to, [text], now)
