"""Runs: accepted, started, ended, and read after a restart."""

import hashlib
import sqlite3
from contextlib import suppress

import msgspec
from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.ids import RunId, SessionId
from skerry.model.run import RunRequest, RunResult
from skerry.store import idempotency_keys, unreadable_entries
from skerry.store.condition import NO_TEXT
from skerry.store.unit import Reader, Unit

_encode = msgspec.json.encode
_requests = msgspec.json.Decoder(RunRequest)
_results = msgspec.json.Decoder(RunResult)
_LARGE = 65_536  # bytes; a larger request has images, which are in the transcript when it ends
_OPEN = "request, session_id, accepted_at, entry, left_trace, restarts, partial, host, delivered"
_TEXT_SENT = 2
"""Value of `left_trace` when only blocks of text were sent; 1 stands for any other effect."""


class OpenRun(Struct, frozen=True):
    """A run that was accepted and has not ended."""

    request: RunRequest
    session_id: SessionId
    accepted_at: int
    entry: int
    """Number of its user entry in the transcript; 0 before that is written."""
    left_trace: bool
    """True when it may have had an effect: a tool began, or a block was sent."""
    restarts: int
    """Number of gateway restarts that ran it again."""
    partial: str
    host: RunId | None = None
    """Id of the run that its message has entered; None if it has not."""
    delivered: int | None = None
    """Number of characters of `partial` in the outbox as blocks; None if neither this nor an
    earlier response of the run has blocks."""
    only_text_sent: bool = False
    """True when blocks of text are its only effect."""

    @property
    def delivered_text(self) -> str | None:
        """Returns the sent part of the present response; None if `delivered` is None."""
        return None if self.delivered is None else self.partial[: self.delivered]


class FinishedRun(Struct, frozen=True):
    """A run that ended, and the position of its message."""

    request: RunRequest | None
    """None if it was large; the transcript has the person's message."""
    session_id: SessionId
    entry: int
    result: RunResult


class BrokenRun(Struct, frozen=True):
    """An open run whose row cannot be read."""

    serial: int
    run_id: RunId
    session_key: str
    session_id: SessionId
    accepted_at: int
    entry: int
    reason: str


def digest(request: RunRequest) -> bytes:
    """Hashes the content of the request and its conversation.

    Options of the answer (time, thinking, queue) are not included: clients may omit them when they
    send a request again.
    """
    text = request.inline.sent if request.inline else request.text
    content: tuple[object, ...] = (str(request.key), text, request.images)
    if (opening := request.opening) is not None:
        content = (*content, opening.kind, opening.target)
    return hashlib.blake2b(_encode(content), digest_size=16).digest()


def add(unit: Unit, request: RunRequest, session_id: SessionId, entry: int, now: int) -> None:
    """Stores an accepted run. `entry` is the number of its user entry, 0 before that is written."""
    # A platform message is deduplicated by its id in the ledger; its run id is generated.
    content_hash = digest(request) if request.reply_to is None else None
    unit.execute(
        "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, entry, digest,"  # noqa: S608 - a constant
        f" quarter) VALUES (?, ?, ?, ?, ?, ?, ?, {idempotency_keys.NOW})",
        (request.run_id, str(request.key), session_id, _encode(request), now, entry, content_hash),
    )


def has_other_content(reader: Reader, request: RunRequest) -> bool:
    """Returns whether the stored run with the request's id has other content."""
    row = reader.one("SELECT digest FROM run WHERE run_id = ?", (request.run_id,))
    return row is not None and row[0] is not None and row[0] != digest(request)


def last_ended(reader: Reader, key: str, limit: int) -> list[FinishedRun]:
    """Returns the last ended runs of the conversation, the latest accepted first."""
    rows = reader.all(
        "SELECT request, session_id, entry, result FROM run"
        " WHERE session_key = ? AND result IS NOT NULL ORDER BY serial DESC LIMIT ?",
        (key, limit),
    )
    return [
        FinishedRun(
            _requests.decode(request) if request else None,
            SessionId(session_id),
            entry,
            _results.decode(result),
        )
        for request, session_id, entry, result in rows
    ]


def find(reader: Reader, run_id: str) -> RunResult | OpenRun | None:
    """Returns the result of an ended run, or the open run; None if the id is unknown."""
    row = reader.one(
        f"SELECT result, {_OPEN} FROM run WHERE run_id = ?",  # noqa: S608 - constant columns
        (run_id,),
    )
    if row is None:
        return None
    return _results.decode(row[0]) if row[0] is not None else _open(row[1:])


def sharing(reader: Reader, run_id: str) -> list[RunId]:
    """Returns the runs whose messages share one transcript entry with this run's, in order."""
    rows = reader.all(
        "SELECT guest.run_id FROM run AS host JOIN run AS guest ON guest.serial <= host.serial"
        " AND guest.session_id = host.session_id AND guest.entry = host.entry"
        " WHERE host.run_id = ? ORDER BY guest.serial",
        (run_id,),
    )
    return [RunId(str(row[0])) for row in rows]


def result(reader: Reader, run_id: str) -> RunResult | None:
    """Returns the result of the run; None if it is open or unknown."""
    run = find(reader, run_id)
    return run if isinstance(run, RunResult) else None


def notices(reader: Reader, session_id: str) -> set[str]:
    """Returns the notices that were shown in the session; about 10 ms for 1,000 runs."""
    rows = reader.all(
        "SELECT result FROM run WHERE noticed"
        " AND run_id IN (SELECT run_id FROM entry WHERE session_id = ?)",
        (session_id,),
    )
    notices: set[str] = set()
    for (ended,) in rows:
        with suppress(TypeError, *UNREADABLE):
            notices.update(_results.decode(ended).notices)
    return notices


def any_open(reader: Reader) -> bool:
    """Returns whether a run is open."""
    return reader.one("SELECT 1 FROM run WHERE result IS NULL LIMIT 1") is not None


def unfinished(reader: Reader) -> list[OpenRun]:
    """Returns every readable open run, in the order of acceptance."""
    return [run for run in _unfinished(reader) if isinstance(run, OpenRun)]


def unreadable(reader: Reader) -> list[BrokenRun]:
    """Returns every open run whose row cannot be read."""
    return [run for run in _unfinished(reader) if isinstance(run, BrokenRun)]


def close_unreadable(unit: Unit, run: BrokenRun, ended: RunResult) -> None:
    """Ends a run whose row cannot be read."""
    unit.execute(
        "UPDATE run SET result = ?, partial = '', request = ?, noticed = ? WHERE serial = ?",
        (_encode(ended), b"", bool(ended.notices), run.serial),
    )


def enter(unit: Unit, run_id: RunId, session_id: SessionId, entry: int) -> None:
    """Notes that the run's user entry is in the session's transcript, as number `entry`.

    0 means that a hook kept it out of the transcript; the start is then counted as a restart,
    because nothing else shows it.
    """
    unit.execute(
        "UPDATE run SET session_id = ?, entry = ?, restarts = restarts + ? WHERE run_id = ?",
        (session_id, entry, 0 if entry else 1, run_id),
    )


def note_opening(unit: Unit, request: RunRequest) -> None:
    """Stores the effect of the run's message on its conversation, so that it happens once."""
    unit.execute("UPDATE run SET request = ? WHERE run_id = ?", (_encode(request), request.run_id))


def join(unit: Unit, run_id: RunId, host: RunId, entry: int) -> None:
    """Notes that the run's message has entered the run `host`, which answers and ends it."""
    unit.execute(
        "UPDATE run SET entry = ?, host = ?, left_trace = 1,"
        " session_id = (SELECT session_id FROM run WHERE run_id = ?) WHERE run_id = ?",
        (entry, host, host, run_id),
    )


def restart(unit: Unit, run: OpenRun) -> None:
    """Notes that the run is run again under its id; the sent part of its response is kept."""
    unit.execute(
        "UPDATE run SET restarts = restarts + 1, partial = ? WHERE run_id = ?",
        (run.delivered_text or "", run.request.run_id),
    )


def note_effect(unit: Unit, run_id: RunId) -> None:
    """Notes, before the effect, that the run has an effect and must not run a second time.

    The text of the response so far is in the transcript now, and its sent blocks in the outbox.
    """
    unit.execute(
        "UPDATE run SET left_trace = 1, partial = '',"
        " delivered = CASE WHEN delivered IS NULL THEN NULL ELSE 0 END WHERE run_id = ?",
        (run_id,),
    )


def note_block(unit: Unit, run_id: RunId, progress: tuple[str, int] | None) -> None:
    """Notes that a block of the run was sent.

    `progress` is the text of the present response and the number of its sent characters; None if
    its text is sent only at its end.
    """
    text, delivered = progress or (None, None)
    unit.execute(
        "UPDATE run SET left_trace = CASE WHEN left_trace = 0 THEN ? ELSE left_trace END,"
        " partial = coalesce(?, partial), delivered = coalesce(?, delivered) WHERE run_id = ?",
        (_TEXT_SENT, text, delivered, run_id),
    )


def checkpoint(unit: Unit, run_id: RunId, partial: str) -> None:
    """Stores the text of the present response so far."""
    unit.execute("UPDATE run SET partial = ? WHERE run_id = ?", (partial, run_id))


def finish(unit: Unit, ended: RunResult) -> None:
    """Ends the run; a repeated request with its id gets the result `ended`."""
    unit.execute(
        "UPDATE run SET result = ?, partial = '', noticed = ?,"
        " request = CASE WHEN length(request) > ? THEN ? ELSE request END WHERE run_id = ?",
        (_encode(ended), bool(ended.notices), _LARGE, b"", ended.run_id),
    )


def _unfinished(reader: Reader) -> list[OpenRun | BrokenRun]:
    serials = reader.all("SELECT serial FROM run WHERE result IS NULL ORDER BY serial")
    return [_of_serial(reader, serial) for (serial,) in serials]


def _of_serial(reader: Reader, serial: int) -> OpenRun | BrokenRun:
    try:
        row = reader.one(f"SELECT {_OPEN} FROM run WHERE serial = ?", (serial,))  # noqa: S608 - constant columns
        return _open(row or ())
    except (TypeError, sqlite3.OperationalError, *UNREADABLE) as error:
        if isinstance(error, sqlite3.OperationalError) and not str(error).startswith(NO_TEXT):
            raise
        reason = str(error)
    *raw, accepted_at, entry = unreadable_entries.raw_run(reader, serial) or (b"", b"", b"", 0, 0)
    run_id, key, session_id = (bytes(value).decode("utf-8", "replace") for value in raw)
    return BrokenRun(serial, RunId(run_id), key, SessionId(session_id), accepted_at, entry, reason)


def _open(row: tuple[object, ...]) -> OpenRun:
    request, session_id, accepted_at, entry, left_trace, restarts, partial, host, delivered = row
    return OpenRun(
        _requests.decode(request),  # type: ignore[arg-type]  # the column holds bytes
        SessionId(str(session_id)),
        int(str(accepted_at)),
        int(str(entry)),
        bool(left_trace),
        int(str(restarts)),
        str(partial),
        RunId(str(host)) if host else None,
        None if delivered is None else int(str(delivered)),
        left_trace == _TEXT_SENT,
    )
