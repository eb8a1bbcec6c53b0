"""The section `memory.qmd`: the program QMD in the memory slot. Source: seed 003, "QMD"."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

from pydantic import BeforeValidator, Field, field_validator

from skerry.config.base import OpenSection
from skerry.config.session import SPAN, duration

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_DAY: Final = 24 * 60 * _MINUTE
_Duration = Annotated[int, BeforeValidator(duration), SPAN]


class QmdSearchMode(StrEnum):
    """Search command of QMD."""

    SEARCH = "search"
    """Searches by words."""
    VSEARCH = "vsearch"
    """Searches by meaning."""
    QUERY = "query"
    """Searches by both."""


class QmdPath(OpenSection):
    """A folder, or one Markdown file, that is searched in addition to the workspace's memory."""

    path: str = Field(min_length=1, max_length=4096)
    """Absolute, under `~`, or within the workspace."""
    pattern: str = Field(default="**/*.md", min_length=1, max_length=256)
    """Glob pattern of the files in the folder."""
    name: str | None = Field(default=None, max_length=64)
    """Name of the collection; `custom-1`, `custom-2` and so on when unset."""

    @field_validator("pattern")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        if value.startswith(("/", "~", "-")) or ".." in value.split("/"):
            raise ValueError("it must be a pattern within the folder, such as **/*.md")
        return value


class QmdSessions(OpenSection):
    """Conversations as Markdown files that QMD searches."""

    enabled: bool = True
    """Enables the writing of these files."""
    retention_days: int = Field(default=30, ge=1, le=3650)
    """Days without an entry after which a conversation is not searched any more."""


class QmdUpdate(OpenSection):
    """Schedule on which QMD updates its index."""

    interval: _Duration = Field(default=5 * _MINUTE, ge=10 * _SECOND, le=_DAY)
    """Time between two updates of the text index, such as `5m`."""
    debounce_ms: int = Field(default=15_000, ge=0, le=10 * _MINUTE)
    """Minimum milliseconds between two updates."""
    on_boot: bool = True
    """Updates the index when the gateway starts, in the background."""
    embed_interval: _Duration = Field(default=60 * _MINUTE, ge=_MINUTE, le=7 * _DAY)
    """Time between two refreshes of the vectors, such as `60m`."""
    timeout_ms: int = Field(default=120_000, ge=1_000, le=60 * _MINUTE)
    """Time limit of one update, or of one refresh of the vectors, in milliseconds."""


class QmdLimits(OpenSection):
    """Limits of one query and of its results."""

    max_results: int = Field(default=6, ge=1, le=50)
    """Hits."""
    max_snippet_chars: int = Field(default=700, ge=50, le=20_000)
    """Maximum characters of one hit of QMD; when set, of one hit of any memory."""
    max_injected_chars: int = Field(default=4_000, ge=100, le=100_000)
    """Maximum characters of all hits together."""
    timeout_ms: int = Field(default=4_000, ge=100, le=60_000)
    """Time limit of a query in milliseconds; after it the next memory of the slot answers."""


class QmdConfig(OpenSection):
    """The program QMD, and the files that it searches."""

    command: str = Field(default="qmd", min_length=1, max_length=4096)
    """The program: a name on the PATH, or an absolute path."""
    search_mode: QmdSearchMode = QmdSearchMode.QUERY
    """Search by words, by meaning, or both; without models on this machine always by words."""
    rerank: bool = False
    """Reorders the hits with QMD's reranking model; slow without a graphics card."""
    daemon: bool = True
    """Keeps a QMD server running; otherwise each query starts a process."""
    include_default_memory: bool = True
    """Searches MEMORY.md, memory.md and memory/**/*.md."""
    paths: tuple[QmdPath, ...] = Field(default=(), max_length=50)
    """Additional folders and files to search."""
    sessions: QmdSessions = QmdSessions.model_construct()
    update: QmdUpdate = QmdUpdate.model_construct()
    limits: QmdLimits = QmdLimits.model_construct()

    @field_validator("command")
    @classmethod
    def _names_one_program(cls, value: str) -> str:
        if "/" in value and not Path(value).expanduser().is_absolute():
            raise ValueError("it must be a name on the PATH, or an absolute path")
        return value
