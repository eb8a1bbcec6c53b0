"""Results of a search in transcripts."""

from collections.abc import Sequence

from msgspec import Struct

from skerry.model.ids import SessionId
from skerry.model.session import entry_id


class Excerpt(Struct, frozen=True):
    """One entry, as an excerpt."""

    seq: int
    at: int
    role: str
    """`user`, `assistant` or `toolResult`."""
    text: str

    @property
    def entry(self) -> str:
        """Returns the entry's id in the transcript."""
        return entry_id(self.seq)


class TranscriptHit(Struct, frozen=True):
    """An entry with words of the question, and the entries before and after it."""

    key: str
    session_id: SessionId
    excerpt: Excerpt
    before: Excerpt | None
    after: Excerpt | None
    archived: bool = False
    """True if the entry is from an earlier session of its conversation."""


class SearchResults(Struct, frozen=True):
    """Hits of a search, the best first."""

    hits: Sequence[TranscriptHit]
    complete: bool = True
    """True if all entries could be searched."""
