"""Gateway methods of the memory, and their results for a command without a gateway."""

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Annotated, Any, Final

from pydantic import Field

from skerry.features.memory.answers import file_row, hit_row, provenance, report_of, status_of
from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryNote, MemoryQuestion, MemorySource
from skerry.model.origin import Origin
from skerry.model.redaction import MAX_CHARS, MAX_PHRASES
from skerry.model.redaction_report import forgotten_json
from skerry.policy.access import ADMIN
from skerry.policy.decide import allows
from skerry.ports.memory import Forgets, MemoryBackend, MemoryService

GATEWAY_SOURCE: Final = "gateway"
"""Source of a note that a person writes through the gateway."""

NoteId = Annotated[str, Field(max_length=10, pattern=r"^[0-9a-f]{10}$")]
Phrase = Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]


class MemoryParams(Params):
    """Parameters of `memory.status` and `memory.unverified`: the agent, else the default agent."""

    agent_id: Name | None = None


class SyncParams(MemoryParams):
    """Parameters of `memory.sync`: `force` rebuilds the index next to the old one."""

    force: bool = False


class SearchParams(MemoryParams):
    """Parameters of `memory.search`; times are ms since 1970."""

    query: Annotated[str, Field(min_length=1, max_length=2000)]
    limit: Annotated[int, Field(ge=1, le=100)] = 6
    min_score: Annotated[float, Field(ge=0, le=1)] | None = None
    source: MemorySource | None = Field(default=None, strict=False)
    path: Name | None = None
    since: int | None = None
    until: int | None = None
    session_key: Name | None = None
    profile: Name | None = None
    explain: bool = False


class GetParams(MemoryParams):
    """Parameters of `memory.get`."""

    path: Name
    start: Annotated[int, Field(ge=1, alias="from")] = 1
    lines: Annotated[int, Field(ge=1, le=10_000)] | None = None


class WriteParams(MemoryParams):
    """Parameters of `memory.write`; without `section` the note goes into the log of the day."""

    text: Annotated[str, Field(min_length=1, max_length=4000)]
    section: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class NoteParams(MemoryParams):
    """Parameters of `memory.undo` and `memory.confirm`."""

    id: NoteId


class FilesParams(MemoryParams):
    """Parameters of `memory.files`."""

    source: MemorySource | None = Field(default=None, strict=False)
    limit: Annotated[int, Field(ge=1, le=10_000)] = 2000


class FileParams(MemoryParams):
    """Parameters of `memory.file`."""

    path: Name


class SaveParams(FileParams):
    """Parameters of `memory.save`; `baseHash` is the hash of the read file, "" for a new one."""

    text: Annotated[str, Field(max_length=1024 * 1024)]
    base_hash: Annotated[str, Field(max_length=64, pattern=r"^([0-9a-f]{64})?$")]


class NotesParams(MemoryParams):
    """Parameters of `memory.notes`."""

    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class ForgetParams(MemoryParams):
    """Parameters of `memory.forget`: exact words to erase, and options.

    `dry_run` changes nothing; `extra` also cleans the extra paths.
    """

    phrases: Annotated[list[Phrase], Field(min_length=1, max_length=MAX_PHRASES)]
    dry_run: bool = False
    extra: bool = False


async def search(service: MemoryService, agent: AgentId, params: SearchParams) -> dict[str, Json]:
    """Returns the best passages for a question, with the backend and mode of the search."""
    sources = frozenset(MemorySource) if params.source is None else frozenset({params.source})
    question = MemoryQuestion(
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
    answer = await service.search(agent, question)
    fallback = answer.fallback
    return {
        "results": [hit_row(hit) for hit in answer.hits],
        "provider": answer.provider,
        "model": answer.model,
        "backend": answer.backend,
        "mode": answer.mode.value,
        "fallback": {"from": fallback.origin, "reason": fallback.reason} if fallback else None,
        "notes": list(answer.notes),
    }


async def get(service: MemoryService, agent: AgentId, params: GetParams) -> dict[str, Json]:
    """Returns lines of a document, with the notes in them."""
    text = await service.get(agent, params.path, params.start, params.lines)
    return {
        "path": text.path,
        "text": text.text,
        "from": text.start_line,
        "nextFrom": text.next_line,
        "hint": text.hint or None,
        "notes": [provenance(note) for note in text.notes],
    }


async def write(service: MemoryService, agent: AgentId, params: WriteParams) -> dict[str, Json]:
    """Appends a note; returns its id, path and lines."""
    note = await service.write(agent, params.text, params.section, Origin.OWNER, GATEWAY_SOURCE)
    lines: dict[str, Json] = {"startLine": note.start_line, "endLine": note.end_line}
    return {"id": note.id, "path": note.path, **lines}


async def undo(service: MemoryService, agent: AgentId, params: NoteParams) -> dict[str, Json]:
    """Removes a note; returns its text and path."""
    note = await service.undo(agent, params.id)
    return {"id": note.id, "path": note.path, "text": note.text}


async def unverified(
    service: MemoryService, agent: AgentId, _params: MemoryParams
) -> dict[str, Json]:
    """Returns the notes that wait for the owner's confirmation."""
    return {"notes": [_note(note) for note in await service.unverified(agent)]}


async def confirm(service: MemoryService, agent: AgentId, params: NoteParams) -> dict[str, Json]:
    """Accepts an unverified note as the owner's; returns its new path and line."""
    note = await service.confirm(agent, params.id)
    return {"id": note.id, "path": note.path, "startLine": note.start_line}


async def notes(service: MemoryService, agent: AgentId, params: NotesParams) -> dict[str, Json]:
    """Returns the notes with their provenance."""
    return {"notes": [_note(note) for note in await service.notes(agent, params.limit)]}


async def files(service: MemoryService, agent: AgentId, params: FilesParams) -> dict[str, Json]:
    """Lists the memory file by file, with the state and the backend of its index.

    If there are more than `limit`, returns those changed last, with the total.
    """
    listed = await service.files(agent)
    if params.source is not None:
        listed = [file for file in listed if file.source is params.source]
    listed_files = sorted(listed, key=lambda file: file.changed_at, reverse=True)[: params.limit]
    listed_files.sort(key=lambda file: file.path)
    backend = service.of(agent)
    return {
        "files": [file_row(file) for file in listed_files],
        "total": len(listed),
        "backend": backend.name if backend is not None else None,
    }


async def file(service: MemoryService, agent: AgentId, params: FileParams) -> dict[str, Json]:
    """Returns a whole Markdown file with the hash that `memory.save` needs."""
    document = await service.whole(agent, params.path)
    return {
        "path": document.path,
        "text": document.text,
        "hash": document.hash,
        "notes": [provenance(note) for note in document.notes],
    }


async def forget(
    forgets: Forgets, service: MemoryService | None, agent: AgentId, params: ForgetParams
) -> dict[str, Json]:
    """Erases the statements with these words everywhere; returns the erased matches.

    With `dryRun` returns the matches only, with the statements of the files.

    Raises:
        PhraseError: a phrase is too short.
        StateError, MemoryBackendError: the erasure is not complete; it continues automatically.
    """
    if params.dry_run:
        return forgotten_json(await forgets.look(agent, params.phrases), (), shows=True)
    report = await forgets.forget(agent, params.phrases, extra=params.extra)
    near = () if service is None else await service.near(agent, params.phrases)
    return forgotten_json(report, near, shows=False)


Answer = Callable[[MemoryService, AgentId, Any], Awaitable[dict[str, Json]]]

ANSWERS: Final[Mapping[str, tuple[type[MemoryParams], Answer]]] = MappingProxyType(
    {
        "memory.confirm": (NoteParams, confirm),
        "memory.file": (FileParams, file),
        "memory.files": (FilesParams, files),
        "memory.get": (GetParams, get),
        "memory.notes": (NotesParams, notes),
        "memory.search": (SearchParams, search),
        "memory.undo": (NoteParams, undo),
        "memory.unverified": (MemoryParams, unverified),
        "memory.write": (WriteParams, write),
    }
)
"""Methods that need only the service: their parameters, and the function."""


def _method(name: str, params: type[MemoryParams], answer: Answer) -> Method[Any]:
    async def handle(call: Call, params_given: MemoryParams) -> Json:
        service, agent = _service_of(call, params_given.agent_id)
        return await answer(service, agent, params_given)

    handle.__doc__ = answer.__doc__  # for the generated reference
    return Method(name, params, handle)


async def memory_status(call: Call, params: MemoryParams) -> Json:
    """Returns the state of an agent's memory, and the progress of a running index job."""
    return status_of(await _backend(call, params).status())


async def memory_sync(call: Call, params: SyncParams) -> Json:
    """Updates an agent's index from the files; returns when it is complete."""
    memory = _backend(call, params)
    return report_of(await memory.sync(force=params.force), memory.name)


async def memory_save(call: Call, params: SaveParams) -> Json:
    """Replaces a Markdown file of the memory, unless it was changed meanwhile."""
    service, agent = _service_of(call, params.agent_id)
    saved = await service.save(agent, params.path, params.text, params.base_hash)
    if allows(call.scopes, ADMIN):  # only the owner's text needs no fence
        path = (call.context.config().workspace(agent) / params.path).resolve()
        data = params.text.encode()
        if path.is_file():
            call.context.records.trust(str(path), sha256(data).digest(), len(data))
    return {"path": saved.path, "hash": saved.hash, "created": saved.is_new}


async def memory_forget(call: Call, params: ForgetParams) -> Json:
    """Erases the statements with these words everywhere; returns the erased matches.

    With `dryRun` returns the matches only, with the statements of the files.
    """
    agent, forgets = call.agent(params.agent_id), call.context.forgets
    if forgets is None:
        raise RefusedError("no agent runs here", code=ErrorCode.UNAVAILABLE)
    return await forget(forgets, call.context.memory, agent, params)


def _backend(call: Call, params: MemoryParams) -> MemoryBackend:
    agent = call.agent(params.agent_id)
    service = call.context.memory
    backend = None if service is None else service.of(agent)
    if backend is None:
        message = f"agent {agent!r} has no memory: see agents.defaults.memorySearch.enabled"
        raise RefusedError(message)
    return backend


def _service_of(call: Call, name: str | None) -> tuple[MemoryService, AgentId]:
    agent = call.agent(name)
    if call.context.memory is None:
        message = "the memory slot is empty: plugins.slots.memory is none"
        raise RefusedError(message, code=ErrorCode.UNAVAILABLE)
    return call.context.memory, agent


def _note(note: MemoryNote) -> Json:
    return {"path": note.path, "text": note.text, **provenance(note.provenance)}


METHODS: Final = (
    *(_method(name, params, answer) for name, (params, answer) in ANSWERS.items()),
    Method("memory.forget", ForgetParams, memory_forget),
    Method("memory.save", SaveParams, memory_save),
    Method("memory.status", MemoryParams, memory_status),
    Method("memory.sync", SyncParams, memory_sync),
)
