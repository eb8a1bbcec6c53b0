"""Outbox of parts to deliver: written with the transcript, sent after the COMMIT, then marked."""

import re
from collections.abc import Collection, Sequence
from enum import StrEnum
from itertools import islice

import msgspec
from msgspec import Struct

from skerry.model.ids import AccountId, ChannelId, RunId
from skerry.model.inbound import ReplyTo
from skerry.model.message import storable
from skerry.model.outbound import PLAIN, Additions, Content, OutboundPart, Receipt
from skerry.model.undelivered import PartError
from skerry.store.unit import Reader, Row, Unit, marks

_encode = msgspec.json.encode
_destinations = msgspec.json.Decoder(ReplyTo)
_receipts = msgspec.json.Decoder(Receipt)
_additions = msgspec.json.Decoder(Additions)
_MAX_ERROR = 500


class PartState(StrEnum):
    """State of a part."""

    PENDING = "pending"
    SENDING = "sending"
    """Handed to the adapter; at a start, it is uncertain whether it arrived."""
    SENT = "sent"
    UNKNOWN = "unknown"
    """It is uncertain whether it was delivered; a person decides."""
    FAILED = "failed"
    """The platform refused it, or all attempts failed; a person decides."""
    DROPPED = "dropped"
    """A person decided not to send it."""


class WaitingPart(Struct, frozen=True):
    """A part that is pending or sending, with its delivery attempts."""

    part: OutboundPart
    state: PartState
    attempts: int
    retry_at: int = 0
    """Time of the next attempt, in milliseconds since 1970; 0 means immediately."""
    repeated: bool = False
    """True when it may have arrived already and is sent again with a mark."""


class OutboxRow(Struct, frozen=True):
    """A part with its error and times, as lists show it."""

    waiting: WaitingPart
    error: str
    """Reason why it was not sent; empty if unknown."""
    created_at: int
    updated_at: int


_COLUMNS = (
    "serial, run_id, block, part, destination, text, state, attempts, retry_at, repeated,"
    " more, error, created_at, updated_at"
)


def add(
    unit: Unit, run_id: RunId, block: int, to: ReplyTo, parts: Sequence[str | Content], now: int
) -> None:
    """Adds the parts of one block, in order."""
    destination = _encode(to)
    contents = [Content(part) if isinstance(part, str) else part for part in parts]
    unit.executemany(
        "INSERT INTO outbox (run_id, block, part, channel, account, destination, text,"
        " created_at, updated_at, more) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                *(run_id, block, part, to.channel, to.account, destination),
                *(storable(content.text), now, now),
                _encode(content.additions) if content.additions != PLAIN else None,
            )
            for part, content in enumerate(contents)
        ],
    )


def states(reader: Reader, run_id: RunId) -> set[PartState]:
    """Returns the states of the parts of a run."""
    rows = reader.all("SELECT DISTINCT state FROM outbox WHERE run_id = ?", (run_id,))
    return {PartState(state) for (state,) in rows}


def next_block(reader: Reader, run_id: RunId) -> int:
    """Returns the number of the next block of a run."""
    row = reader.one("SELECT coalesce(max(block) + 1, 0) FROM outbox WHERE run_id = ?", (run_id,))
    return int(row[0]) if row else 0


def waiting(
    reader: Reader,
    channel: ChannelId,
    account: AccountId,
    *,
    excluded: Collection[int] = (),
    limit: int = 100,
) -> list[WaitingPart]:
    """Returns up to `limit` pending or sending parts of the account, by serial, without `excluded`.

    The order holds within a conversation only: a part with a lower serial may be committed later.
    """
    open_parts = reader.all(
        "SELECT serial FROM outbox WHERE channel = ? AND account = ?"
        " AND state IN ('pending', 'sending') ORDER BY serial",
        (channel, account),
    )
    some = tuple(islice((serial for (serial,) in open_parts if serial not in excluded), limit))
    if not some:
        return []
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM outbox WHERE serial IN ({marks(some)}) ORDER BY serial",  # noqa: S608 - constant columns, placeholders
        some,
    )
    return [_to_part(row).waiting for row in rows]


def mark(
    unit: Unit, serial: int, state: PartState, now: int, receipt: Receipt | None = None
) -> bool:
    """Sets the state of a part; returns False if a person has dropped it meanwhile."""
    tries = 1 if state is PartState.SENDING else 0
    return bool(
        unit.execute(
            "UPDATE outbox SET state = ?, receipt = coalesce(?, receipt), updated_at = ?,"
            " retry_at = 0, attempts = attempts + ?"
            " WHERE serial = ? AND state <> 'dropped'",
            (state, _encode(receipt) if receipt else None, now, tries, serial),
        )
    )


def put_off(unit: Unit, serial: int, error: str, retry_at: int, *, maybe_sent: bool) -> None:
    """Stores why a part was not sent, and the time of the next attempt.

    Args:
        unit: Unit of the store.
        serial: Serial of the part.
        error: Reason, shown to people.
        retry_at: Time in ms since 1970.
        maybe_sent: True if the platform may have received it; the part stays `sending` then.
    """
    unit.execute(
        "UPDATE outbox SET error = ?, retry_at = ?,"
        " state = CASE WHEN ? THEN state ELSE 'pending' END"
        " WHERE serial = ? AND state <> 'dropped'",
        (storable(error[:_MAX_ERROR]), retry_at, maybe_sent, serial),
    )


def set_error(unit: Unit, serial: int, error: str) -> None:
    """Stores why a part is not tried again."""
    unit.execute(
        "UPDATE outbox SET error = ? WHERE serial = ?", (storable(error[:_MAX_ERROR]), serial)
    )


def fail_sent(
    unit: Unit, channel: ChannelId, account: AccountId, nonce: str, error: str, now: int
) -> OutboxRow | None:
    """Marks a sent part that did not arrive as failed; returns it in its former state.

    None if the account has no such part. Parts in other states do not change.
    """
    run_id, *numbers = nonce.rsplit("/", 2)
    if not re.fullmatch(r"-?\d{1,9} \d{1,9}", " ".join(numbers), re.ASCII):
        return None
    row = unit.one(
        f"SELECT {_COLUMNS} FROM outbox WHERE run_id = ? AND block = ? AND part = ?"  # noqa: S608 - constant columns
        " AND channel = ? AND account = ?",
        (run_id, *map(int, numbers), channel, account),
    )
    if row is None:
        return None
    stored = _to_part(row)
    if stored.waiting.state is PartState.SENT:
        set_error(unit, stored.waiting.part.serial, error)
        mark(unit, stored.waiting.part.serial, PartState.FAILED, now)
    return stored


def mark_repeated(unit: Unit, serial: int) -> None:
    """Marks a part, which may have arrived already, to be sent again with a mark."""
    unit.execute("UPDATE outbox SET repeated = TRUE WHERE serial = ?", (serial,))


def add_notice(unit: Unit, part: OutboundPart, text: str, now: int) -> None:
    """Adds a notice to the conversation of a part that may be missing."""
    # Notices have negative block numbers: a part has at most one, and a notice has none.
    add(unit, part.run_id, -part.serial, part.to, [text], now)


def counts(reader: Reader) -> dict[str, int]:
    """Returns the number of parts by state, without those that are sent or dropped."""
    rows = reader.all(
        "SELECT state, count(*) FROM outbox WHERE state NOT IN ('sent', 'dropped') GROUP BY state"
    )
    return {str(state): int(number) for state, number in rows}


def undelivered(
    reader: Reader, states: Sequence[PartState] = (), limit: int = 200
) -> list[OutboxRow]:
    """Returns the parts in `states`, by default all that are not sent or dropped, oldest first."""
    condition = "state NOT IN ('sent', 'dropped')"
    if states:
        condition = f"state IN ({marks(states)})"
    rows = reader.all(
        f"SELECT {_COLUMNS} FROM outbox WHERE {condition} ORDER BY serial LIMIT ?",  # noqa: S608 - constant columns, placeholders
        (*states, limit),
    )
    return [_to_part(row) for row in rows]


def of_run(reader: Reader, run_id: RunId) -> list[OutboxRow]:
    """Returns the parts of a run, in order."""
    rows = reader.all(f"SELECT {_COLUMNS} FROM outbox WHERE run_id = ? ORDER BY serial", (run_id,))  # noqa: S608 - constant columns
    return [_to_part(row) for row in rows]


def platform_ids(reader: Reader, run_id: RunId) -> list[str]:
    """Returns the platform ids of the messages sent for a run, in order."""
    rows = reader.all(
        "SELECT receipt FROM outbox WHERE run_id = ? AND receipt IS NOT NULL ORDER BY serial",
        (run_id,),
    )
    return [id_ for (receipt,) in rows for id_ in _receipts.decode(receipt).platform_ids]


def ids_of(reader: Reader, serial: int) -> tuple[str, ...]:
    """Returns the platform ids of the messages sent for a part; empty before it was sent."""
    row = reader.one("SELECT receipt FROM outbox WHERE serial = ?", (serial,))
    return _receipts.decode(row[0]).platform_ids if row and row[0] else ()


def open_preview(reader: Reader, run_id: RunId) -> int:
    """Returns the serial of the last preview of a run that no part completes; 0 without one."""
    parts = [row.waiting.part for row in of_run(reader, run_id)]
    completed = {part.additions.completes for part in parts}
    previews = (part.serial for part in parts if part.additions.preview)
    return max((serial for serial in previews if serial not in completed), default=0)


def is_completed(reader: Reader, part: OutboundPart) -> bool:
    """Returns whether a later part of its run has the finished text of a preview."""
    rows = of_run(reader, part.run_id)
    return any(row.waiting.part.additions.completes == part.serial for row in rows)


def change(unit: Unit, serial: int, additions: Additions) -> None:
    """Replaces the additions of a part; its text does not change."""
    encoded = _encode(additions) if additions != PLAIN else None
    unit.execute("UPDATE outbox SET more = ? WHERE serial = ?", (encoded, serial))


def get(reader: Reader, serial: int) -> OutboxRow | None:
    """Returns the part."""
    row = reader.one(f"SELECT {_COLUMNS} FROM outbox WHERE serial = ?", (serial,))  # noqa: S608 - constant columns
    return _to_part(row) if row else None


def retry(unit: Unit, serial: int, now: int) -> OutboxRow:
    """Makes a pending, failed or unknown part due now, with a new series of attempts.

    An `unknown` part, which may have arrived already, is sent with the mark.

    Raises:
        PartError: the part does not exist, is sent or dropped, or is being sent.
    """
    row = _decided(unit, serial)
    unit.execute(
        "UPDATE outbox SET attempts = 0, retry_at = 0,"
        " state = CASE WHEN state = 'sending' THEN state ELSE 'pending' END, updated_at = ?,"
        " repeated = repeated OR state = 'unknown' WHERE serial = ?",
        (now, serial),
    )
    return row


def drop(unit: Unit, serial: int, now: int) -> OutboxRow:
    """Drops a pending, failed or unknown part, so that it is not sent. Its row is kept.

    Raises:
        PartError: the part does not exist, is sent or dropped, or is being sent.
    """
    row = _decided(unit, serial)
    unit.execute(
        "UPDATE outbox SET state = 'dropped', updated_at = ? WHERE serial = ?", (now, serial)
    )
    return row


def _decided(reader: Reader, serial: int) -> OutboxRow:
    """Returns a part that a person may retry or drop.

    Raises:
        PartError: the part does not exist, is sent or dropped, or is being sent.
    """
    row = get(reader, serial)
    if row is None:
        raise PartError(f"The outbox has no part {serial}.")
    match row.waiting.state:
        case PartState.PENDING | PartState.FAILED | PartState.UNKNOWN:
            return row
        case PartState.SENDING:
            if row.waiting.retry_at:
                return row
            failure = PartError(f"Part {serial} is being sent.")
            failure.remedy = f"Check it again in a minute: `skerry outbox show {serial}`."
            raise failure
        case _:
            raise PartError(f"Part {serial} is already {row.waiting.state}.")


def _to_part(row: Row) -> OutboxRow:
    serial, run_id, block, part, to, text, state, attempts, retry_at, repeated, *columns = row
    encoded, *times = columns
    additions = _additions.decode(encoded) if encoded else PLAIN
    to = _destinations.decode(to)
    return OutboxRow(
        WaitingPart(
            OutboundPart(serial, RunId(run_id), block, part, to, text, additions),
            PartState(state),
            attempts,
            retry_at,
            bool(repeated),
        ),
        *times,
    )
