"""The ledger of messages that platforms delivered: each is taken once."""

from skerry.model.ids import RunId
from skerry.model.inbound import InboundMessage
from skerry.store.unit import Unit


def take(unit: Unit, message: InboundMessage, run_id: RunId) -> RunId | None:
    """Note the message as the source of `run_id`; return the earlier run if it was taken before."""
    taken = unit.execute(
        "INSERT OR IGNORE INTO inbound (channel, account, message_id, run_id, received_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (message.channel, message.account, message.message_id, run_id, message.received_at),
    )
    if taken:
        return None
    row = unit.one(
        "SELECT run_id FROM inbound WHERE channel = ? AND account = ? AND message_id = ?",
        (message.channel, message.account, message.message_id),
    )
    return RunId(row[0]) if row else None
