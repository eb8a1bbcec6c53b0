"""The methods `memory.search`, `get`, `write`, `undo`, `unverified` and `confirm`, for people."""

from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.ids import AgentId
from skerry.model.memory import (
    MemoryAnswer,
    MemoryHit,
    MemoryProvenance,
    MemoryQuestion,
    MemorySource,
    MemoryText,
)
from skerry.model.origin import Origin
from skerry.model.provenance import MARK
from skerry.ports.memory import MemoryDesk
from skerry_recall.meanings import MEANINGS

HERE: Final = "gateway"
"""Place recorded in notes that a person writes at the gateway."""


class MemorySearchParams(Params):
    """Parameters of `memory.search`; times are ms since 1970."""

    query: Annotated[str, Field(min_length=1, max_length=2000)]
    agent_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=100)] = 6
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    source: MemorySource | None = Field(default=None, strict=False)
    path: Name | None = None
    since: int | None = None
    until: int | None = None
    session_key: Name | None = None
    profile: Name | None = None
    explain: bool = False


class MemoryGetParams(Params):
    """Parameters of `memory.get`."""

    path: Name
    agent_id: Name | None = None
    start: Annotated[int, Field(ge=1, alias="from")] = 1
    lines: Annotated[int, Field(ge=1, le=10_000)] | None = None


class MemoryWriteParams(Params):
    """Parameters of `memory.write`; without `section` it goes into the log of the day."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    agent_id: Name | None = None
    section: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class MemoryUndoParams(Params):
    """Parameters of `memory.undo`."""

    id: Annotated[str, Field(max_length=10, pattern=r"^[0-9a-f]{10}$")]
    agent_id: Name | None = None


class MemoryUnverifiedParams(Params):
    """Parameters of `memory.unverified`."""

    agent_id: Name | None = None


class MemoryConfirmParams(Params):
    """Parameters of `memory.confirm`."""

    id: Annotated[str, Field(max_length=10, pattern=r"^[0-9a-f]{10}$")]
    agent_id: Name | None = None


NotesParams = (
    MemorySearchParams
    | MemoryGetParams
    | MemoryWriteParams
    | MemoryUndoParams
    | MemoryUnverifiedParams
    | MemoryConfirmParams
)


async def notes(call: Call, params: NotesParams) -> Json:
    """Answers `memory.search`, `get`, `write`, `undo`, `unverified` or `confirm`."""
    desk, agent = desk_of(call, params.agent_id)
    return await answered(desk, agent, params)


async def answered(desk: MemoryDesk, agent: AgentId, params: NotesParams) -> dict[str, Json]:
    """Returns the answer of the memory service, ready for JSON.

    Raises:
        MemoryBackendError: it cannot.
    """
    match params:
        case MemorySearchParams():
            return _answer(await desk.search(agent, _question(params)))
        case MemoryGetParams():
            return _text(await desk.get(agent, params.path, params.start, params.lines))
        case MemoryWriteParams():
            noted = await desk.write(agent, params.text, params.section, Origin.OWNER, HERE)
            lines: dict[str, Json] = {"startLine": noted.start_line, "endLine": noted.end_line}
            return {"id": noted.id, "path": noted.path, **lines}
        case MemoryUnverifiedParams():
            waiting = await desk.unverified(agent)
            return {
                "notes": [
                    {"path": one.path, "text": one.text, **provenance(one.said)} for one in waiting
                ]
            }
        case MemoryConfirmParams():
            noted = await desk.confirm(agent, params.id)
            return {"id": noted.id, "path": noted.path, "startLine": noted.start_line}
        case MemoryUndoParams():
            undone = await desk.undo(agent, params.id)
            return {"id": undone.id, "path": undone.path, "text": undone.text}


def _question(params: MemorySearchParams) -> MemoryQuestion:
    sources = frozenset(MemorySource) if params.source is None else frozenset({params.source})
    return MemoryQuestion(
        params.query,
        params.limit,
        params.min_score,
        sources,
        params.path,
        params.since,
        params.until,
        params.session_key,
        params.profile,
        params.explain,
    )


def _text(found: MemoryText) -> dict[str, Json]:
    return {
        "path": found.path,
        "text": found.text,
        "from": found.start_line,
        "nextFrom": found.next_line,
        "hint": found.hint or None,
        "notes": [provenance(note) for note in found.notes],
    }


def desk_of(call: Call, given: str | None) -> tuple[MemoryDesk, AgentId]:
    """Returns who answers, and the agent whose memory is meant."""
    agent = call.agent(given)
    if call.context.memory is None:
        raise RefusedError(
            "our memory is not in the slot: plugins.slots.memory names another",
            code=ErrorCode.UNAVAILABLE,
        )
    return call.context.memory, agent


def provenance(said: MemoryProvenance) -> dict[str, Json]:
    """Returns the provenance of a note, ready for JSON (pure)."""
    return {
        "id": said.id,
        "line": said.line,
        "origin": said.origin.value,
        "where": said.where,
        "at": said.at,
        "edited": said.is_edited,
    }


def _answer(answer: MemoryAnswer) -> dict[str, Json]:
    fallback = answer.fallback
    return {
        "results": [_hit(hit) for hit in answer.hits],
        "provider": answer.provider,
        "model": answer.model,
        "backend": answer.backend,
        "mode": answer.mode.value,
        "fallback": {"from": fallback.origin, "reason": fallback.reason} if fallback else None,
        "notes": list(answer.notes),
    }


def _hit(hit: MemoryHit) -> Json:
    told: dict[str, Json] = {
        "path": hit.path,
        "startLine": hit.start_line,
        "endLine": hit.end_line,
        "score": hit.score,
        "text": MARK.sub("", hit.text),
        "source": hit.source.value,
        "at": hit.at,
        "sessionKey": hit.session,
    }
    if hit.explanation:
        told["explanation"] = [
            {"name": name, "value": value, "means": MEANINGS.get(name, "")}
            for name, value in hit.explanation
        ]
    return told


METHODS: Final = (
    Method("memory.search", MemorySearchParams, notes),
    Method("memory.get", MemoryGetParams, notes),
    Method("memory.write", MemoryWriteParams, notes),
    Method("memory.undo", MemoryUndoParams, notes),
    Method("memory.unverified", MemoryUnverifiedParams, notes),
    Method("memory.confirm", MemoryConfirmParams, notes),
)
