"""Index settings of section `memorySearch`: passages, updates and search.

Sources: openclaw-behaviour 10.1; seed 003, "Chunking Parameters".
"""

from typing import Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection

PRESETS: Final = {"256/32": (256, 32), "400/80": (400, 80), "1024/128": (1024, 128)}


class MemoryChunking(OpenSection):
    """Size of the passages of a file; a change rebuilds the index in the background."""

    preset: Literal["256/32", "400/80", "1024/128"] = "256/32"
    """Tokens of a passage, and tokens that adjacent passages share; a token is 4 characters."""
    tokens: int | None = Field(default=None, ge=16, le=8192)
    """Tokens of a passage, instead of the preset's."""
    overlap: int | None = Field(default=None, ge=0, le=4096)
    """Tokens that adjacent passages share, instead of the preset's; at most half a passage."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Returns the tokens of a passage, and the tokens that adjacent passages share."""
        tokens, overlap = PRESETS[self.preset]
        tokens = tokens if self.tokens is None else self.tokens
        overlap = overlap if self.overlap is None else self.overlap
        return tokens, min(overlap, tokens // 2)


class MemoryMmr(OpenSection):
    """Maximal marginal relevance: ranks hits that differ above hits that repeat others."""

    enabled: bool = False
    """Enables the reordering of hits."""
    weight: float = Field(default=0.7, ge=0, le=1, alias="lambda")
    """Weight of relevance against difference: 1 is relevance only, 0 is difference only."""


class MemoryDecay(OpenSection):
    """Lower scores for older daily logs; MEMORY.md and undated files are not affected."""

    enabled: bool = False
    """Enables the decay by age."""
    half_life_days: float = Field(default=30.0, gt=0, le=36_500)
    """Days in which a score halves."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """Minimum share of the score that remains at any age."""


class MemoryHybrid(OpenSection):
    """Weights of word search and vector search."""

    enabled: bool = True
    """Enables word search in addition to vector search; without an embedding model only words are
    searched in any case."""
    vector_weight: float | None = Field(default=None, ge=0, le=1)
    """Weight of vector search, instead of the profile's; only the ratio of the weights matters."""
    text_weight: float | None = Field(default=None, ge=0, le=1)
    """Weight of word search, instead of the profile's."""
    candidate_multiplier: int | None = Field(default=None, ge=1, le=20)
    """Candidates of each search per requested hit, for profiles that score only the best
    candidates."""
    mmr: MemoryMmr = MemoryMmr.model_construct()
    temporal_decay: MemoryDecay = MemoryDecay.model_construct()

    @property
    def weights(self) -> tuple[float, float] | None:
        """Returns the weights of vectors and words; None takes the profile's."""
        if not self.enabled:
            return 1.0, 0.0
        vector, text = self.vector_weight, self.text_weight
        if vector is None and text is None:
            return None
        vector = 1 - (text or 0.0) if vector is None else vector
        text = 1 - vector if text is None else text
        return (vector, text) if vector + text > 0 else None


class MemoryQueryConfig(OpenSection):
    """Search of the index."""

    max_results: int | None = Field(default=None, ge=1, le=50)
    """Maximum passages of one answer, instead of `memory.qmd.limits.maxResults`."""
    min_score: float = Field(default=0.3, ge=0, le=1)
    """Minimum score of the best hit; below it a search has no hits, unless the call has a minimum
    score."""
    profile: Literal["best", "openclaw", "classic"] = "best"
    """Formula of the scores: `best` by measurement, or one of the formulas of OpenClaw."""
    hybrid: MemoryHybrid = MemoryHybrid.model_construct()


class MemorySyncSessions(OpenSection):
    """Indexing of conversations that are in use, and the CPU share for their vectors.

    A conversation without new entries for five minutes is always indexed; if a tenth or 16 of its
    entries are new, some seconds suffice. Only new entries and the last 64 before them are read.
    """

    delta_bytes: int = Field(default=100_000, ge=0, le=1_000_000_000)
    """New bytes after which a conversation is indexed."""
    delta_messages: int = Field(default=50, ge=0, le=1_000_000)
    """New entries after which a conversation is indexed."""
    cpu_percent: float = Field(default=0.2, ge=0, le=100)
    """Average share of one core, in percent, for the vectors of conversations; their words can be
    searched at once. With 0 they get no vectors, with 100 they get them at once."""


class MemorySyncConfig(OpenSection):
    """Updates of the index. Every search also checks the files before it answers."""

    watch: bool = True
    """Checks the files for changes every few seconds."""
    watch_debounce_ms: int = Field(default=1500, ge=0, le=600_000)
    """Milliseconds without a further change after which changed files are indexed."""
    interval_minutes: float = Field(default=5.0, ge=0, le=1440)
    """Minutes between two checks of all files and conversations; with 0 only changes start a
    check."""
    embed_interval_minutes: float = Field(default=60.0, gt=0, le=10_080)
    """Minutes between two attempts to embed all passages without a vector."""
    sessions: MemorySyncSessions = MemorySyncSessions.model_construct()


class MemoryCache(OpenSection):
    """Cache of vectors by text: a text that returns is not embedded again."""

    enabled: bool = True
    """Keeps the vectors of texts that are not in the index any more."""
    max_entries: int | None = Field(default=None, ge=0, le=10_000_000)
    """Maximum number of vectors; above it, vectors of texts that are not in the index are deleted.
    When unset, twice the number of passages, and at least 20,000."""
