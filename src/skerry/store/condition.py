"""Condition of the database: SQLite's errors, and their meaning for the operator of a gateway."""

import logging
import sqlite3
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeGuard

from msgspec import Struct, field

from skerry.model.errors import StoreFailedError
from skerry.store.recovered_lines import RecoveryNotice

logger = logging.getLogger(__name__)


class StoreDamagedError(StoreFailedError):
    """The database is damaged; new messages are refused, so that none is lost."""

    code = "state.corrupt"
    remedy = "Stop the gateway, then: skerry backup restore"

    def __init__(self, damage: str) -> None:
        super().__init__(f"The database is damaged ({damage}); no new messages are accepted.")


class Storage(StrEnum):
    """Condition of the database; `Condition.works` decides whether the gateway is ready."""

    OK = "ok"
    CHECKING = "checking"
    """The previous gateway did not end in order; a check of the file is running."""
    FULL = "full"
    READ_ONLY = "read-only"
    BUSY = "busy"
    """Another program has locked the file."""
    CORRUPT = "corrupt"
    """Unreadable data in the database: no new work is accepted."""
    FAILING = "failing"
    """Any other error, such as a failing disk."""


REMEDIES: Final = MappingProxyType(
    {
        Storage.OK: "",
        Storage.CHECKING: "Wait; messages are accepted meanwhile.",
        Storage.FULL: "Free space on its disk; the gateway then continues automatically.",
        Storage.READ_ONLY: (
            "Make the state directory writable; the gateway then continues automatically."
        ),
        Storage.BUSY: "Close the other program that has state.sqlite open.",
        Storage.CORRUPT: "Stop the gateway, then: skerry backup restore",
        Storage.FAILING: "Check its disk; `skerry doctor` and `skerry logs` show details.",
    }
)

_KINDS: Final = MappingProxyType(
    {
        sqlite3.SQLITE_FULL: Storage.FULL,
        sqlite3.SQLITE_READONLY: Storage.READ_ONLY,
        sqlite3.SQLITE_PERM: Storage.READ_ONLY,
        sqlite3.SQLITE_BUSY: Storage.BUSY,
        sqlite3.SQLITE_LOCKED: Storage.BUSY,
        sqlite3.SQLITE_CORRUPT: Storage.CORRUPT,
        sqlite3.SQLITE_NOTADB: Storage.CORRUPT,
    }
)


def kind(error: sqlite3.Error) -> Storage:
    """Returns the condition that the error indicates."""
    if str(error).startswith(NO_TEXT):
        return Storage.CORRUPT
    code = getattr(error, "sqlite_errorcode", None)  # errors of Python's module have no code
    return _KINDS.get(code & 0xFF, Storage.FAILING) if code else Storage.FAILING


def is_database_fault(error: BaseException) -> TypeGuard[sqlite3.Error]:
    """Returns whether the error is of the database file, not of the statement."""
    if isinstance(error, sqlite3.OperationalError):
        return True
    return type(error) is sqlite3.DatabaseError


NO_TEXT: Final = "Could not decode to UTF-8"
"""Message of Python's `sqlite3` for a text whose bytes were changed."""
NAMED: Final = 5
"""Limit on the entries that a message lists; the others are only counted."""
ENTRIES_REMEDY: Final = (
    "`skerry sessions recovered list` lists them. Stop the gateway; then `import` repairs those"
    " that are still in the transcript files, and `accept` gives up the others."
)


class Condition(Struct):
    """Last known condition, updated by the writer and the readers."""

    writing: Storage = Storage.OK
    """Condition at the last unit that wrote, or tried to write."""
    message: str = ""
    damage: str = ""
    """Description of the damage; kept until a check finds the file sound."""
    entries: dict[tuple[str, int], str] = field(default_factory=dict)
    """Reason for each unreadable entry, by session and number. These entries are skipped."""
    checking: bool = False
    aside: RecoveryNotice | None = None
    """Notice about transcript lines that the database lacks; they are kept in a folder."""

    @property
    def storage(self) -> Storage:
        """Returns the most severe condition."""
        if self.damage or self.entries:
            return Storage.CORRUPT
        if self.writing is not Storage.OK:
            return self.writing
        return Storage.CHECKING if self.checking else Storage.OK

    @property
    def works(self) -> bool:
        """Returns whether the gateway can serve.

        Unreadable entries do not count: no restart and no other gateway restores them, so taking
        this gateway out of service would only refuse all other messages.
        """
        return not self.damage and self.writing is Storage.OK and not self.checking

    @property
    def problem(self) -> tuple[str, str]:
        """Returns the problem, and its remedy."""
        if self.damage or not self.entries:
            return self.damage or self.message, REMEDIES[self.storage]
        named = [
            f"entry {seq} of session {session_id}"
            for session_id, seq in sorted(self.entries)[:NAMED]
        ]
        remaining = len(self.entries) - len(named)
        suffix = f" and {remaining} more" if remaining else ""
        listed = f"{', '.join(named)}{suffix}"
        problem = f"unreadable transcript entries are skipped: {listed}; everything else works"
        return problem, ENTRIES_REMEDY

    def broken(self, session_id: str, seq: int, reason: str) -> None:
        """Notes an unreadable entry, and logs it once."""
        if (session_id, seq) not in self.entries:
            logger.error("entry %d of session %s cannot be read: %s", seq, session_id, reason)
            self.entries[session_id, seq] = reason

    def note_failure(self, error: sqlite3.Error) -> None:
        """Notes an error of a unit."""
        self.writing, self.message = kind(error), str(error)
        self.read(error)

    def read(self, error: sqlite3.Error) -> None:
        """Notes an error of a reader; only damage of the file counts."""
        if kind(error) is Storage.CORRUPT:
            self.damage = self.damage or str(error)

    def note_success(self) -> None:
        """Notes a successful write."""
        self.writing, self.message = Storage.OK, ""
