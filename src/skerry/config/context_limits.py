"""Sections `contextPruning` and `compaction`: limits on the context of a long conversation."""

import re
from typing import Any, Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection

_DURATION: Final = r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as `5m` or `1.5h`; a bare number is minutes."""
    match = re.fullmatch(_DURATION, text)
    return float(match[1]) * _SECONDS[match[2] or "m"] if match else 0.0


class PruningTools(OpenSection):
    """Tools whose results may be pruned."""

    allow: tuple[str, ...] = Field(default=(), max_length=200)
    """Names of the tools, with `*` as wildcard; an empty list allows every tool."""
    deny: tuple[str, ...] = Field(default=(), max_length=200)
    """Names of tools, with `*` as wildcard, whose results are never pruned, even if in `allow`."""


class SoftTrim(OpenSection):
    """Settings for shortening an old tool result."""

    max_chars: int = Field(default=4000, ge=1)
    """A result with more characters is shortened."""
    head_chars: int = Field(default=1500, ge=0)
    """Characters that are kept of its beginning."""
    tail_chars: int = Field(default=1500, ge=0)
    """Characters that are kept of its end."""


class HardClear(OpenSection):
    """Settings for removing an old tool result."""

    enabled: bool = True
    """Enables the removal of old tool results."""
    placeholder: str = Field(default="[Old tool result content cleared]", max_length=2000)
    """Text that replaces a removed result."""


class ContextPruning(OpenSection):
    """Removal of old tool results from the context after the provider's cache has expired."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`off`, or `cache-ttl`: prunes if the last call of an Anthropic model is older than `ttl`."""
    ttl: str = Field(default="5m", pattern=f"^{_DURATION}$")
    """Lifetime of the provider's cache, such as `5m` or `1h`."""
    keep_last_assistants: int = Field(default=3, ge=0)
    """Number of the newest responses that are kept unchanged, with all entries after them."""
    soft_trim_ratio: float = Field(default=0.3, ge=0, le=1)
    """Share of the context window from which results are shortened."""
    hard_clear_ratio: float = Field(default=0.5, ge=0, le=1)
    """Share of the context window from which results are removed."""
    min_prunable_tool_chars: int = Field(default=50_000, ge=0)
    """Minimum characters of all old results together; below it no result is removed."""
    tools: PruningTools = PruningTools.model_construct()
    soft_trim: SoftTrim = SoftTrim.model_construct()
    hard_clear: HardClear = HardClear.model_construct()


FLUSH_SYSTEM: Final = "Session nearing compaction. Store durable memories now."
FLUSH_PROMPT: Final = (
    "Write any lasting notes to memory/YYYY-MM-DD.md; reply with NO_REPLY if nothing to store."
)


class MemoryFlush(OpenSection):
    """A silent turn before a compaction, in which the model writes lasting notes."""

    enabled: bool = True
    """Enables the silent turn."""
    soft_threshold_tokens: int = Field(default=4000, ge=0)
    """Number of tokens before the compaction threshold at which the turn runs."""
    system_prompt: str = Field(default=FLUSH_SYSTEM, min_length=1, max_length=20_000)
    """Text that is added to the system prompt."""
    prompt: str = Field(default=FLUSH_PROMPT, min_length=1, max_length=20_000)
    """Prompt for the model. `YYYY-MM-DD` is replaced by the current date."""


class Compaction(OpenSection):
    """Summaries of old entries, so that a conversation may grow beyond the context window."""

    enabled: bool = True
    """Enables automatic compaction; `/compact` works in any case."""
    reserve_tokens: int = Field(default=16_384, ge=0)
    """Tokens of the context window that are kept free; if `reserveTokensFloor` is larger, it is
    used instead."""
    reserve_tokens_floor: int = Field(default=20_000, ge=0)
    """Minimum of the tokens that are kept free, but never more than a third of the window."""
    keep_recent_tokens: int = Field(default=20_000, ge=0)
    """Tokens of the newest messages that are not summarised; at most a third of the tokens that are
    not kept free."""
    memory_flush: MemoryFlush = MemoryFlush.model_construct()


class LegacyAgent(OpenSection):
    """Settings that older files have under `agent`; they are read as those of `agents.defaults`."""

    context_pruning: ContextPruning | None = None
    """Older name of `agents.defaults.contextPruning`."""
    compaction: Compaction | None = None
    """Older name of `agents.defaults.compaction`."""


def moved(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns the tree of a file with the keys under `agent` moved to `agents.defaults`.

    A key that `agents.defaults` has already is kept.
    """
    old, agents = tree.get("agent"), tree.get("agents", {})
    if not isinstance(old, dict) or not isinstance(agents, dict):
        return tree
    defaults = agents.get("defaults", {})
    if not isinstance(defaults, dict):
        return tree
    sections = {key: old[key] for key in ("contextPruning", "compaction") if key in old}
    return {**tree, "agents": {**agents, "defaults": {**sections, **defaults}}}
