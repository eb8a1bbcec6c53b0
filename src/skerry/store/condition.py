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
    """The database is damaged; what is new is not taken, so that it is not lost."""

    code = "state.corrupt"
    remedy = "Stop the gateway, then: skerry backup restore"

    def __init__(self, damage: str) -> None:
        super().__init__(f"The database is damaged ({damage}); no new messages are accepted.")


class Storage(StrEnum):
    """Condition of the database; `Condition.works` decides whether the gateway is ready."""

    OK = "ok"
    CHECKING = "checking"
    """The gateway before did not end in order; whether the file is sound is being looked at."""
    FULL = "full"
    READ_ONLY = "read-only"
    BUSY = "busy"
    """Another program holds it."""
    CORRUPT = "corrupt"
    """Unreadable data in the database: no new work is accepted."""
    FAILING = "failing"
    """Anything else, such as a disk that breaks."""


REMEDIES: Final = MappingProxyType(
    {
        Storage.OK: "",
        Storage.CHECKING: "Wait; messages are accepted meanwhile.",
        Storage.FULL: "Make room on its disk; the gateway continues by itself.",
        Storage.READ_ONLY: "Make the state directory writable; the gateway continues by itself.",
        Storage.BUSY: "Close the other program that has state.sqlite open.",
        Storage.CORRUPT: "Stop the gateway, then: skerry backup restore",
        Storage.FAILING: "Look at its disk; `skerry doctor` and `skerry logs` say more.",
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
    code = getattr(error, "sqlite_errorcode", None)  # not all errors come from SQLite itself
    return _KINDS.get(code & 0xFF, Storage.FAILING) if code else Storage.FAILING


def is_database_fault(error: BaseException) -> TypeGuard[sqlite3.Error]:
    """Returns whether the file is at fault, not the statement."""
    if isinstance(error, sqlite3.OperationalError):
        return True
    return type(error) is sqlite3.DatabaseError


NO_TEXT: Final = "Could not decode to UTF-8"
"""Message of the module for a text whose bytes differ from those written."""
NAMED: Final = 5
"""Entries that a message names; the rest it counts."""
ENTRIES_REMEDY: Final = (
    "`skerry sessions recovered list` names them; with the gateway stopped, `import` mends those"
    " that the transcript files still have, and `accept` gives up those that no file has."
)


class Condition(Struct):
    """The last that is known. The writer and the readers note what they meet."""

    writing: Storage = Storage.OK
    """Condition that the last unit met that changed something, or tried to."""
    message: str = ""
    damage: str = ""
    """Unreadable part of the file; kept until a check finds the file sound."""
    entries: dict[tuple[str, int], str] = field(default_factory=dict)
    """Entries that cannot be read, by session and number, each with why. They are skipped."""
    checking: bool = False
    aside: RecoveryNotice | None = None
    """Notice about transcript lines that the database does not have; they are kept beside it."""

    @property
    def storage(self) -> Storage:
        """Returns the worst of it."""
        if self.damage or self.entries:
            return Storage.CORRUPT
        if self.writing is not Storage.OK:
            return self.writing
        return Storage.CHECKING if self.checking else Storage.OK

    @property
    def works(self) -> bool:
        """Returns whether the gateway can serve with it.

        Entries that cannot be read do not count: no restart and no other gateway brings them back,
        so a load balancer that takes this gateway out would only turn every other message away.
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
        problem = (
            f"entries of transcripts cannot be read and are left out: {listed}; all else works"
        )
        return problem, ENTRIES_REMEDY

    def broken(self, session_id: str, seq: int, reason: str) -> None:
        """Notes an entry that cannot be read."""
        if (session_id, seq) not in self.entries:
            logger.error("entry %d of session %s cannot be read: %s", seq, session_id, reason)
            self.entries[session_id, seq] = reason

    def note_failure(self, error: sqlite3.Error) -> None:
        """Notes an error of a unit."""
        self.writing, self.message = kind(error), str(error)
        self.read(error)

    def read(self, error: sqlite3.Error) -> None:
        """Notes an error of a reader: of interest only where the file is damaged."""
        if kind(error) is Storage.CORRUPT:
            self.damage = self.damage or str(error)

    def note_success(self) -> None:
        """Notes that something was written."""
        self.writing, self.message = Storage.OK, ""
