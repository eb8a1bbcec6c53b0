"""Compacts a conversation in which no run is at work, because a client asks for it."""

from skerry.config.protected import gate
from skerry.hooks.events import RunContext
from skerry.infra.rooted_fs import Beneath
from skerry.model.event import RunEventBody
from skerry.model.ids import RunId, SessionKey
from skerry.model.origin import Origin
from skerry.model.run import Compacted, Purpose
from skerry.ports.model import History
from skerry.ports.tool import ToolContext
from skerry.ports.tries import Wanted
from skerry.runtime.compaction.compactor import Compactor, Task, Whose
from skerry.runtime.compaction.context_window import held
from skerry.runtime.conversation_cache import Conversation
from skerry.runtime.run_hooks import Pipeline
from skerry.runtime.services import Runtime
from skerry.runtime.transcript_writer import Writing
from skerry.sessions.window import budget
from skerry.store import sessions


async def compact_session(runtime: Runtime, key: SessionKey, instructions: str) -> Compacted | None:
    """Compacts; returns None where there is nothing to summarise. The caller holds the lane.

    Raises:
        ModelError: no model could be chosen.
        StateError: nothing was stored.
    """
    session = await runtime.store.read(lambda reader: sessions.find(reader, str(key)))
    if session is None:
        return None
    config, session_id = runtime.config(), session.session_id
    compaction = config.agents.defaults.compaction
    reference = session.settings.model or config.primary_model(key.agent)
    wanted = Wanted(reference, key.agent, session_id, purpose=Purpose.COMPACTION)
    _, model = await runtime.models.choose(reference)
    conversation = Conversation(History(), session.tail)
    await runtime.histories.load(conversation, session_id, session.tail + 1)
    workspace = config.workspace(key.agent)
    context = RunContext(
        run_id=RunId(""),
        agent_id=key.agent,
        session_key=str(key),
        session_id=session_id,
        workspace=workspace,
    )
    compactor = Compactor(
        runtime,
        compaction,
        Whose(key, session_id, wanted, origin=Origin.OWNER),
        Pipeline(runtime.hooks, context, Writing(runtime.hooks), runtime.clock),
        lambda: ToolContext(Beneath(workspace, gate(config))),
        _unheard,
    )
    limits = budget(model.context_window, 0, compaction)
    tokens = held(conversation, limits)
    done = await compactor.run(
        Task(model, limits, "", "manual", tokens, instructions), session.tail
    )
    runtime.histories.forget(session_id)
    return done


def _unheard(_: RunEventBody) -> None:
    """Tells nobody: there is no run whose clients would hear it."""
