"""Tools of the memory: `memory_search`, `memory_get`, `memory_write` and `memory_forget`.

Every later run reads a model's notes, and an erasure also changes the transcripts. A model may
therefore do neither in a conversation with text of anybody but the owner. The owner can use
`/remember` and `/forget`, which run without a model.

Sources: seed 003, "Agent Memory Tools"; openclaw-behaviour 10.8.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Final

import msgspec
from pydantic import BaseModel, ConfigDict, Field

from skerry.features.memory.citations import shows
from skerry.features.memory.results import (
    WIDER,
    clamped,
    failed,
    gives_orders,
    is_foreign,
    reply,
    unmarked,
)
from skerry.features.memory.service import MemorySearchService
from skerry.features.memory.writing import MAX_CHARS
from skerry.model import redaction
from skerry.model.caller import Caller
from skerry.model.errors import SkerryError, ToolError
from skerry.model.memory import MemoryQuestion, MemorySource
from skerry.model.origin import Origin
from skerry.model.provenance import clean, tidy
from skerry.model.redaction_report import forgotten_json
from skerry.model.tool import ToolResult, ToolSpec
from skerry.policy.access import Verb
from skerry.policy.decide import Decision, Request, decide
from skerry.ports.tool import ToolContext

GO_ON: Final = "Say that memory could not be asked, and answer without it."
_NO_CALLER: Final = "No person takes part here, so memory stays closed."
_SHARED: Final = "Somebody else takes part in this conversation, and would read it."
_MAX_SHOWN: Final = 500
"""Limit on the characters of a refused note in the suggested `/remember`."""
_PASSAGE: Final = 300
"""Limit on the characters of a near passage in the report of an erasure."""


class MemorySearchParams(BaseModel):
    """Parameters of `memory_search`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: str = Field(description="A question, or words.", min_length=1, max_length=2000)
    # The parameter names of OpenClaw's tool, which models know.
    maxResults: int | None = Field(default=None, ge=1, le=50)  # noqa: N815
    minScore: float | None = Field(default=None, ge=0, le=1)  # noqa: N815


class MemoryGetParams(BaseModel):
    """Parameters of `memory_get`."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    path: str = Field(description="As memory_search gave it.", min_length=1, max_length=1024)
    start: int = Field(default=1, ge=1, le=1_000_000_000, alias="from", description="First line.")
    lines: int | None = Field(default=None, ge=1, le=10_000)


class _MemoryTool:
    """Base of the tools: the service, the offer and the policy decision."""

    own_errors = True
    verb: ClassVar[Verb]
    spec: ClassVar[ToolSpec]
    is_offered: Callable[[Caller], bool]

    def __init__(self, service: MemorySearchService) -> None:
        self._service = service
        self.is_offered = service.scope.is_open

    def _decide(self, context: ToolContext) -> Decision:
        return decide(Request(context.actor, self.verb, self.spec.name))


class MemorySearch(_MemoryTool):
    """Searches notes and conversations. Never fails: an error is part of its result."""

    reads_only = True
    verb = Verb.RECALL
    spec = ToolSpec(
        "memory_search",
        "Find what was noted or said before: people, preferences, decisions, dates.",
        MemorySearchParams.model_json_schema(),
        "## Memory\nLook with memory_search before you answer about earlier work, people, dates,"
        " preferences or decisions, and say when it finds nothing. Repeat a passage's Source line"
        " when you use it.",
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the passages as JSON, within the limits."""
        params = MemorySearchParams.model_validate(arguments)
        if context.caller is None:
            return _json(failed(_NO_CALLER, GO_ON))
        if not self._decide(context).allowed:
            return _json(failed(_SHARED, GO_ON))
        agent = context.caller.key.agent
        limits = self._service.limits(agent)
        limit = min(params.maxResults or limits.max_results, limits.max_results)
        question = MemoryQuestion(
            params.query, limit * WIDER, params.minScore, context_messages=context.context_messages
        )
        try:
            answer = await self._service.find(context.caller, question)
        except SkerryError as error:
            return _json(failed(str(error), error.remedy or GO_ON))
        config = self._service.config()
        mode, zone = config.memory.citations, config.agents.defaults.user_timezone
        cites = shows(mode, context.caller.chat)
        excerpts = clamped(answer.hits, params.query, limits, cites=cites, max_results=limit)
        # A conversation may repeat text of a web page.
        from_talk = any(
            hit.source is MemorySource.SESSIONS or is_foreign(hit.path, hit.text)
            for hit, _ in excerpts
        )
        origin = Origin.TOOL if from_talk else Origin.MEMORY
        return _json(reply(answer, excerpts, mode, cites=cites, zone=zone), origin)


class MemoryGet(_MemoryTool):
    """Reads a document of the memory. Never fails: an error is part of its result."""

    reads_only = True
    verb = Verb.RECALL
    spec = ToolSpec(
        "memory_get",
        "Read lines of a memory file.",
        MemoryGetParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Returns the lines as JSON."""
        params = MemoryGetParams.model_validate(arguments)
        refused: dict[str, Any] = {"path": params.path, "text": "", "disabled": True}
        caller = context.caller
        if caller is None or not self._decide(context).allowed:
            return _json({**refused, "error": _SHARED if caller else _NO_CALLER})
        agent = caller.key.agent
        try:
            text = await self._service.get(agent, params.path, params.start, params.lines, caller)
        except SkerryError as error:
            return _json({**refused, "error": str(error)})
        reply: dict[str, Any] = {"path": text.path, "text": unmarked(clean(text.text))}
        if text.next_line is not None:
            reply["nextFrom"] = text.next_line
        if text.hint:
            reply["hint"] = text.hint
        if gives_orders(text.text):
            reply["suspicious"] = True
        foreign = is_foreign(params.path, text.text)
        if foreign:
            reply["unverified"] = True
        from_talk = foreign or params.path.startswith("sessions/")
        return _json(reply, Origin.TOOL if from_talk else Origin.MEMORY)


class MemoryWriteParams(BaseModel):
    """Parameters of `memory_write`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(description="One fact, whole.", min_length=1, max_length=MAX_CHARS)
    section: str | None = Field(
        default=None,
        description="Heading in MEMORY.md; else the day's log.",
        min_length=1,
        max_length=100,
    )


class MemoryWrite(_MemoryTool):
    """Writes a note of the owner."""

    verb = Verb.NOTE
    spec = ToolSpec(
        "memory_write",
        "Note what your owner told you and is to last.",
        MemoryWriteParams.model_json_schema(),
    )

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Writes the note; the result has the command that removes it."""
        params = MemoryWriteParams.model_validate(arguments)
        caller = context.caller
        if caller is None or not self.is_offered(caller):
            raise ToolError("No note was written: memory is not used in this conversation.")
        decision = self._decide(context)
        if not decision.allowed:
            raise ToolError(_refusal(params, decision.reason))
        if gives_orders(params.text):
            raise ToolError(
                "No note was written: it reads like an order to a model. Note the fact."
            )
        agent = caller.key.agent
        try:
            noted = await self._service.write(
                agent, params.text, params.section, Origin.OWNER, str(caller.key)
            )
        except SkerryError as error:
            raise ToolError(f"No note was written: {error}") from error
        note = {
            "id": noted.id,
            "path": noted.path,
            "line": noted.start_line,
            "undo": f"skerry memory undo {noted.id}",
        }
        return _json(note)


def _refusal(params: MemoryWriteParams, reason: str) -> str:
    """Returns the reason of the refusal, and the command with which the owner can write it."""
    words = " ".join(tidy(params.text).split())[:_MAX_SHOWN]
    return (
        f"No note was written: {reason}. If it is to be remembered, your owner says so; show them"
        f" this line to send: /remember {words}"
    )


class MemoryForgetParams(BaseModel):
    """Parameters of `memory_forget`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str = Field(
        description="Words as they were said.", min_length=1, max_length=redaction.MAX_CHARS
    )


class MemoryForget(_MemoryTool):
    """Erases text at the owner's request."""

    verb = Verb.NOTE
    spec = ToolSpec(
        "memory_forget",
        "Erase each sentence with these words, everywhere, for ever.",
        MemoryForgetParams.model_json_schema(),
    )

    def __init__(self, service: MemorySearchService) -> None:
        super().__init__(service)
        self.is_offered = service.scope.is_open_private

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        """Erases the text, and returns the matches, remaining files, and near passages."""
        params = MemoryForgetParams.model_validate(arguments)
        caller = context.caller
        if caller is None or not self.is_offered(caller):
            raise ToolError("Nothing was forgotten: only your owner may ask for it, alone.")
        decision = self._decide(context)
        if not decision.allowed:
            raise ToolError(
                f"Nothing was forgotten: {decision.reason}. Your owner can send: /forget WORDS"
            )
        try:
            erased, near = await self._service.forget(caller.key.agent, params.text, caller)
        except SkerryError as error:
            raise ToolError(f"It is not forgotten yet: {error}") from error
        report = forgotten_json(erased, near, shows=False, max_chars=_PASSAGE)
        # A near passage of a conversation may repeat text of a web page.
        from_talk = any(hit.source is MemorySource.SESSIONS for hit in near)
        origin = Origin.TOOL if from_talk else Origin.MEMORY
        return _json(report, origin)


def _json(values: dict[str, Any], origin: Origin = Origin.MEMORY) -> ToolResult:
    return ToolResult(msgspec.json.encode(values).decode(), origin=origin)
