"""Sections `memory` and `memorySearch`: the search engine, its scope and its limits.

Sources: seed 003, "QMD Configuration Reference"; openclaw-behaviour 10.1.
"""

from enum import StrEnum
from typing import Final, Literal

from pydantic import Field

from skerry.config.base import OpenSection, Section
from skerry.config.memory_index import (
    MemoryCache,
    MemoryChunking,
    MemoryQueryConfig,
    MemorySyncConfig,
)
from skerry.config.memory_qmd import QmdConfig
from skerry.config.memory_search import EmbeddingConfig
from skerry.config.session import SendMatch
from skerry.model.memory import MemorySource


class Citations(StrEnum):
    """Cases in which a passage is cited."""

    AUTO = "auto"
    """Cites in direct chats."""
    ON = "on"
    OFF = "off"


class ScopeRule(Section):
    """One rule of the scope."""

    action: Literal["allow", "deny"]
    """Allows or denies reading and writing memory in the conversations that match."""
    match: SendMatch = SendMatch.model_construct()
    """Conditions on the conversation; an empty match means all."""


_DIRECT: Final = ScopeRule.model_construct(
    action="allow", match=SendMatch.model_construct(chat_type="direct")
)


class MemoryScope(Section):
    """Rules for the conversations in which memory is used, for QMD and the built-in memory.

    They do not give other people access: the owner's memory is never shown to them.
    """

    default: Literal["allow", "deny"] = "deny"
    """Action if no rule matches."""
    rules: tuple[ScopeRule, ...] = Field(default=(_DIRECT,), max_length=1000)
    """Rules of the scope. If any matching rule denies, the action is `deny`; else a matching rule
    allows."""


class MemoryQmd(QmdConfig):
    """The program QMD in the memory slot; the built-in memory uses `limits` and `scope` too."""

    scope: MemoryScope = MemoryScope.model_construct()


class MemoryConfig(OpenSection):
    """Memory of the agents in files, and the engine that searches it."""

    backend: Literal["builtin", "qmd"] = "builtin"
    """Search engine: the built-in index, or the program QMD with the built-in index as its
    fallback."""
    citations: Citations = Citations.AUTO
    """Adds the source of each passage: `auto` (in direct chats), `on`, `off`."""
    qmd: MemoryQmd = MemoryQmd.model_construct()


class MemorySearchConfig(EmbeddingConfig):
    """Memory of an agent: its index and its search."""

    enabled: bool = True
    """Offers the memory tools to the model and lets it read passages again after a summary."""
    extra_paths: tuple[str, ...] = Field(default=(), max_length=100)
    """Additional Markdown files and folders of them to index; relative to the workspace."""
    sources: tuple[MemorySource, ...] = Field(default=tuple(MemorySource), max_length=2)
    """Sources of the index: `memory` for the files, `sessions` for conversations."""
    chunking: MemoryChunking = MemoryChunking.model_construct()
    query: MemoryQueryConfig = MemoryQueryConfig.model_construct()
    sync: MemorySyncConfig = MemorySyncConfig.model_construct()
    cache: MemoryCache = MemoryCache.model_construct()
