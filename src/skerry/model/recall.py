"""What a search in transcripts finds."""

from collections.abc import Sequence
from dataclasses import dataclass

from skerry.model.ids import SessionId
from skerry.model.session import entry_id


@dataclass(frozen=True, slots=True)
class Said:
    """One entry, as an excerpt."""

    seq: int
    at: int
    role: str
    """`user`, `assistant` or `toolResult`."""
    text: str

    @property
    def entry(self) -> str:
        """Return the entry's id in the transcript."""
        return entry_id(self.seq)


@dataclass(frozen=True, slots=True)
class Hit:
    """An entry in which words of the question stand, with what stands around it."""

    key: str
    session_id: SessionId
    said: Said
    before: Said | None
    after: Said | None
    archived: bool = False
    """Whether it is from an earlier incarnation of its conversation."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found, the best first."""

    hits: Sequence[Hit]
    complete: bool = True
    """Whether all that was said could be searched."""
