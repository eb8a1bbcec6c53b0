"""Runs: accepted, started, ended; and what a restart finds of them."""

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
_LARGE = 65_536  # bytes; a request with images, which stand in the transcript by then
_OPEN = "request, session_id, accepted_at, entry, left_trace, restarts, partial, host, delivered"
_TEXT_SENT = 2
"""Value of `left_trace` where nothing but blocks of text has left; 1 is anything else."""


class OpenRun(Struct, frozen=True):
    """A run that is accepted and not ended."""

    request: RunRequest
    session_id: SessionId
    accepted_at: int
    entry: int
    """Number of its user entry in the transcript; 0 while that is not written."""
    left_trace: bool
    """True when it may have had an effect: a tool began, a block was delivered."""
    restarts: int
    """Number of restarts of the gateway that ran it again."""
    partial: str
    host: RunId | None = None
    """The run that its message has entered, where it has."""
    delivered: int | None = None
    """Characters of `partial` that stand in the outbox as blocks; None where none does, nor
    anything that earlier responses of the run have said."""
    only_text_sent: bool = False
    """True when blocks of text are its only trace: nothing but the person's screen has changed."""

    @property
    def delivered_text(self) -> str | None:
        """Returns the part of the present response that was sent; None as `delivered` is."""
        return None if self.delivered is None else self.partial[: self.delivered]


class FinishedRun(Struct, frozen=True):
    """A run that ended, and where its message stands."""

    request: RunRequest | None
    """None where it was large; the transcript has what the person said."""
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
    """Hashes the request; equal only for the same content in the same conversation.

    How it is to be answered (time, thinking, queue) does not count: clients that send again may
    leave that out.
    """
    text = request.inline.sent if request.inline else request.text
    content: tuple[object, ...] = (str(request.key), text, request.images)
    if (opening := request.opening) is not None:
        content = (*content, opening.kind, opening.target)
    return hashlib.blake2b(_encode(content), digest_size=16).digest()


def add(unit: Unit, request: RunRequest, session_id: SessionId, entry: int, now: int) -> None:
    """Accepts the run. `entry` is the number of its user entry, 0 while that is not written."""
    # A platform's message has an id of its own in the ledger; its run's id is ours.
    content_hash = digest(request) if request.reply_to is None else None
    unit.execute(
        "INSERT INTO run (run_id, session_key, session_id, request, accepted_at, entry, digest,"  # noqa: S608 - a constant
        f" quarter) VALUES (?, ?, ?, ?, ?, ?, ?, {idempotency_keys.NOW})",
        (request.run_id, str(request.key), session_id, _encode(request), now, entry, content_hash),
    )


def has_other_content(reader: Reader, request: RunRequest) -> bool:
    """Returns whether the run with the request's id was asked for with another content."""
    row = reader.one("SELECT digest FROM run WHERE run_id = ?", (request.run_id,))
    return row is not None and row[0] is not None and row[0] != digest(request)


def last_ended(reader: Reader, key: str, limit: int) -> list[FinishedRun]:
    """Returns the conversation's last runs that ended, the latest accepted first."""
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
    """Returns how the run ended, or the open run, or None when the id is not known."""
    row = reader.one(
        f"SELECT result, {_OPEN} FROM run WHERE run_id = ?",  # noqa: S608 - constant columns
        (run_id,),
    )
    if row is None:
        return None
    return _results.decode(row[0]) if row[0] is not None else _open(row[1:])


def sharing(reader: Reader, run_id: str) -> list[RunId]:
    """Returns the runs whose messages are one entry of the transcript with this run's, in order."""
    rows = reader.all(
        "SELECT guest.run_id FROM run AS host JOIN run AS guest ON guest.serial <= host.serial"
        " AND guest.session_id = host.session_id AND guest.entry = host.entry"
        " WHERE host.run_id = ? ORDER BY guest.serial",
        (run_id,),
    )
    return [RunId(str(row[0])) for row in rows]


def result(reader: Reader, run_id: str) -> RunResult | None:
    """Returns how the run ended, if it did."""
    run = find(reader, run_id)
    return run if isinstance(run, RunResult) else None


def notices(reader: Reader, session_id: str) -> set[str]:
    """Returns the notices that the session's people have had; some 10 ms for 1,000 runs."""
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
    """Returns every open run that can be read, in the order of acceptance."""
    return [run for run in _unfinished(reader) if isinstance(run, OpenRun)]


def unreadable(reader: Reader) -> list[BrokenRun]:
    """Returns every open run that cannot be read."""
    return [run for run in _unfinished(reader) if isinstance(run, BrokenRun)]


def close_unreadable(unit: Unit, run: BrokenRun, ended: RunResult) -> None:
    """Ends a run that cannot be read."""
    unit.execute(
        "UPDATE run SET result = ?, partial = '', request = ?, noticed = ? WHERE serial = ?",
        (_encode(ended), b"", bool(ended.notices), run.serial),
    )


def enter(unit: Unit, run_id: RunId, session_id: SessionId, entry: int) -> None:
    """Notes that the run's user entry stands in the session's transcript, as number `entry`.

    With 0, hooks keep it from the transcript; that the run began is counted then, as restarts are,
    for nothing else shows it.
    """
    unit.execute(
        "UPDATE run SET session_id = ?, entry = ?, restarts = restarts + ? WHERE run_id = ?",
        (session_id, entry, 0 if entry else 1, run_id),
    )


def note_opening(unit: Unit, request: RunRequest) -> None:
    """Keeps what the run's message did to its conversation, so that it does it once."""
    unit.execute("UPDATE run SET request = ? WHERE run_id = ?", (_encode(request), request.run_id))


def join(unit: Unit, run_id: RunId, host: RunId, entry: int) -> None:
    """Notes that the run's message has entered the run `host`, which answers it and ends it."""
    unit.execute(
        "UPDATE run SET entry = ?, host = ?, left_trace = 1,"
        " session_id = (SELECT session_id FROM run WHERE run_id = ?) WHERE run_id = ?",
        (entry, host, host, run_id),
    )


def restart(unit: Unit, run: OpenRun) -> None:
    """Notes that the run is to run again under its id; what was sent of its response is kept."""
    unit.execute(
        "UPDATE run SET restarts = restarts + 1, partial = ? WHERE run_id = ?",
        (run.delivered_text or "", run.request.run_id),
    )


def leave_trace(unit: Unit, run_id: RunId) -> None:
    """Notes, before it happens, that the run has an effect: it must not run a second time.

    What the response has said stands in the transcript now, and in the outbox where it left there.
    """
    unit.execute(
        "UPDATE run SET left_trace = 1, partial = '',"
        " delivered = CASE WHEN delivered IS NULL THEN NULL ELSE 0 END WHERE run_id = ?",
        (run_id,),
    )


def leave_block(unit: Unit, run_id: RunId, progress: tuple[str, int] | None) -> None:
    """Notes that a block of the run left.

    `said` is the text of the present response and how many characters of it have left; None where
    its text leaves at the end only.
    """
    text, delivered = progress or (None, None)
    unit.execute(
        "UPDATE run SET left_trace = CASE WHEN left_trace = 0 THEN ? ELSE left_trace END,"
        " partial = coalesce(?, partial), delivered = coalesce(?, delivered) WHERE run_id = ?",
        (_TEXT_SENT, text, delivered, run_id),
    )


def checkpoint(unit: Unit, run_id: RunId, partial: str) -> None:
    """Keeps the text that a response has so far."""
    unit.execute("UPDATE run SET partial = ? WHERE run_id = ?", (partial, run_id))


def finish(unit: Unit, ended: RunResult) -> None:
    """Ends the run; its id now answers with `ended`."""
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
