"""Report on an erasure: the erased rows and lines, and the remaining copies."""

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from skerry.model.memory import MemoryHit


class ForgottenLine(Struct, frozen=True):
    """An erased statement of a file."""

    path: str
    """Path in the form of search results."""
    line: int
    """Line on which it begins, from 1."""
    text: str
    """The statement, shortened."""


class HoldingBackup(Struct, frozen=True):
    """A backup of the database that still has the statement."""

    name: str
    path: str
    made_at: int
    """Time in milliseconds since 1970."""
    until: int | None
    """Approximate time of its deletion, in milliseconds since 1970; None if unknown."""
    remedy: str
    """Remedy for the copy, for people."""


class Forgotten(Struct, frozen=True):
    """Numbers of erased rows and lines; in a preview, of those that would be erased."""

    messages: int = 0
    """Entries of transcripts."""
    summaries: int = 0
    """Summaries of compactions."""
    runs: int = 0
    """Requests, partial answers and results in the ledger."""
    replies: int = 0
    """Parts in the outbox."""
    answers: int = 0
    """Stored answers to repeated requests."""
    labels: int = 0
    """Names of conversations."""
    records: int = 0
    """Jobs and their logs, names of sub-agents and of senders, last heartbeats."""
    media: int = 0
    """Copies of files that people sent or received."""
    conversations: int = 0
    """Conversations that contained the statement."""
    documents: int = 0
    """Documents of the search index."""
    lines: Sequence[ForgottenLine] = ()
    """Lines of the agent's Markdown files."""
    left: Sequence[tuple[str, str]] = ()
    """Files that may still contain the statement, each with the reason."""
    backups: Sequence[HoldingBackup] = ()
    waits: int = 0
    """Runs that may still have the statement in memory; the erasure is repeated when they end."""
    done: bool = False
    """True if no copy remains."""

    @property
    def rows(self) -> int:
        """Returns the number of database rows that contained the statement."""
        entries = self.messages + self.summaries + self.labels
        return entries + self.runs + self.replies + self.answers + self.records


def forgotten_json(
    forgotten: Forgotten, near: Sequence[MemoryHit], *, shows: bool, max_chars: int = 1000
) -> dict[str, Any]:
    """Returns the report as a JSON object (pure).

    `shows` includes the texts of the lines. The text of a passage is cut after `max_chars`.
    """
    counted = asdict(forgotten)
    lines = [asdict(line) for line in forgotten.lines]
    for line in lines if not shows else ():
        del line["text"]
    remaining = [{"path": path, "reason": reason} for path, reason in forgotten.left]
    backups = [_backup(backup) for backup in forgotten.backups]
    passages = [
        {"path": hit.path, "line": hit.start_line, "text": hit.text[:max_chars]} for hit in near
    ]
    return {**counted, "lines": lines, "left": remaining, "backups": backups, "near": passages}


def _backup(backup: HoldingBackup) -> dict[str, Any]:
    return {
        "name": backup.name,
        "path": backup.path,
        "madeAt": backup.made_at,
        "until": backup.until,
        "remedy": backup.remedy,
    }
