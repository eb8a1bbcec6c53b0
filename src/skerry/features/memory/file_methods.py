"""The methods `memory.files`, `file`, `save` and `notes`: to browse and edit what there is."""

from hashlib import sha256
from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params
from skerry.features.memory.note_methods import desk_of, provenance
from skerry.model.ids import AgentId
from skerry.model.memory import MemoryFile, MemorySource
from skerry.policy.access import ADMIN, allows
from skerry.ports.memory import MemoryDesk


class MemoryFilesParams(Params):
    """Parameters of `memory.files`."""

    agent_id: Name | None = None
    source: MemorySource | None = Field(default=None, strict=False)
    limit: Annotated[int, Field(ge=1, le=10_000)] = 2000


class MemoryFileParams(Params):
    """Parameters of `memory.file`."""

    path: Name
    agent_id: Name | None = None


class MemorySaveParams(MemoryFileParams):
    """Parameters of `memory.save`; `baseHash` is of what was read, empty for a new file."""

    text: Annotated[str, Field(max_length=1024 * 1024)]
    base_hash: Annotated[str, Field(max_length=64, pattern=r"^([0-9a-f]{64})?$")]


class MemoryNotesParams(Params):
    """Parameters of `memory.notes`."""

    agent_id: Name | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


async def memory_files(call: Call, params: MemoryFilesParams) -> Json:
    """Lists the memory file by file, with the state and the backend of its index.

    Where there are more than `limit`, those that changed last, and how many there are.
    """
    desk, agent = desk_of(call, params.agent_id)
    return await listing(desk, agent, params)


async def listing(desk: MemoryDesk, agent: AgentId, params: MemoryFilesParams) -> dict[str, Json]:
    """Returns the list of the memory service, ready for JSON.

    Raises:
        MemoryBackendError: the agent has no memory.
    """
    found = await desk.files(agent)
    if params.source is not None:
        found = [one for one in found if one.source is params.source]
    shown = sorted(found, key=lambda one: one.changed_at, reverse=True)[: params.limit]
    shown.sort(key=lambda one: one.path)
    backend = desk.of(agent)
    return {
        "files": [_file(one) for one in shown],
        "total": len(found),
        "backend": backend.name if backend is not None else None,
    }


async def memory_file(call: Call, params: MemoryFileParams) -> Json:
    """Returns all of a Markdown file with the hash that `memory.save` asks for."""
    desk, agent = desk_of(call, params.agent_id)
    found = await desk.whole(agent, params.path)
    return {
        "path": found.path,
        "text": found.text,
        "hash": found.hash,
        "notes": [provenance(note) for note in found.notes],
    }


async def memory_save(call: Call, params: MemorySaveParams) -> Json:
    """Replaces a Markdown file of the memory, unless somebody changed it meanwhile."""
    desk, agent = desk_of(call, params.agent_id)
    saved = await desk.save(agent, params.path, params.text, params.base_hash)
    if allows(call.scopes, ADMIN):  # the owner's own act; who may only write leaves the fence
        place = (call.context.config().workspace(agent) / params.path).resolve()
        data = params.text.encode()
        if place.is_file():
            call.context.records.trust(str(place), sha256(data).digest(), len(data))
    return {"path": saved.path, "hash": saved.hash, "created": saved.is_new}


async def memory_notes(call: Call, params: MemoryNotesParams) -> Json:
    """Returns the notes with who said each, where and when."""
    desk, agent = desk_of(call, params.agent_id)
    found = await desk.notes(agent, params.limit)
    return {
        "notes": [{"path": one.path, "text": one.text, **provenance(one.said)} for one in found]
    }


def _file(one: MemoryFile) -> Json:
    return {
        "path": one.path,
        "source": one.source.value,
        "size": one.size,
        "changedAt": one.changed_at,
        "day": one.day,
        "passages": one.passages,
        "vectors": one.vectors,
        "error": one.error or None,
        "sessionKey": one.session,
        "encoding": one.encoding or None,
    }


METHODS: Final = (
    Method("memory.files", MemoryFilesParams, memory_files),
    Method("memory.file", MemoryFileParams, memory_file),
    Method("memory.save", MemorySaveParams, memory_save),
    Method("memory.notes", MemoryNotesParams, memory_notes),
)
