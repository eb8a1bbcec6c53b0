"""The tools `memory_search` and `memory_get`.

Sources: seed 003, "Agent Memory Tools"; openclaw-behaviour 10.8.
"""

from typing import Any, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.memory.citations import shows
from skerry.features.memory.results import (
    WIDER,
    clamped,
    failed,
    found,
    gives_orders,
    is_foreign,
    unmarked,
)
from skerry.features.memory.service import Desk
from skerry.model.errors import SkerryError
from skerry.model.memory import MemoryQuestion, MemorySource
from skerry.model.origin import Origin
from skerry.model.provenance import clean
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.decide import effect
from skerry.ports.tool import ToolContext

GO_ON: Final = "Say that memory could not be asked, and answer without it."
_NOBODY: Final = "No person takes part here, so memory stays closed."
_SHARED: Final = "Somebody else takes part in this conversation, and would read it."


class MemorySearchParams(BaseModel):
    """Parameters of `memory_search`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="A question, or words.", min_length=1, max_length=2000)
    # The names that OpenClaw's tool has, and models know.
    maxResults: int | None = Field(default=None, ge=1, le=50)  # noqa: N815
    minScore: float | None = Field(default=None, ge=0, le=1)  # noqa: N815


class MemoryGetParams(BaseModel):
    """Parameters of `memory_get`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    path: str = Field(description="As memory_search gave it.", min_length=1, max_length=1024)
    start: int = Field(default=1, ge=1, le=1_000_000_000, alias="from", description="First line.")
    lines: int | None = Field(default=None, ge=1, le=10_000)


class MemorySearch:
    """Finds what was noted and said. It never fails: what goes wrong is part of its answer."""

    reads_only = True
    spec = ToolSpec(
        "memory_search",
        "Find what was noted or said before: people, preferences, decisions, dates.",
        MemorySearchParams.model_json_schema(),
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.is_offered = desk.is_open

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the passages as JSON, within the limits."""
        params = MemorySearchParams.model_validate(arguments)
        if context.caller is None:
            return _json(failed(_NOBODY, GO_ON))
        if not effect(context.actor, self.spec.name).allowed:
            return _json(failed(_SHARED, GO_ON))
        agent = context.caller.key.agent
        limits = self._desk.limits(agent)
        most = min(params.maxResults or limits.max_results, limits.max_results)
        question = MemoryQuestion(params.query, most * WIDER, params.minScore, heard=context.heard)
        try:
            answer = await self._desk.find(context.caller, question)
        except SkerryError as error:
            return _json(failed(str(error), error.remedy or GO_ON))
        config = self._desk.config()
        mode, zone = config.memory.citations, config.agents.defaults.user_timezone
        cites = shows(mode, context.caller.chat)
        shown = clamped(answer.hits, params.query, limits, cites=cites, most=most)
        # What was said in a conversation may repeat what a page of the web said there.
        said = any(
            hit.source is MemorySource.SESSIONS or is_foreign(hit.path, hit.text)
            for hit, _ in shown
        )
        origin = Origin.TOOL if said else Origin.MEMORY
        return _json(found(answer, shown, mode, cites=cites, zone=zone), origin)


class MemoryGet:
    """Reads a document of the memory. It never fails: what goes wrong is part of its answer."""

    reads_only = True
    spec = ToolSpec(
        "memory_get",
        "Read lines of a memory file.",
        MemoryGetParams.model_json_schema(),
    )

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.is_offered = desk.is_open

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the lines as JSON."""
        params = MemoryGetParams.model_validate(arguments)
        refused: dict[str, Any] = {"path": params.path, "text": "", "disabled": True}
        caller = context.caller
        if caller is None or not effect(context.actor, self.spec.name).allowed:
            return _json({**refused, "error": _SHARED if caller else _NOBODY})
        agent = caller.key.agent
        try:
            found = await self._desk.get(agent, params.path, params.start, params.lines, caller)
        except SkerryError as error:
            return _json({**refused, "error": str(error)})
        told: dict[str, Any] = {"path": found.path, "text": unmarked(clean(found.text))}
        if found.next_line is not None:
            told["nextFrom"] = found.next_line
        if found.hint:
            told["hint"] = found.hint
        if gives_orders(found.text):
            told["suspicious"] = True
        foreign = is_foreign(params.path, found.text)
        if foreign:
            told["unverified"] = True
        said = foreign or params.path.startswith("sessions/")
        return _json(told, Origin.TOOL if said else Origin.MEMORY)


def _json(told: dict[str, Any], origin: Origin = Origin.MEMORY) -> ToolResult:
    return ToolResult(msgspec.json.encode(told).decode(), origin=origin)
