"""Memory with fixed content."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryBackendError,
    MemoryDocument,
    MemoryFallback,
    MemoryHit,
    MemoryMode,
    MemoryProgress,
    MemoryQuestion,
    MemorySource,
    MemoryStatus,
    SyncReport,
)


def hit(
    path: str = "memory/2026-11-20.md",
    text: str = "The dentist is in Mill Road.",
    score: float = 0.9,
    lines: tuple[int, int] = (1, 3),
    session: str | None = None,
) -> MemoryHit:
    """Returns a passage; with `session`, a passage of that conversation."""
    source = MemorySource.SESSIONS if session else MemorySource.MEMORY
    return MemoryHit(path, *lines, score, text, source, session=session)


@dataclass
class FakeBackend:
    """Returns its `hits` for every question. Implements `ports.memory.MemoryBackend`.

    A search awaits `wait`, if set, and then raises `failure`, if set.
    """

    hits: Sequence[MemoryHit] = ()
    documents: dict[str, MemoryDocument] = field(default_factory=dict)
    name: str = "fake"
    failure: MemoryBackendError | None = None
    fallback: MemoryFallback | None = None
    questions: list[MemoryQuestion] = field(default_factory=list)
    touched: int = 0
    wait: Callable[[], Awaitable[object]] | None = None

    async def search(self, question: MemoryQuestion) -> MemoryAnswer:
        """Returns up to `question.limit` hits of at least `question.min_score`."""
        self.questions.append(question)
        if self.wait is not None:
            await self.wait()
        if self.failure is not None:
            raise self.failure
        hits = [
            candidate for candidate in self.hits if candidate.score >= (question.min_score or 0.0)
        ][: question.limit]
        if not any(candidate.score >= question.sufficient_score for candidate in hits):
            hits = []
        if question.explain:
            hits = [
                replace(candidate, explanation=(("text", candidate.score),)) for candidate in hits
            ]
        return MemoryAnswer(hits, self.name, "none", "", MemoryMode.TEXT, self.fallback)

    async def document(self, path: str) -> MemoryDocument | None:
        """Returns the document of the path; None without one."""
        return self.documents.get(path)

    async def sync(
        self,
        *,
        force: bool = False,  # noqa: ARG002 - the fake has no index
        progress: Callable[[MemoryProgress], None] | None = None,  # noqa: ARG002 - as above
    ) -> SyncReport:
        """Does nothing."""
        return SyncReport(unchanged=len(self.hits))

    def touch(self) -> None:
        """Counts the call."""
        self.touched += 1

    async def status(self) -> MemoryStatus:
        """Returns a status without problems."""
        count = len(self.hits)
        return MemoryStatus(
            "main", self.name, count, count, self.touched > 0, None, "none", "", MemoryMode.TEXT, 0
        )


@dataclass(frozen=True, slots=True)
class FakeMemories:
    """Returns the same memory for every agent. Implements `ports.memory.Memories`."""

    backend: FakeBackend | None

    def of(self, agent: AgentId) -> FakeBackend | None:  # noqa: ARG002 - one for all
        """Returns the memory."""
        return self.backend
