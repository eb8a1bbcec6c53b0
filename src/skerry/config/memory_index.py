"""What section `memorySearch` says of the index: what is in it, when and how it is searched.

Sources: openclaw-behaviour 10.1; seed 003, "Chunking Parameters".
"""

from typing import Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection

PRESETS: Final = {"256/32": (256, 32), "400/80": (400, 80), "1024/128": (1024, 128)}


class MemoryChunking(OpenSection):
    """How files are cut into passages; a change makes the index anew in the background."""

    preset: Literal["256/32", "400/80", "1024/128"] = "256/32"
    """Tokens of a passage, and those that it shares with the next; a token is 4 characters."""
    tokens: int | None = Field(default=None, ge=16, le=8192)
    """Of a passage, in place of the preset's."""
    overlap: int | None = Field(default=None, ge=0, le=4096)
    """In place of the preset's; at most half a passage."""

    @property
    def sizes(self) -> tuple[int, int]:
        """Return the tokens of a passage, and those that it shares with the next."""
        tokens, overlap = PRESETS[self.preset]
        tokens = tokens if self.tokens is None else self.tokens
        overlap = overlap if self.overlap is None else self.overlap
        return tokens, min(overlap, tokens // 2)


class MemoryMmr(OpenSection):
    """Maximal marginal relevance: hits that differ come before those that repeat."""

    enabled: bool = False
    """Whether it chooses the hits."""
    weight: float = Field(default=0.7, ge=0, le=1, alias="lambda")
    """1 is relevance alone, 0 is difference alone."""


class MemoryDecay(OpenSection):
    """Daily logs count for less as they grow old; MEMORY.md and undated files do not."""

    enabled: bool = False
    """Whether age counts."""
    half_life_days: float = Field(default=30.0, gt=0, le=36_500)
    """Days in which a score halves."""
    floor: float = Field(default=0.0, ge=0, le=1)
    """The share of a score that no age takes."""


class MemoryHybrid(OpenSection):
    """How words and meaning count together."""

    enabled: bool = True
    """Whether words count beside meaning; without a model they count alone in any case."""
    vector_weight: float | None = Field(default=None, ge=0, le=1)
    """Of meaning, in place of the profile's; the two weights count by their ratio."""
    text_weight: float | None = Field(default=None, ge=0, le=1)
    """Of words, in place of the profile's."""
    candidate_multiplier: int | None = Field(default=None, ge=1, le=20)
    """Passages of each side that are weighed for each hit, for profiles that weigh but the best."""
    mmr: MemoryMmr = MemoryMmr.model_construct()
    temporal_decay: MemoryDecay = MemoryDecay.model_construct()

    @property
    def weights(self) -> tuple[float, float] | None:
        """Return the weights of meaning and words; None are the profile's."""
        if not self.enabled:
            return 1.0, 0.0
        vector, text = self.vector_weight, self.text_weight
        if vector is None and text is None:
            return None
        vector = 1 - (text or 0.0) if vector is None else vector
        text = 1 - vector if text is None else text
        return (vector, text) if vector + text > 0 else None


class MemoryQueryConfig(OpenSection):
    """How the index is searched."""

    max_results: int | None = Field(default=None, ge=1, le=50)
    """Passages of one answer, in place of `memory.qmd.limits.maxResults`."""
    min_score: float = Field(default=0.3, ge=0, le=1)
    """Nothing is found where the best hit has less, unless who asks names a least score of hits."""
    profile: Literal["best", "openclaw", "classic"] = "best"
    """How scores are made: our best by measurement, or one of OpenClaw's formulas."""
    hybrid: MemoryHybrid = MemoryHybrid.model_construct()


class MemorySyncSessions(OpenSection):
    """When a conversation that goes on is indexed, and what its vectors may cost.

    One that rests for five minutes is always indexed, and for some seconds where a tenth is new. In
    a long one a tenth takes the place of the limits below, where that is more.
    """

    delta_bytes: int = Field(default=100_000, ge=0, le=1_000_000_000)
    """So many bytes are new."""
    delta_messages: int = Field(default=50, ge=0, le=1_000_000)
    """Or so many entries."""
    cpu_percent: float = Field(default=0.2, ge=0, le=100)
    """Of one core, on average, for the vectors of what was said: their words are searched at once.
    0 is by words alone, 100 at once."""


class MemorySyncConfig(OpenSection):
    """When the index is brought up. Every search looks at the files before it answers besides."""

    watch: bool = True
    """Whether the files are looked at every few seconds."""
    watch_debounce_ms: int = Field(default=1500, ge=0, le=600_000)
    """Milliseconds without a further change after which changed files are indexed."""
    interval_minutes: float = Field(default=5.0, ge=0, le=1440)
    """Between two rounds over all files and conversations; 0 is only after changes."""
    embed_interval_minutes: float = Field(default=60.0, gt=0, le=10_080)
    """Between two rounds over what has no vector yet."""
    sessions: MemorySyncSessions = MemorySyncSessions.model_construct()


class MemoryCache(OpenSection):
    """Vectors by the text that they are of: a text that comes again costs nothing."""

    enabled: bool = True
    """Whether they are kept when their text is gone."""
    max_entries: int | None = Field(default=None, ge=0, le=10_000_000)
    """Beyond so many, those of texts that are gone are forgotten; else beyond twice the passages
    and 20,000."""
