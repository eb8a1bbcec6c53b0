"""Every frame that we send, judged by the published schema of the protocol."""

from pathlib import Path
from typing import Any, get_args

import pytest

from skerry.features.channels import methods as channel_methods
from skerry.features.cron import job_listing
from skerry.features.logs import methods as logs
from skerry.features.sessions import change_methods as changes
from skerry.features.sessions import listing_methods as sessions
from skerry.features.skills import methods as skills
from skerry.features.stubs.plugin import POLLED
from skerry.features.system_events import methods as system_events
from skerry.gateway import handshake
from skerry.gateway.method import Params
from skerry.gateway.methods import chat, runs, subscriptions
from skerry.hooks.hooks import Hooks
from skerry.model import message
from skerry.model.event import RunStarted, TextDelta, ToolFinished, ToolStarted
from skerry.model.ids import RunId, SessionId, SessionKey
from skerry.model.run import StopReason
from skerry.store import Unit
from skerry.store import sessions as table
from tests.conformance import published
from tests.conformance.schema import definitions, judge, problems
from tests.support.gateway import FAILED, Rig, running_gateway
from tests.support.whole import whole_gateway
from tests.support.wire import Wire, connected, dial, request

pytestmark = pytest.mark.full("npm @openclaw/gateway-protocol (its schema)")


async def play(rig: Rig, wire: Wire, key: str, **end: Any) -> None:
    run_id = RunId(key)
    await wire.send(request("agent", {"message": "x", "idempotencyKey": key}, id=key))
    await wire.response(key)
    rig.dispatcher.tell(run_id, RunStarted(1))
    rig.dispatcher.tell(run_id, TextDelta("half"))
    rig.dispatcher.tell(run_id, ToolStarted("c", "read", {"path": "x"}))
    rig.dispatcher.tell(run_id, ToolFinished("c", "read", is_error=False, text="y"))
    rig.dispatcher.tell(run_id, TextDelta("whole"))
    rig.dispatcher.end(run_id, **end)
    await wire.response(key)


async def test_every_frame_of_a_whole_conversation_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skerry.gateway.server._HEALTH_SECONDS", 0.05)
    config = {"gateway": {"tickIntervalMs": 100}, "agents": {"list": [{"id": "a", "name": "A"}]}}
    asked: dict[str, str] = {"connect": "connect"}
    async with running_gateway(tmp_path, config=config) as rig:

        def write(unit: Unit) -> None:
            session_id, tail = table.ensure(unit, SessionKey.main(), SessionId("s"), 1)
            table.append(unit, session_id, tail, "r", [message.user("hi", 1)], 1)

        await rig.store.write(write)
        async with connected(rig.url, caps=["tool-events"]) as wire:
            async with connected(rig.url):
                await wire.event("presence")
            await play(rig, wire, "good", payloads=("half", "whole"))
            await play(rig, wire, "aborted", stop_reason=StopReason.ABORTED, aborted_by="rpc")
            await play(rig, wire, "bad", stop_reason=StopReason.ERROR, payloads=(), error=FAILED)
            await play(rig, wire, "late", stop_reason=StopReason.TIMEOUT, payloads=())
            for method in wire.hello["features"]["methods"]:
                for params in ({}, {"sessionKey": "main"}, {"runId": "good"}):
                    answer = await wire.ask(method, params)
                    asked[answer["id"]] = method
            await wire.ask("nothing")
            await wire.event("health")
            await wire.event("tick")
            rig.context.broadcast.shutdown("stop", 30_000)
            await wire.event("shutdown")
    rows = {frame["event"] for frame in wire.frames if frame["type"] == "event"}
    assert rows == {"connect.challenge", "agent", "chat", "presence", "health", "tick", "shutdown"}
    assert [judge(frame, asked.get(frame.get("id", ""))) for frame in wire.frames] == [
        [] for _ in wire.frames
    ]


async def test_every_refusal_of_the_handshake_is_right(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"auth": {"token": "wrong"}},
        {"auth": {}},
        {"role": "x"},
        {"minProtocol": 2, "maxProtocol": 2},
        {"foo": 1},
    ]
    async with running_gateway(tmp_path) as rig:
        for change in changes:
            async with dial(rig.url) as wire:
                answer = await wire.connect(**change)
                assert not answer["ok"]
                assert judge(answer) == []


async def test_answers_about_agents_and_to_polls_are_as_the_schema_says(tmp_path: Path) -> None:
    of_session = ("sessions.branches.list", "sessions.companion.state", "progressCard.get")
    params: dict[str, dict[str, Any]] = {one: {"sessionKey": "main"} for one in of_session} | {
        "sessions.observer.visibility": {"visible": True},
        "migrations.memory.plan": {"agentId": "main"},
        "agents.create": {"name": "Bo"},
        "agents.files.list": {"agentId": "bo"},
        "agents.files.get": {"agentId": "bo", "name": "SOUL.md"},
        "agents.files.set": {"agentId": "bo", "name": "SOUL.md", "content": "x"},
        "agents.update": {"agentId": "bo", "name": "Bob"},
        "agents.delete": {"agentId": "bo"},
    }
    async with (
        whole_gateway(tmp_path / "home", Hooks()) as (_, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        for method in (*POLLED, *(one for one in params if one not in POLLED)):
            answer = await wire.call(method, params.get(method, {}))
            name = published.definition(method).removesuffix("Params") + "Result"
            if name in definitions():
                assert problems(name, answer) == []


async def test_missing_scopes_are_told_as_the_schema_says(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig, connected(rig.url, scopes=[]) as wire:
        error = (await wire.ask("health"))["error"]
    assert problems("MissingScopeErrorDetails", error["details"]) == []


_OURS = {"idempotencyKey", "instructions"}
"""What we take besides, and never ask for: a repeat is told from a new request, a summary led."""


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (handshake.ConnectParams, "ConnectParams"),
        (runs.AgentRunParams, "AgentParams"),
        (runs.AgentWaitParams, "AgentWaitParams"),
        (runs.ChatSendParams, "ChatSendParams"),
        (runs.ChatAbortParams, "ChatAbortParams"),
        (chat.ChatHistoryParams, "ChatHistoryParams"),
        (chat.ChatInjectParams, "ChatInjectParams"),
        (chat.ChatMetadataParams, "ChatMetadataParams"),
        (sessions.SessionsListParams, "SessionsListParams"),
        (logs.LogsTailParams, "LogsTailParams"),
        (system_events.WakeParams, "WakeParams"),
        (job_listing.CronListParams, "CronListParams"),
        (job_listing.CronRunsParams, "CronRunsParams"),
        (channel_methods.ChannelsStatusParams, "ChannelsStatusParams"),
        (skills.SkillsStatusParams, "SkillsStatusParams"),
        (sessions.SessionsDescribeParams, "SessionsDescribeParams"),
        (sessions.SessionsPreviewParams, "SessionsPreviewParams"),
        (sessions.SessionsResolveParams, "SessionsResolveParams"),
        (changes.SessionsPatchParams, "SessionsPatchParams"),
        (changes.SessionsResetParams, "SessionsResetParams"),
        (changes.SessionsDeleteParams, "SessionsDeleteParams"),
        (changes.SessionsCompactParams, "SessionsCompactParams"),
        (subscriptions.MessagesParams, "SessionsMessagesSubscribeParams"),
    ],
)
def test_our_parameters_are_among_theirs(ours: type[Params], theirs: str) -> None:
    schema = definitions()[theirs]
    wire_names = {field.alias: field for field in ours.model_fields.values()}
    known = {
        name
        for row in published.table()
        if published.definition(row.pop("method")) == theirs
        for properties in row.values()
        for name in properties
    }
    assert set(wire_names) - _OURS <= known
    needed = {name for name, field in wire_names.items() if field.is_required()}
    assert needed == set(schema["required"]) if "required" in schema else not needed


def test_all_client_ids_and_modes_are_known() -> None:
    client = definitions()["ConnectParams"]["properties"]["client"]["properties"]
    assert set(get_args(handshake.ClientId)) == set(client["id"]["enum"])
    assert set(get_args(handshake.ClientMode)) == set(client["mode"]["enum"])
