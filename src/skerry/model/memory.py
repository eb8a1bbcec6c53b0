"""Queries to the memory and their results."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from skerry.model.errors import SkerryError
from skerry.model.ids import SessionKey
from skerry.model.message import Message, ToolResultMessage
from skerry.model.origin import Origin

LONG_TERM: Final = frozenset({"MEMORY.md", "memory.md"})
"""Files that always count as memory; older workspaces have the second."""
FOLDER: Final = "memory"
"""Folder of the workspace for the daily logs and other notes."""
UNVERIFIED: Final = "unverified"
"""Folder in `memory/` for notes that may repeat the words of others than the owner."""


def is_memory(path: str) -> bool:
    """Returns whether a path in the workspace names a file of the memory (pure)."""
    parts = PurePosixPath(path).parts
    if ".." in parts or not path.endswith(".md"):
        return False
    return parts[:1] == (FOLDER,) if len(parts) > 1 else parts[0] in LONG_TERM


def unverified(day: str) -> str:
    """Returns the path for notes of a day that may repeat what others than the owner said."""
    return f"{FOLDER}/{UNVERIFIED}/{day}.md"


def is_unverified(path: str) -> bool:
    """Returns whether a path in the workspace names such notes: found, but never trusted (pure)."""
    parts = PurePosixPath(path.lower()).parts
    return parts[:2] == (FOLDER, UNVERIFIED)


class MemoryBackendError(SkerryError):
    """A memory cannot answer, or cannot write its index."""

    code = "memory"


class MemoryStartingError(MemoryBackendError):
    """A memory cannot answer yet; the next question may find it ready."""

    code = "memory.starting"


class MemorySource(StrEnum):
    """Source of a remembered passage."""

    MEMORY = "memory"
    """A file of the workspace, or of an extra path."""
    SESSIONS = "sessions"
    """Transcript of a conversation."""


class MemoryMode(StrEnum):
    """Method by which a query was answered; each step down finds less and never fails."""

    HYBRID = "hybrid"
    """Search by words and by vectors."""
    TEXT = "text"
    """Search by words alone: no embedding model, or none that answers."""
    NONE = "none"
    """No search."""


class KnownMessages(Struct, frozen=True):
    """Messages of a conversation that a model already has in its context."""

    key: str
    """Session key of the conversation."""
    since: int
    """Time of its first message, in milliseconds since 1970."""
    texts: Callable[[], Iterable[str]]
    """Gives what was said in them, a text a message."""

    @staticmethod
    def of(key: SessionKey, messages: Sequence[Message]) -> "KnownMessages | None":
        """Builds the value from messages of a conversation; None if there are none."""
        if not messages:
            return None

        def texts() -> Iterator[str]:
            return (
                message.text for message in messages if not isinstance(message, ToolResultMessage)
            )

        return KnownMessages(str(key), min(message.timestamp for message in messages), texts)


class MemoryQuestion(Struct, frozen=True):
    """Query of the memory, with its filters."""

    text: str
    limit: int = 6
    min_score: float | None = 0.0
    """0 to 1; hits below it are left out. None is as configured, for whoever asks the desk."""
    sources: frozenset[MemorySource] = frozenset(MemorySource)
    path: str | None = None
    """File to search, or, if it ends with `/`, folder."""
    since: int | None = None
    """Time of the oldest passage to search, in milliseconds since 1970."""
    until: int | None = None
    """Time before which passages are searched, in milliseconds since 1970."""
    session: str | None = None
    """Session key of the only conversation to search."""
    profile: str | None = None
    """Name of the weighting of words and vectors; None takes the configured one."""
    explain: bool = False
    """Adds the reasons for its rank to each hit."""
    patience: float = 0.0
    """Seconds beyond the usual that may be waited for a model that is being loaded."""
    opens: Callable[[str], bool] | None = None
    """Tells of the key of a conversation whether what was said there may be found; None is all."""
    context_messages: KnownMessages | None = None
    """Messages in the asking model's context, which are left out."""
    sufficient_score: float = 0.0
    """Score, 0 to 1, that the best hit needs, else nothing is found; the weaker hits are kept with
    the best: an answer has several parts, and not each has the question's words."""


class MemoryHit(Struct, frozen=True):
    """A passage that was found."""

    path: str
    """Relative to the workspace; `sessions/<id>.md` of a conversation; `qmd/<collection>/<path>` of
    QMD."""
    start_line: int
    end_line: int
    score: float
    """0 to 1, the best first."""
    text: str
    """The whole passage; whoever shows it cuts it."""
    source: MemorySource
    at: int | None = None
    """Its date, in ms since 1970."""
    session: str | None = None
    """The key of the conversation in which it was said; without it nobody is shown what has the
    source `sessions`."""
    explanation: Sequence[tuple[str, float]] = ()
    """The parts of its score by name, in the order in which they were applied."""


class MemoryFallback(Struct, frozen=True):
    """Memory that should have answered, and the reason why it did not."""

    origin: str
    """A backend (`qmd`) or an embedding provider (`openai`)."""
    reason: str


class MemoryAnswer(Struct, frozen=True):
    """Result of a search."""

    hits: Sequence[MemoryHit]
    backend: str
    """`builtin` or `qmd`: who served it."""
    provider: str
    """Provider of the embeddings; `none` if only words were compared."""
    model: str
    mode: MemoryMode
    fallback: MemoryFallback | None = None
    notes: Sequence[str] = ()
    """Reasons why the answer is incomplete, for people."""


class MemoryDocument(Struct, frozen=True):
    """A document that is found and is no file of the workspace or of an extra path."""

    text: str
    source: MemorySource
    session: str | None = None
    """The key of the conversation that it is."""


class MemoryProvenance(Struct, frozen=True):
    """Origin, place and time of a note."""

    id: str
    line: int
    """Line on which the note ends."""
    origin: Origin
    conversation: str
    """The key of the conversation; `gateway` for a person at the gateway itself."""
    at: str
    """Time, such as `2026-11-22T08:24Z`."""
    is_edited: bool
    """True when the text of the note was changed since."""


class MemoryText(Struct, frozen=True):
    """Lines of a document, as they were asked for."""

    path: str
    text: str
    start_line: int = 1
    next_line: int | None = None
    """Line at which the rest begins, if the text was cut."""
    hint: str = ""
    """Advice for the reader if there is no text."""
    notes: Sequence[MemoryProvenance] = ()
    """Provenance of the notes of which all lines are included."""


class MemoryNote(Struct, frozen=True):
    """A note as a file has it."""

    path: str
    text: str
    provenance: MemoryProvenance


class MemoryFile(Struct, frozen=True):
    """A document of the memory, as it is listed."""

    path: str
    source: MemorySource
    size: int
    """Size in bytes."""
    changed_at: int
    """Time of the last change, in milliseconds since 1970."""
    day: str | None = None
    """Day of a daily log, such as `2026-11-22`."""
    passages: int | None = None
    """Number of indexed passages; None if the file is not indexed yet, or by another memory."""
    vectors: int | None = None
    """Number of passages that have a vector."""
    error: str = ""
    """Reason why the file is not indexed."""
    session: str | None = None
    """The key of the conversation that it is."""
    encoding: str = ""
    """Encoding by which it was read, if it is not UTF-8."""


class MemoryWhole(Struct, frozen=True):
    """All of a file, to be edited."""

    path: str
    text: str
    hash: str
    """Hash of the content, for `save`; empty if the file does not exist yet."""
    notes: Sequence[MemoryProvenance] = ()


class MemorySaved(Struct, frozen=True):
    """A file that was saved."""

    path: str
    hash: str
    is_new: bool


class MemoryNoted(Struct, frozen=True):
    """A note that was written; `id` takes it out again."""

    id: str
    path: str
    start_line: int
    end_line: int


class MemoryUndone(Struct, frozen=True):
    """A note that was taken out."""

    id: str
    path: str
    text: str


class MemoryProgress(Struct, frozen=True):
    """Progress of an index job."""

    stage: str
    """`files`, `sessions`, `embeddings`."""
    done: int
    total: int


class SyncReport(Struct, frozen=True):
    """Result of an index job."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    chunks: int = 0
    """Number of passages written."""
    embedded: int = 0
    """Texts that a model was asked for; the others came from the cache."""
    failed: Sequence[tuple[str, str]] = ()
    """Files that could not be indexed, each with the reason."""
    backend: str = ""
    """The memory that was synced; empty where there is only one."""
    fallback: "MemoryFallback | None" = None
    """Reason why another memory was synced than the configured one."""

    def joined(self, other: "SyncReport") -> "SyncReport":
        """Returns the report of both."""
        return SyncReport(
            self.added + other.added,
            self.changed + other.changed,
            self.removed + other.removed,
            self.unchanged + other.unchanged,
            self.chunks + other.chunks,
            self.embedded + other.embedded,
            (*self.failed, *other.failed),
        )


class MemoryBacklog(Struct, frozen=True):
    """Passages that wait for their vectors; their words are searched meanwhile."""

    notes: int
    """Passages of files."""
    said: int
    """Passages of conversations."""
    seconds: float | None
    """Estimated seconds until all have theirs; None if those of conversations get none."""


class MemoryStatus(Struct, frozen=True):
    """The state of an agent's memory."""

    agent: str
    backend: str
    """`builtin` or `qmd`: who would serve a search now."""
    files: int
    chunks: int
    dirty: bool
    """True when something changed since the last indexing."""
    indexed_at: int | None
    """Time in milliseconds since 1970."""
    provider: str
    model: str
    mode: MemoryMode
    vectors: int
    """Passages that have one of the present model."""
    fallback: MemoryFallback | None = None
    sources: Sequence[tuple[str, int, int]] = ()
    """Each source with its files and passages."""
    lacking: Sequence[tuple[str, int, int]] = ()
    """Each source with its passages that have no vector, and those of them that never get one."""
    backlog: MemoryBacklog | None = None
    database: str = ""
    """Path of the index."""
    notes: Sequence[str] = ()
    """Problems, each with its remedy."""
    progress: MemoryProgress | None = None
    """Progress of the index job that runs now."""


class TrackedConversation(Struct, frozen=True):
    """An incarnation of a conversation, as far as the memory follows it."""

    session_id: str
    key: str
    entries: int
    """Number of entries in its transcript."""
    size: int
    """Bytes of them, about."""
    updated_at: int
    """Time in milliseconds since 1970."""


class Utterance(Struct, frozen=True):
    """Text of the person or the assistant in a conversation."""

    by_user: bool
    """True for the person, false for the assistant."""
    text: str
    at: int
    """Time in milliseconds since 1970."""
    seq: int = 0
    """Number of its entry in the transcript, from 1; 0 where it is not known."""
