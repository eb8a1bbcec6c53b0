"""The method `memory.forget`, for people at the gateway."""

from typing import Annotated, Final

from pydantic import Field

from skerry.gateway.frames import ErrorCode, Json
from skerry.gateway.method import Call, Method, Name, Params, RefusedError
from skerry.model.ids import AgentId
from skerry.model.redaction import MAX_CHARS, MAX_PHRASES
from skerry.model.redaction_report import told
from skerry.ports.memory import Forgets, MemoryDesk

Phrase = Annotated[str, Field(min_length=1, max_length=MAX_CHARS)]


class MemoryForgetParams(Params):
    """Parameters of `memory.forget`: exact words to erase, and how far to go.

    With `dry_run` nothing is changed; with `extra` the extra paths are cleaned too.
    """

    phrases: Annotated[list[Phrase], Field(min_length=1, max_length=MAX_PHRASES)]
    agent_id: Name | None = None
    dry_run: bool = False
    extra: bool = False


async def memory_forget(call: Call, params: MemoryForgetParams) -> Json:
    """Takes the statements with these words out of everything; returns where they stood.

    With `dryRun` return where they stand, with the statements of the files.
    """
    agent, forgets = call.agent(params.agent_id), call.context.forgets
    if forgets is None:
        raise RefusedError("no agent runs here", code=ErrorCode.UNAVAILABLE)
    return await answered(forgets, call.context.memory, agent, params)


async def answered(
    forgets: Forgets, desk: MemoryDesk | None, agent: AgentId, params: MemoryForgetParams
) -> dict[str, Json]:
    """Returns the answer of `memory.forget`, of whoever forgets.

    Raises:
        PhraseError: a phrase is too short.
        StateError, MemoryBackendError: it is not done yet; it is gone on with by itself.
    """
    if params.dry_run:
        return told(await forgets.look(agent, params.phrases), (), shows=True)
    done = await forgets.forget(agent, params.phrases, extra=params.extra)
    near = () if desk is None else await desk.near(agent, params.phrases)
    return told(done, near, shows=False)


METHODS: Final = (Method("memory.forget", MemoryForgetParams, memory_forget),)
