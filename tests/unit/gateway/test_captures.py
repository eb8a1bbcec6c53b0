"""Our answers and events beside those that gateways of versions 3 and 4 gave, key by key.

`tests/data/gateway-v3.jsonl` and `-v4.jsonl` are what OpenClaw 2026.2.17 and 2026.9.6 said, long
values cut: a text with an ellipsis stands for what was cut. What we leave out is listed here.
"""

import json
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from skerry.model import message
from skerry.model.event import RunStarted, TextDelta
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.message import AssistantMessage, TextBlock, Usage
from skerry.model.run import StopReason
from skerry.store import Unit, runs, sessions
from tests.support.gateway import FAILED, SESSION, Rig, result, running_gateway
from tests.support.wire import Wire, connected, request

DATA = Path(__file__).parents[2] / "data"
RUN = RunId("k1")
KEY = SessionKey.main()

METHODS: dict[str, dict[str, Any]] = {
    "agent.identity.get": {},
    "agent.wait": {"runId": RUN},
    "agents.list": {},
    "channels.status": {},
    "cron.list": {},
    "cron.runs": {"id": "x"},
    "cron.status": {},
    "exec.approvals.get": {},
    "health": {},
    "last-heartbeat": {},
    "logs.tail": {"limit": 2},
    "models.list": {},
    "skills.bins": {},
    "skills.status": {},
    "status": {},
    "system-event": {"text": "Node: test"},
    "system-presence": {},
    "usage.cost": {},
    "usage.status": {},
    "wake": {"mode": "now", "text": "x"},
}
"""What is asked, as the captured clients asked it."""

LEFT_OUT = {
    # what this gateway does not have: heartbeats and tasks, cloud, plugins' runtimes, its own load
    "health": "plugins configReload modelRuntime eventLoop",
    "status": "hostDesktop degradedSecretOwners degradedPlugins tasks taskAudit modelRuntime"
    " eventLoop processMemory workerPools shutdownBudget waitingForRoute",
    "sessions of status": "cacheRead cacheWrite configuredModel selectedModel modelSelectionReason"
    " runtime",
    "channels.status": "eventLoop statusIssues",
    "exec.approvals.get": "socket resolvedDefaults",
    "agents.list": "ownership selectionRequired workspaceGit agentRuntime thinkingLevels"
    " thinkingOptions thinkingDefault defaultPermissionMode",
    "models.list": "thinkingLevels thinkingDefault",
    "presence": "modelIdentifier instanceId",
    "usage.cost": "cacheStatus",
    "agent.wait": "livenessState terminalReceipt",
    "events": "isHeartbeat itemId livenessState terminalReceipt replayInvalid errorObservation"
    " errorDetail aborted",
}
BY_ID = frozenset({"deliveryPreviews"})
"""Objects whose keys are ids."""
IGNORED = frozenset(" ".join(LEFT_OUT.values()).split())


@cache
def captured(protocol: int) -> list[dict[str, Any]]:
    lines = (DATA / f"gateway-v{protocol}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def answers(protocol: int, method: str) -> Iterator[dict[str, Any]]:
    return (row for row in captured(protocol) if row.get("method") == method)


def kind(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case None:
            return "null"
        case _:
            return type(value).__name__


def missing(theirs: Any, ours: Any, where: str = "") -> Iterator[str]:
    """Yields the members that their payload has and ours lacks, or has with another type."""
    if theirs is None or ours is None or (isinstance(theirs, str) and "…" in theirs):
        return
    if kind(theirs) != kind(ours):
        yield f"{where}: {kind(theirs)} there, {kind(ours)} here"
    elif isinstance(theirs, dict):
        for key in theirs.keys() - IGNORED:
            if key in BY_ID and key in ours:
                continue
            if key in ours:
                yield from missing(theirs[key], ours[key], f"{where}.{key}")
            else:
                yield f"{where}.{key}"
    elif isinstance(theirs, list) and theirs and ours:
        yield from missing(theirs[0], ours[0], f"{where}[0]")


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    config = {"agents": {"defaults": {"model": {"primary": "stub/stub-model"}}}}
    async with running_gateway(tmp_path, config=config) as rig:
        yield rig


@pytest.fixture(params=[3, 4])
async def wire(rig: Rig, request: pytest.FixtureRequest) -> Any:
    version = request.param
    async with connected(rig.url, minProtocol=version, maxProtocol=version) as wire:
        yield wire


async def lived(rig: Rig, wire: Wire) -> None:
    """Leaves what one conversation leaves."""
    reply = AssistantMessage((TextBlock("a"),), "x", "stub", "stub-model", Usage(), "stop", 2)

    def write(unit: Unit) -> None:
        session_id, tail = sessions.ensure(unit, KEY, SessionId("s"), 1)
        sessions.append(unit, session_id, tail, RUN, [message.user("hi", 1), reply], 1)
        sessions.note_run(unit, session_id, Usage(1, 1, 0, 0, 2), "stub", "m", aborted=False)
        asked = rig.dispatcher.runs[RUN].request
        runs.add(unit, asked, SESSION, 1, 1)
        runs.finish(unit, result(asked, ended_at=rig.context.clock.now_ms()))

    await wire.call("chat.send", {"sessionKey": "main", "message": "x", "idempotencyKey": RUN})
    rig.dispatcher.end(RUN)
    await rig.store.write(write)
    await wire.call("health", {"probe": True})


@pytest.mark.parametrize("method", METHODS)
async def test_an_answer_has_what_the_captured_one_has(rig: Rig, wire: Wire, method: str) -> None:
    await lived(rig, wire)
    theirs = next(answers(wire.hello["protocol"], method))
    ours = await wire.ask(method, METHODS[method])
    assert ours["ok"] == theirs["ok"]
    if theirs["ok"]:
        assert list(missing(theirs["payload"], ours["payload"])) == []
    else:
        assert ours["error"] == theirs["error"]


def event_kind(frame: dict[str, Any]) -> tuple[str, ...]:
    """Returns the kind of an event."""
    payload = frame["payload"]
    if frame["event"] == "chat":
        return "chat", payload["state"]
    return "agent", payload["stream"], payload["data"].get("phase", "")


async def play(rig: Rig, wire: Wire, story: str) -> None:
    sent = {"sessionKey": "main", "message": "x", "idempotencyKey": RUN}
    await wire.call("chat.send", sent)
    rig.dispatcher.tell(RUN, RunStarted(1))
    if story != "provider 400":
        rig.dispatcher.tell(RUN, TextDelta("pong"))
    match story:
        case "chat.send":
            rig.dispatcher.end(RUN)
            await wire.event("chat", state="final")
        case "chat.abort":
            await wire.call("chat.abort", {"sessionKey": "main", "runId": RUN})
        case _:
            rig.dispatcher.end(RUN, stop_reason=StopReason.ERROR, payloads=(), error=FAILED)
            await wire.event("chat", state="error")


@pytest.mark.parametrize("story", ["chat.send", "chat.abort", "provider 400"])
async def test_events_have_what_the_captured_ones_have(rig: Rig, wire: Wire, story: str) -> None:
    protocol = wire.hello["protocol"]
    (tale,) = (row for row in captured(protocol) if row.get("events") == story)
    await play(rig, wire, story)
    events = [frame for frame in wire.frames if frame.get("event") in {"agent", "chat"}]
    ours = {event_kind(event): event for event in events}
    theirs = {
        event_kind(frame): frame
        for frame in tale["frames"]
        if frame.get("event") in {"agent", "chat"}
    }
    shared = theirs.keys() & ours.keys()
    assert {kind for kind in theirs.keys() - shared if kind[0] == "chat"} == set()
    assert shared >= {("chat", {"chat.send": "final", "chat.abort": "aborted"}.get(story, "error"))}
    for one in shared:
        assert list(missing(theirs[one]["payload"], ours[one]["payload"], str(one))) == []
    if protocol == 3:
        for one in shared:
            extra = ours[one]["payload"].keys() - theirs[one]["payload"].keys()
            assert extra <= {"message"}


async def test_accepted_and_final_have_what_the_captured_ones_have(rig: Rig, wire: Wire) -> None:
    (tale,) = (row for row in captured(wire.hello["protocol"]) if row.get("events") == "agent")
    theirs = {
        frame["payload"]["status"]: frame for frame in tale["frames"] if frame["type"] == "res"
    }
    await wire.send(request("agent", {"message": "x", "idempotencyKey": RUN}, id="r"))
    accepted = await wire.response("r")
    assert accepted["payload"].keys() == theirs["accepted"]["payload"].keys()
    rig.dispatcher.end(RUN, payloads=("w0 w1 w2 w3",))
    final = (await wire.response("r"))["payload"]
    expected = theirs["ok"]["payload"]
    assert final.keys() == expected.keys()
    assert final["result"]["payloads"] == expected["result"]["payloads"]
    meta = expected["result"]["meta"]
    assert {"durationMs", "agentMeta", "aborted"} <= final["result"]["meta"].keys() & meta.keys()
