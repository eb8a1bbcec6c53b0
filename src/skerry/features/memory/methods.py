"""Methods about the index of what is remembered: `memory.status`, `memory.sync`."""

from typing import Final

from skerry.gateway.frames import Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.memory_json import report_of, status_of
from skerry.ports.memory import MemoryBackend


class MemoryStatusParams(Params):
    """Parameters of `memory.status`: of this agent, else of the default one."""

    agent_id: Name | None = None


class MemorySyncParams(MemoryStatusParams):
    """Parameters of `memory.sync`: with `force` the index is made anew beside the old one."""

    force: bool = False


async def memory_status(call: Call, params: MemoryStatusParams) -> Json:
    """Returns the state of an agent's memory, and how far an index job is that runs."""
    return status_of(await _memory(call, params).status())


async def memory_sync(call: Call, params: MemorySyncParams) -> Json:
    """Brings an agent's index up to what the files say; answers when it is done."""
    memory = _memory(call, params)
    return report_of(await memory.sync(force=params.force), memory.name)


def _memory(call: Call, params: MemoryStatusParams) -> MemoryBackend:
    agent = call.agent(params.agent_id)
    desk = call.context.memory
    found = None if desk is None else desk.of(agent)
    if found is None:
        raise RefusedError(f"agent {agent!r} has no memory: see agents.defaults.memorySearch")
    return found


METHODS: Final = (
    Method("memory.status", MemoryStatusParams, memory_status),
    Method("memory.sync", MemorySyncParams, memory_sync),
)
