"""Sections `contextPruning` and `compaction`: what a long conversation sends to its model."""

import re
from typing import Any, Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection

_DURATION: Final = r"\s*(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\s*"
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """Returns the seconds of a duration such as `5m` or `1.5h`; a number alone is minutes."""
    match = re.fullmatch(_DURATION, text)
    return float(match[1]) * _SECONDS[match[2] or "m"] if match else 0.0


class PruningTools(OpenSection):
    """Tools whose results may be pruned."""

    allow: tuple[str, ...] = Field(default=(), max_length=200)
    """Names of tools, with `*`; none allows every tool."""
    deny: tuple[str, ...] = Field(default=(), max_length=200)
    """Names of tools, with `*`, whose results are never pruned, whatever `allow` says."""


class SoftTrim(OpenSection):
    """Settings for shortening an old tool result."""

    max_chars: int = Field(default=4000, ge=1)
    """A result with more characters is shortened."""
    head_chars: int = Field(default=1500, ge=0)
    """Characters that are kept of its begin."""
    tail_chars: int = Field(default=1500, ge=0)
    """Characters that are kept of its end."""


class HardClear(OpenSection):
    """Settings for removing an old tool result."""

    enabled: bool = True
    """Enables the removal of old tool results."""
    placeholder: str = Field(default="[Old tool result content cleared]", max_length=2000)
    """Text that replaces a removed result."""


class ContextPruning(OpenSection):
    """Old tool results that are not sent again once the provider's cache of them has expired."""

    mode: Literal["off", "cache-ttl"] = "off"
    """`off`, or `cache-ttl`: when the last call of an Anthropic model is older than `ttl`."""
    ttl: str = Field(default="5m", pattern=f"^{_DURATION}$")
    """Lifetime of the provider's cache, such as `5m` or `1h`."""
    keep_last_assistants: int = Field(default=3, ge=0)
    """The last so many responses are protected, with what follows them."""
    soft_trim_ratio: float = Field(default=0.3, ge=0, le=1)
    """Share of the window below which nothing is shortened."""
    hard_clear_ratio: float = Field(default=0.5, ge=0, le=1)
    """Share of the window below which nothing is removed."""
    min_prunable_tool_chars: int = Field(default=50_000, ge=0)
    """Characters of all old results together below which nothing is removed."""
    tools: PruningTools = PruningTools.model_construct()
    soft_trim: SoftTrim = SoftTrim.model_construct()
    hard_clear: HardClear = HardClear.model_construct()


FLUSH_SYSTEM: Final = "Session nearing compaction. Store durable memories now."
FLUSH_PROMPT: Final = (
    "Write any lasting notes to memory/YYYY-MM-DD.md; reply with NO_REPLY if nothing to store."
)


class MemoryFlush(OpenSection):
    """A silent turn before a compaction, in which the model notes what is to last."""

    enabled: bool = True
    """Enables the silent turn."""
    soft_threshold_tokens: int = Field(default=4000, ge=0)
    """Tokens by which the turn precedes the compaction."""
    system_prompt: str = Field(default=FLUSH_SYSTEM, min_length=1, max_length=20_000)
    """Added to the system prompt."""
    prompt: str = Field(default=FLUSH_PROMPT, min_length=1, max_length=20_000)
    """Prompt for the model. `YYYY-MM-DD` is replaced by the current date."""


class Compaction(OpenSection):
    """Summarises old entries, so that a conversation never ends because of its length."""

    enabled: bool = True
    """Enables automatic compaction; `/compact` works in any case."""
    reserve_tokens: int = Field(default=16_384, ge=0)
    """Tokens of the window that are kept free; `reserveTokensFloor` counts where it is larger."""
    reserve_tokens_floor: int = Field(default=20_000, ge=0)
    """The least that is kept free. Of a small window never more than a third is."""
    keep_recent_tokens: int = Field(default=20_000, ge=0)
    """Tokens of the newest messages that stay as they are; at most a third of what is left."""
    memory_flush: MemoryFlush = MemoryFlush.model_construct()


class LegacyAgent(OpenSection):
    """Settings that older files have under `agent`; they count as those of `agents.defaults`."""

    context_pruning: ContextPruning | None = None
    """Now `agents.defaults.contextPruning`."""
    compaction: Compaction | None = None
    """Now `agents.defaults.compaction`."""


def moved(tree: dict[str, Any]) -> dict[str, Any]:
    """Returns the tree of a file with what stands under `agent` in its present place.

    What `agents.defaults` says itself counts more.
    """
    old, agents = tree.get("agent"), tree.get("agents", {})
    if not isinstance(old, dict) or not isinstance(agents, dict):
        return tree
    defaults = agents.get("defaults", {})
    if not isinstance(defaults, dict):
        return tree
    sections = {key: old[key] for key in ("contextPruning", "compaction") if key in old}
    return {**tree, "agents": {**agents, "defaults": {**sections, **defaults}}}
