"""Counts of the rows from which an erasure removes statements."""

from msgspec import Struct
from msgspec.structs import fields


class RedactionCounts(Struct, frozen=True):
    """Number of rows with statements, found or erased."""

    entries: int = 0
    """Messages of transcripts."""
    summaries: int = 0
    """Summaries of compactions."""
    runs: int = 0
    """Requests, partial answers and results."""
    replies: int = 0
    """Parts in the outbox."""
    answers: int = 0
    """Stored answers to repeated requests."""
    labels: int = 0
    prompts: int = 0
    """Stored parts of system prompts, and notes of later changes."""
    approvals: int = 0
    """Approvals of tool calls, notes of the last use of patterns, entries of the audit log."""
    records: int = 0
    """Jobs and their log, names of sub-agents and of senders, last heartbeats."""
    media: int = 0
    """Copies of files that were received or sent with the messages."""
    sessions: tuple[str, ...] = ()
    """Ids of the sessions whose transcripts changed."""

    @property
    def rows(self) -> int:
        """Returns the total number of rows."""
        return sum(
            value for field in fields(self) if isinstance(value := getattr(self, field.name), int)
        )

    def __add__(self, other: "RedactionCounts") -> "RedactionCounts":
        return RedactionCounts(
            self.entries + other.entries,
            self.summaries + other.summaries,
            self.runs + other.runs,
            self.replies + other.replies,
            self.answers + other.answers,
            self.labels + other.labels,
            self.prompts + other.prompts,
            self.approvals + other.approvals,
            self.records + other.records,
            self.media + other.media,
            tuple(dict.fromkeys((*self.sessions, *other.sessions))),
        )
