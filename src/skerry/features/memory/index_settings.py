"""Settings of an agent's built-in memory, from the configuration (pure)."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from skerry.config.root import Config
from skerry.features.memory.index_keeper import Rhythm
from skerry.features.memory.late import index_search, indexer
from skerry.model.ids import AgentId
from skerry.model.memory import MemorySource


class MemoryPaths(Struct, frozen=True):
    """Paths of an agent's Markdown files."""

    workspace: Path
    extra: Sequence[Path] = ()
    """Further Markdown files, or folders of them; relative ones are in the workspace."""
    enabled: bool = True
    """Enables the indexing of files."""


def memory_paths(config: Config, agent: AgentId) -> MemoryPaths:
    """Returns the paths of the agent's files."""
    search = config.memory_search(agent)
    extra = tuple(Path(extra_path) for extra_path in search.extra_paths)
    return MemoryPaths(config.workspace(agent), extra, MemorySource.MEMORY in search.sources)


def settings(config: Config, agent: AgentId) -> "indexer.IndexSettings":
    """Returns the settings of the index."""
    search = config.memory_search(agent)
    size, overlap = search.chunking.sizes
    sessions = search.sync.sessions
    return indexer.IndexSettings(
        memory_paths(config, agent),
        size,
        overlap,
        config.agents.defaults.user_timezone,
        config.memory.qmd.sessions.retention_days,
        sessions.delta_bytes,
        sessions.delta_messages,
        sessions.cpu_percent / 100,
        search.cache.max_entries if search.cache.enabled else 0,
    )


def has_sessions(config: Config, agent: AgentId) -> bool:
    """Returns whether conversations are indexed."""
    configured = MemorySource.SESSIONS in config.memory_search(agent).sources
    return configured and config.memory.qmd.sessions.enabled


def weighing(config: Config, agent: AgentId) -> "index_search.Weighing":
    """Returns the weights of words and vectors."""
    query = config.memory_search(agent).query
    hybrid, decay = query.hybrid, query.hybrid.temporal_decay
    return index_search.Weighing(
        query.profile,
        hybrid.mmr.weight if hybrid.mmr.enabled else None,
        decay.half_life_days if decay.enabled else None,
        decay.floor,
        hybrid.weights,
        hybrid.candidate_multiplier,
    )


def rhythm(config: Config, agent: AgentId) -> Rhythm:
    """Returns the intervals of the index's updates."""
    sync = config.memory_search(agent).sync
    return Rhythm(
        sync.watch,
        sync.watch_debounce_ms / 1000,
        sync.interval_minutes * 60 or None,
        sync.embed_interval_minutes * 60,
        sync.sessions.cpu_percent / 100,
    )
