"""Whole gateways whose conversations start sub-agents, for tests."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from skerry.app.build import Application
from skerry.features.subagents import tables
from skerry.features.subagents.tables import Subagent, SubagentOutcome
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.ids import RunId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.ports.tool import ToolContext
from skerry.store import sessions
from skerry.testing.clock import FakeClock
from skerry.testing.model import ScriptedModel
from tests.support.whole import whole_gateway

MAIN: Final = SessionKey.main()
AGENTS: Final[list[dict[str, Any]]] = [
    {"id": "main", "default": True, "subagents": {"allowAgents": ["second"]}},
    {"id": "second"},
    {"id": "third"},
]


def config(agents: Sequence[Mapping[str, Any]] = AGENTS, **defaults: Any) -> dict[str, Any]:
    return {
        "tools": {"profile": "full"},
        "agents": {"defaults": {"subagents": defaults}, "list": list(agents)},
    }


@asynccontextmanager
async def gateway(
    home: Path,
    given: Mapping[str, Any] | None,
    model: ScriptedModel | None = None,
    clock: FakeClock | None = None,
) -> AsyncIterator[Application]:
    whole = whole_gateway(home, Hooks(), config=given, model=model, clock=clock)
    async with whole as (application, _):
        yield application


def spawn_request(key: SessionKey = MAIN, **more: Any) -> RunRequest:
    return RunRequest(RunId("parent"), key, "go", origin=Origin.OWNER, **more)


async def spawn(
    application: Application,
    request: RunRequest | None = None,
    taint: frozenset[Origin] = frozenset(),
    **arguments: object,
) -> dict[str, Any]:
    """Returns the answer of the tool to a call of the run of `request`."""
    request = request or spawn_request()
    workspace = RootedFolder(application.settings.config.workspace(request.key.agent))
    caller = Caller(request.key, PeerKind.DIRECT, Origin.OWNER, is_private=True)
    context = ToolContext(workspace, caller=caller, request=request, taint=taint)
    with anyio.fail_after(60):
        tool = application.dispatch.runtime.tools["sessions_spawn"]
        result = await tool.run({"task": "count", **arguments}, context)
    answer: dict[str, Any] = json.loads(result.text)
    assert result.is_error == (answer["status"] != "accepted")
    return answer


async def ended(application: Application, run_id: str) -> Subagent:
    """Returns the row of a sub-agent once its end is noted."""
    store = application.dispatch.runtime.store
    with anyio.fail_after(60):
        while True:
            subagent = await store.read(lambda reader: tables.get(reader, run_id))
            if subagent is not None and subagent.status is not SubagentOutcome.NONE:
                return subagent
            await anyio.lowlevel.checkpoint()


async def session_messages(application: Application, key: SessionKey = MAIN) -> list[Any]:
    """Returns the messages of a session, once it is quiet."""
    dispatch = application.dispatch
    with anyio.fail_after(60):
        while dispatch.active(key):
            await anyio.lowlevel.checkpoint()
    session = await dispatch.runtime.store.read(lambda reader: sessions.find(reader, str(key)))
    if session is None:
        return []
    entries = await dispatch.runtime.store.read(
        lambda reader: sessions.entries(reader, session.session_id, limit=-1)
    )
    return [entry.message for entry in entries]


async def archived(application: Application, row: Subagent) -> None:
    """Waits until the session of a sub-agent is archived."""
    store = application.dispatch.runtime.store
    with anyio.fail_after(60):
        while True:
            now = await store.read(lambda reader: tables.get(reader, row.run_id))
            if now is not None and now.state is tables.SubagentState.ARCHIVED:
                return
            await anyio.lowlevel.checkpoint()
