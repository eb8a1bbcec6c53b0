"""Notice to the owner, in another chat, of a part that was given up."""

from typing import Final

from skerry.model.ids import RunId
from skerry.model.inbound import ReplyTo
from skerry.model.outbound import OutboundPart
from skerry.store import Unit, outbox

WARNING: Final = "undelivered-"
"""Begin of the ids of notices."""
NOT_DELIVERED: Final = (
    "⚠️ A reply to {peer} on {channel}/{account} could not be delivered. To read why: skerry outbox"
    " show {serial}. To send it again: skerry outbox retry {serial}, or the page."
)


def warn_owner(unit: Unit, part: OutboundPart, to: ReplyTo | None, now: int) -> None:
    """Adds a notice for the owner, in the unit that gives the part up.

    None about a notice, nor where the chat of the owner is the one that is not reached.
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
