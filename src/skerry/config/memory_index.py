"""Index settings of section `memorySearch`: its content, its updates and its search.

Sources: openclaw-behaviour 10.1; seed 003, "Chunking Parameters".
"""

from typing import Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection

PRESETS: Final = {"256/32": (256, 32), "400/80": (400, 80), "1024/128": (1024, 128)}


class MemoryChunking(OpenSection):
    """Size of the passages of a file; a change rebuilds the index in the background."""

    preset: Literal["256/32", "400/80", "1024/128"] = "256/32"
    """Tokens of a passage, and those that it shares with the next; a token is 4 characters."""
    tokens: int | None = Field(default=None, ge=16, le=8192)
    """Tokens of a passage, in place of the preset's."""
    overlap: int | None = Field(default=None, ge=0, le=4096)
    """Tokens shared by adjacent passages, in place of the preset's; at most half a passage."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Returns the tokens of a passage, and those that it shares with the next."""
        tokens, overlap = PRESETS[self.preset]
        tokens = tokens if self.tokens is None else self.tokens
        overlap = overlap if self.overlap is None else self.overlap
        return tokens, min(overlap, tokens // 2)


class MemoryMmr(OpenSection):
    """Maximal marginal relevance: hits that differ come before those that repeat."""

    enabled: bool = False
    """Enables the reordering of hits."""
    weight: float = Field(default=0.7, ge=0, le=1, alias="lambda")
    """1 is relevance alone, 0 is difference alone."""


class MemoryDecay(OpenSection):
    """Daily logs count for less as they grow old; MEMORY.md and undated files do not."""

    enabled: bool = False
    """Enables the decay by age."""
    half_life_days: float = Field(default=30.0, gt=0, le=36_500)
    """Days in which a score halves."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The share of a score that no age takes."""


class MemoryHybrid(OpenSection):
    """Weights of word search and vector search."""

    enabled: bool = True
    """Enables word search beside vector search; without an embedding model only words are searched
    in any case."""
    vector_weight: float | None = Field(default=None, ge=0, le=1)
    """Weight of vector search, in place of the profile's; the two weights count by their ratio."""
    text_weight: float | None = Field(default=None, ge=0, le=1)
    """Weight of word search, in place of the profile's."""
    candidate_multiplier: int | None = Field(default=None, ge=1, le=20)
    """Passages of each side that are weighed for each hit, for profiles that weigh but the best."""
    mmr: MemoryMmr = MemoryMmr.model_construct()
    temporal_decay: MemoryDecay = MemoryDecay.model_construct()

    @property
    def weights(self) -> tuple[float, float] | None:
        """Returns the weights of meaning and words; None are the profile's."""
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
    """Passages of one answer, in place of `memory.qmd.limits.maxResults`."""
    min_score: float = Field(default=0.3, ge=0, le=1)
    """Score of the best hit below which nothing is found, unless the caller names a lowest score of
    hits."""
    profile: Literal["best", "openclaw", "classic"] = "best"
    """Formula of the scores: our best by measurement, or one of OpenClaw's formulas."""
    hybrid: MemoryHybrid = MemoryHybrid.model_construct()


class MemorySyncSessions(OpenSection):
    """Indexing of conversations that are still in use, and the CPU share for their vectors.

    One that rests for five minutes is always indexed, and for some seconds where a tenth or 16
    entries are new. What is indexed already is not read again, but for the last 64 entries.
    """

    delta_bytes: int = Field(default=100_000, ge=0, le=1_000_000_000)
    """New bytes after which it is indexed."""
    delta_messages: int = Field(default=50, ge=0, le=1_000_000)
    """New entries after which it is indexed."""
    cpu_percent: float = Field(default=0.2, ge=0, le=100)
    """Share of one core, in percent on average, for the vectors of conversations; their words are
    searchable at once. With 0 they have no vectors, with 100 they get them at once."""


class MemorySyncConfig(OpenSection):
    """Updates of the index. Every search also checks the files before it answers."""

    watch: bool = True
    """Checks the files for changes every few seconds."""
    watch_debounce_ms: int = Field(default=1500, ge=0, le=600_000)
    """Milliseconds without a further change after which changed files are indexed."""
    interval_minutes: float = Field(default=5.0, ge=0, le=1440)
    """Minutes between two rounds over all files and conversations; with 0 only changes start
    one."""
    embed_interval_minutes: float = Field(default=60.0, gt=0, le=10_080)
    """Minutes between two rounds over passages without a vector."""
    sessions: MemorySyncSessions = MemorySyncSessions.model_construct()


class MemoryCache(OpenSection):
    """Vectors by the text that they are of: a text that comes again costs nothing."""

    enabled: bool = True
    """Keeps vectors whose text is gone."""
    max_entries: int | None = Field(default=None, ge=0, le=10_000_000)
    """Beyond so many, those of texts that are gone are forgotten; else beyond twice the passages
    and 20,000."""
