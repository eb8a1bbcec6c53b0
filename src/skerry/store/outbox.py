"""Parts to deliver: written with the transcript, sent after the COMMIT, marked on the way."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import ReplyTo
from skerry.model.outbound import OutboundPart, Receipt
from skerry.store.unit import Reader, Unit

_encode = msgspec.json.encode
_destinations = msgspec.json.Decoder(ReplyTo)


class PartState(StrEnum):
    """Where a part stands."""

    PENDING = "pending"
    SENDING = "sending"
    """The adapter has it; found at a start, nobody knows yet whether it arrived."""
    SENT = "sent"
    UNKNOWN = "unknown"
    """It may have arrived and nobody can say; a person decides."""
    FAILED = "failed"
    """The platform refused it, or was tried too often; a person decides."""


@dataclass(frozen=True, slots=True)
class WaitingPart:
    """A part that is pending or sending, and how often an adapter has had it."""

    part: OutboundPart
    state: PartState
    attempts: int


def add(unit: Unit, run_id: RunId, block: int, to: ReplyTo, texts: Sequence[str], now: int) -> None:
    """Add the parts of one block, in order."""
    destination = _encode(to)
    unit.executemany(
        "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
        " created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (run_id, block, part, to.channel, to.account, destination, text, now, now)
            for part, text in enumerate(texts)
        ],
    )


def next_block(reader: Reader, run_id: RunId) -> int:
    """Return the number of the next block of a run."""
    row = reader.one("SELECT coalesce(max(block) + 1, 0) FROM outbox WHERE run_id = ?", (run_id,))
    return int(row[0]) if row else 0


def waiting(
    reader: Reader, channel: ChannelId, account: AccountId, *, after: int = 0, limit: int = 100
) -> list[WaitingPart]:
    """Return the account's next parts behind serial `after` that are not brought to an end."""
    rows = reader.all(
        "SELECT serial, run_id, block, part, destination, text, state, attempts FROM outbox"
        " WHERE channel = ? AND account = ? AND state IN ('pending', 'sending') AND serial > ?"
        " ORDER BY serial LIMIT ?",
        (channel, account, after, limit),
    )
    return [
        WaitingPart(
            OutboundPart(serial, RunId(run_id), block, part, _destinations.decode(to), text),
            PartState(state),
            attempts,
        )
        for serial, run_id, block, part, to, text, state, attempts in rows
    ]


def mark(
    unit: Unit, serial: int, state: PartState, now: int, receipt: Receipt | None = None
) -> None:
    """Note what became of a part."""
    unit.execute(
        "UPDATE outbox SET state = ?, receipt = coalesce(?, receipt), updated_at = ?,"
        " attempts = attempts + (? = 'sending') WHERE serial = ?",
        (state, _encode(receipt) if receipt else None, now, state, serial),
    )


def counts(reader: Reader) -> dict[str, int]:
    """Return how many parts are in each state that needs attention."""
    rows = reader.all("SELECT state, count(*) FROM outbox WHERE state <> 'sent' GROUP BY state")
    return {str(state): int(number) for state, number in rows}
