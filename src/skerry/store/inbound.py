"""Ledger of the messages that platforms delivered, so that each is accepted once."""

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import InboundMessage, Peer, PeerKind, ReplyTo
from skerry.store.unit import Reader, Unit


def take(unit: Unit, message: InboundMessage, run_id: RunId) -> RunId | None:
    """Stores the message as the source of `run_id`; returns the earlier run of a repeated message.

    Message ids are unique only within a chat. A message without an id is never recognised as
    repeated (openclaw-behaviour 4.2).
    """
    if not message.message_id:
        return None
    thread = message.thread_id or ""
    message_key = (message.channel, message.account, message.peer.id, thread, message.message_id)
    inserted = unit.execute(
        "INSERT INTO inbound"
        " (channel, account, peer, thread, message_id, run_id, received_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
        " ON CONFLICT (channel, account, peer, thread, message_id) DO NOTHING",
        (*message_key, run_id, message.received_at),
    )
    if inserted:
        return None
    row = unit.one(
        "SELECT run_id FROM inbound WHERE (channel, account, peer, thread, message_id)"
        " = (?, ?, ?, ?, ?)",
        message_key,
    )
    return RunId(row[0]) if row else None


def runs_of(reader: Reader, message: InboundMessage, message_id: str) -> list[RunId]:
    """Returns the runs of message `message_id` in the chat of `message`, for all edits and agents.

    The id of an edit continues with `:`, the id for a further agent with `@`.
    """
    rows = reader.all(
        "SELECT run_id FROM inbound WHERE channel = ? AND account = ? AND peer = ?"
        " AND (message_id = ? OR (message_id >= ? AND message_id < ?)"
        " OR (message_id >= ? AND message_id < ?))",
        (
            *(message.channel, message.account, message.peer.id, message_id),
            *(f"{message_id}:", f"{message_id};", f"{message_id}@", f"{message_id}A"),
        ),
    )
    return [RunId(run_id) for (run_id,) in rows]


def source(reader: Reader, run_id: str, kind: PeerKind) -> ReplyTo | None:
    """Returns the chat of a run's message; None without one. Reads the whole ledger."""
    row = reader.one(
        "SELECT channel, account, peer, thread, message_id FROM inbound WHERE run_id = ?", (run_id,)
    )
    if row is None:
        return None
    channel, account, peer, thread, message_id = row
    to = Peer(kind, peer)
    return ReplyTo(ChannelId(channel), AccountId(account), to, message_id, thread or None)
