"""Audit log: a hash chain over decisions, each entry written in the unit of its decision.

Each entry has the SHA-256 of its facts and of the hash of the entry before, so that a changed,
removed or inserted entry is detected. The chain covers the digest of a body, not the body, which
may be erased. Row 0 is not an entry: it repeats number and hash of the last entry, so that a
removed last entry is detected.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

import msgspec
from msgspec import Struct

from skerry.infra.untrusted_json import UNREADABLE
from skerry.store.unit import Reader, Unit

_HEAD: Final = 0
"""Number of the row that repeats the last entry: its number as `at`, and its hash."""
FIRST: Final = "0" * 64
"""Hash before the first entry."""
_LAST: Final = """
    SELECT seq, hash FROM (SELECT seq, hash FROM audit WHERE seq > 0 ORDER BY seq DESC LIMIT 1)
    UNION ALL SELECT at, hash FROM audit WHERE seq = 0
    ORDER BY 1 DESC LIMIT 1
"""
"""Selects the last entry from the entries and row 0, so that a removed last entry stays a gap."""
_ANCHOR: Final = re.compile(r"(\d{1,18}):([0-9a-f]{64})")
_encode = msgspec.json.encode


class AuditLogEntry(Struct, frozen=True):
    """One entry of the log."""

    seq: int
    """Number from 1, without gaps."""
    at: int
    """Milliseconds since 1970."""
    kind: str
    """Name of the event, such as `approval.allow-once`."""
    body: dict[str, Any] | None
    """Facts; None after they were erased."""
    hash: str


class AuditReport(Struct, frozen=True):
    """Result of the verification of the whole chain."""

    entries: int
    head: str
    """Hash of the last entry. A copy outside the database proves later that the chain was not
    rebuilt."""
    broken: int | None = None
    """Number of the first entry that does not match; None if all do."""
    reason: str = ""
    erased: int = 0
    """Number of entries whose body was erased."""

    @property
    def anchor(self) -> "Anchor":
        """Returns the anchor of the last entry that matches."""
        return Anchor(self.entries, self.head)


def append(unit: Unit, at: int, kind: str, body: Mapping[str, Any]) -> None:
    """Adds an entry at the end of the chain."""
    last = unit.one(_LAST)
    seq, before = (int(last[0]) + 1, str(last[1])) if last else (1, FIRST)
    encoded = _encode(body, order="sorted")
    digest = hashlib.sha256(encoded).hexdigest()
    hash_ = chained(before, seq, at, kind, digest)
    unit.execute(
        "INSERT INTO audit (seq, at, kind, digest, body, hash) VALUES (?, ?, ?, ?, ?, ?)",
        (seq, at, kind, digest, encoded, hash_),
    )
    unit.execute(
        "INSERT INTO audit (seq, at, kind, digest, hash) VALUES (?, ?, 'head', '', ?)"
        " ON CONFLICT (seq) DO UPDATE SET at = excluded.at, hash = excluded.hash",
        (_HEAD, seq, hash_),
    )


def chained(before: str, seq: int, at: int, kind: str, digest: str) -> str:
    """Returns the hash of an entry that follows the hash `before`."""
    return hashlib.sha256(_encode([before, seq, at, kind, digest])).hexdigest()


def last(reader: Reader, limit: int) -> list[AuditLogEntry]:
    """Returns the last entries, oldest first."""
    rows = reader.all(
        "SELECT seq, at, kind, body, hash FROM audit WHERE seq <> 0 ORDER BY seq DESC LIMIT ?",
        (limit,),
    )
    return [
        AuditLogEntry(seq, at, kind, _body(body), hash_)
        for seq, at, kind, body, hash_ in rows[::-1]
    ]


class Anchor(Struct, frozen=True):
    """Number and hash of an entry, for storage outside the database."""

    seq: int
    hash: str

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses an anchor, such as `12:0f3a...`.

        Raises:
            ValueError: the text has another form.
        """
        match = _ANCHOR.fullmatch(text.strip())
        if match is None:
            raise ValueError(
                f"{text.strip()[:80]!r} is not an anchor. Write NUMBER:HASH, with 64 hex digits."
            )
        return cls(int(match[1]), match[2])


def verify(reader: Reader, anchors: Iterable[Anchor] = ()) -> AuditReport:
    """Verifies the whole chain, and compares it with anchors stored elsewhere.

    A chain that was rebuilt is consistent in itself, but does not match an earlier anchor.
    """
    report, unchecked = _followed(reader), list(anchors)
    if report.broken is not None or not unchecked:
        return report
    for anchor in sorted(unchecked, key=lambda each: each.seq):
        row = reader.one("SELECT hash FROM audit WHERE seq = ? AND seq > 0", (anchor.seq,))
        present = FIRST if anchor.seq == 0 else str(row[0]) if row else ""
        if present != anchor.hash:
            reason = f"entry {anchor.seq} has another hash than its anchor"
            if not present:
                reason = (
                    f"the log has {report.entries} entries, and an anchor names entry {anchor.seq}"
                )
            return AuditReport(report.entries, report.head, anchor.seq, reason, report.erased)
    return report


def _followed(reader: Reader) -> AuditReport:
    before, count, erased = FIRST, 0, 0
    for seq, at, kind, digest, body, hash_ in reader.each(
        "SELECT seq, at, kind, digest, body, hash FROM audit WHERE seq <> 0 ORDER BY seq"
    ):
        reason = ""
        if seq != count + 1:
            reason = f"entry {count + 1} is missing"
        elif chained(before, seq, at, kind, digest) != hash_:
            reason = f"entry {seq} was changed, or one before it"
        elif body is not None and _digest(body) != digest:
            reason = f"the facts of entry {seq} were changed"
        if reason:
            return AuditReport(count, before, count + 1, reason, erased)
        before, count, erased = hash_, count + 1, erased + (body is None)
    head = reader.one("SELECT at, hash FROM audit WHERE seq = ?", (_HEAD,))
    if head is not None and tuple(head) != (count, before):
        reason = f"the log ended with another entry than {count}"
        return AuditReport(count, before, count + 1, reason, erased)
    return AuditReport(count, before, erased=erased)


def _digest(body: bytes | str) -> str:
    return hashlib.sha256(body.encode() if isinstance(body, str) else body).hexdigest()


def _body(encoded: bytes | None) -> dict[str, Any] | None:
    if encoded is None:
        return None
    try:
        return msgspec.json.decode(encoded, type=dict[str, Any])
    except UNREADABLE:
        return {"unreadable": True}
