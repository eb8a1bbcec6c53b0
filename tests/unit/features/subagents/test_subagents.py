"""Sub-agents: permission to start them, inherited settings, and withheld tools."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.app.build import Application
from skerry.features.subagents.control import Control
from skerry.features.subagents.report import announcement
from skerry.features.subagents.tables import SubagentOutcome
from skerry.features.subagents.watch import Watch
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import ToolError
from skerry.model.ids import AccountId, ChannelId, RunId, SessionKey
from skerry.model.inbound import Peer, PeerKind, ReplyTo
from skerry.model.message import ToolResultMessage
from skerry.model.origin import Origin
from skerry.model.run import Purpose, RunRequest
from skerry.ports.model import ModelRequest
from skerry.ports.tool import ToolContext
from skerry.store import sessions
from skerry.testing.model import ReplyGate, ScriptedModel, Step, echo, last_text
from tests.support.subagents import (
    AGENTS,
    MAIN,
    config,
    ended,
    gateway,
    session_messages,
    spawn,
    spawn_request,
)


@pytest.mark.requirement("subagents-spawn-tool-params")
@pytest.mark.requirement("subagents-spawn-session-key")
@pytest.mark.requirement("session-key-subagent")
async def test_a_spawn_takes_every_parameter_and_names_its_session(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h", config()) as application:
        answer = await spawn(
            application,
            task="count the boats",
            label="boats",
            agentId="second",
            model="test/script",
            thinking="high",
            runTimeoutSeconds=0,
            cleanup="delete",
        )
        assert answer["status"] == "accepted"
        assert answer["modelApplied"] == "test/script"
        key = SessionKey.parse(answer["childSessionKey"])
        assert (key.agent, key.scope[0], len(key.scope)) == ("second", "subagent", 2)
        row = await ended(application, answer["runId"])
        assert (row.label, row.cleanup, row.status) == ("boats", "delete", SubagentOutcome.SUCCESS)
        store = application.dispatch.runtime.store
        session = await store.read(lambda reader: sessions.get(reader, row.session_id))
        assert session is not None
        assert session.label == "boats"
        assert session.settings.model == "test/script"
        assert session.settings.thinking_level == "high"
        assert session.settings.spawned_by == str(MAIN)


@pytest.mark.requirement("subagents-spawn-permission")
@pytest.mark.requirement("config-agent-subagents-allow")
async def test_only_allowed_agents_are_started_and_no_sub_agent_starts_another(
    tmp_path: Path,
) -> None:
    async with gateway(tmp_path / "h", config()) as application:
        assert (await spawn(application, agentId="main"))["status"] == "accepted"
        assert (await spawn(application, agentId="second"))["status"] == "accepted"
        refused = await spawn(application, agentId="third")
        assert refused["status"] == "forbidden"
        assert "allowAgents" in refused["error"]
        nested = spawn_request(SessionKey.parse("agent:main:subagent:1"))
        refused = await spawn(application, nested)
        assert refused["status"] == "forbidden"
        assert "maxSpawnDepth is 1" in refused["error"]
    anyone = [{**AGENTS[0], "subagents": {"allowAgents": ["*"]}}, *AGENTS[1:]]
    deeper = config(anyone, maxSpawnDepth=2)
    async with gateway(tmp_path / "i", deeper) as application:
        assert (await spawn(application, agentId="third"))["status"] == "accepted"
        assert (await spawn(application, agentId="fourth"))["status"] == "error"
        key = SessionKey.parse("agent:main:subagent:1")
        answer = await spawn(application, spawn_request(key))
        assert answer["childSessionKey"].startswith("agent:main:subagent:1:subagent:")
        key = SessionKey.parse("agent:main:subagent:1:subagent:2")
        assert (await spawn(application, spawn_request(key)))["status"] == "forbidden"


@pytest.mark.abuse(77)
async def test_an_agent_outside_the_sandbox_is_not_started_from_inside(tmp_path: Path) -> None:
    agents = [AGENTS[0], {"id": "second", "sandbox": {"mode": "off"}}]
    async with gateway(tmp_path / "h", config(agents)) as application:
        refused = await spawn(application, agentId="second")
        assert refused["status"] == "forbidden"
        assert "sandbox" in refused["error"]
        assert (await spawn(application))["status"] == "accepted"


@pytest.mark.requirement("subagents-no-session-tools")
@pytest.mark.requirement("subagents-denied-tools")
@pytest.mark.requirement("tools-policy-sandbox-subagent")
async def test_a_sub_agent_lacks_the_tools_of_the_list_and_a_call_of_one_is_denied(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(echo)
    async with gateway(tmp_path / "h", config(), model) as application:
        answer = await spawn(application, task='call sessions_spawn {"task": "deeper"}')
        await ended(application, answer["runId"])
        key = SessionKey.parse(answer["childSessionKey"])
        results = [
            message
            for message in await session_messages(application, key)
            if isinstance(message, ToolResultMessage)
        ]
        assert [result.is_error for result in results] == [True]
        offered = {tool.name for tool in model.requests[0].request.tools}
        assert offered >= {"read", "exec"}
        assert not offered & {
            "agents_list",
            "cron",
            "gateway",
            "memory_get",
            "memory_search",
            "session_status",
            "sessions_history",
            "sessions_list",
            "sessions_send",
            "sessions_spawn",
        }
        rows = await Control(application.dispatch).rows()
        assert len(rows) == 1


@pytest.mark.requirement("subagents-new-session-state")
async def test_a_sub_agent_knows_nothing_of_the_conversation_and_its_calls_stay_with_it(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(echo)
    async with gateway(tmp_path / "h", config(), model) as application:
        dispatch = application.dispatch
        await dispatch.submit(RunRequest(RunId("m1"), MAIN, "The boat is green."))
        assert await dispatch.wait(RunId("m1"), 60) is not None
        before = await session_messages(application)
        answer = await spawn(application, task='call write {"path": "notes.txt", "content": "a"}')
        await ended(application, answer["runId"])
        first = next(
            request for request in model.requests if "call write" in request.messages[-1].text
        )
        assert [message.text for message in first.messages] == [first.messages[-1].text]
        assert "green" not in first.request.system
        child = await session_messages(application, SessionKey.parse(answer["childSessionKey"]))
        assert any(isinstance(one, ToolResultMessage) for one in child)
        parent = (await session_messages(application))[: len(before)]
        assert parent == before
        assert not any(
            isinstance(one, ToolResultMessage) for one in await session_messages(application)
        )


@pytest.mark.requirement("subagents-inherit-model")
@pytest.mark.requirement("subagents-inherit-thinking")
@pytest.mark.requirement("config-agent-subagents-model")
async def test_model_and_thinking_are_inherited_unless_something_overrides_them(
    tmp_path: Path,
) -> None:
    async def chosen(application: Application, **arguments: Any) -> tuple[Any, Any]:
        request = spawn_request(model="test/parent", thinking="medium")
        answer = await spawn(application, request, **arguments)
        row = await ended(application, answer["runId"])
        store = application.dispatch.runtime.store
        session = await store.read(lambda reader: sessions.get(reader, row.session_id))
        assert session is not None
        return session.settings.model, session.settings.thinking_level

    async with gateway(tmp_path / "h", config()) as application:
        assert await chosen(application) == ("test/parent", "medium")
        assert await chosen(application, thinking="low") == ("test/parent", "low")
        assert await chosen(application, model="script") == ("test/script", "medium")
        refused = await spawn(application, model="nothing")
        assert refused["status"] == "error"
        assert "test/script" in refused["error"]
    async with gateway(
        tmp_path / "i", config(model="test/every", thinking="minimal")
    ) as application:
        assert await chosen(application) == ("test/every", "minimal")
    own = [{**AGENTS[0]}, {"id": "second", "subagents": {"model": "test/own"}}]
    async with gateway(tmp_path / "j", config(own, model="test/every")) as application:
        assert await chosen(application, agentId="second") == ("test/own", "medium")


@pytest.mark.requirement("subagents-announce-step")
@pytest.mark.requirement("subagents-announce-payload")
@pytest.mark.requirement("subagents-inherit-delivery")
async def test_the_announcement_has_status_report_figures_session_and_transcript(
    tmp_path: Path,
) -> None:
    to = ReplyTo(ChannelId("memory"), AccountId(""), Peer(PeerKind.DIRECT, "ann"), "m1")
    async with gateway(tmp_path / "h", config()) as application:
        answer = await spawn(application, spawn_request(reply_to=to), task="count the boats")
        row = await ended(application, answer["runId"])
        result = await application.dispatch.wait(row.run_id, 60)
        report = await Watch(application.dispatch).report(row, result, row.status)
        message = announcement(report)
        assert (message.key, message.reply_to) == (MAIN, to)
        assert (message.origin, message.purpose) == (Origin.OWNER, Purpose.ANNOUNCE)
        assert "Status: success." in message.text
        assert "echo: count the boats" in message.text
        assert f"session {answer['childSessionKey']}" in message.text
        assert "tokens in 1, out 2, total 3; estimated cost $0.0000" in message.text
        assert f"{row.session_id}.jsonl" in message.text
        texts = [
            text.text for text in await session_messages(application) if "A sub-agent" in text.text
        ]
        assert texts[0] == message.text


@pytest.mark.requirement("subagents-spawn-lane")
@pytest.mark.requirement("lanes-subagent-group")
@pytest.mark.requirement("subagents-max-8")
async def test_sub_agents_take_places_of_a_lane_of_their_own(tmp_path: Path) -> None:
    gate = ReplyGate()

    def reply(request: ModelRequest) -> Sequence[Step]:
        return [gate, "late"] if last_text(request) == "count" else echo(request)

    configuration = config(maxConcurrent=2)
    async with gateway(tmp_path / "h", configuration, ScriptedModel(reply)) as application:
        assert {use.name: use.limit for use in application.dispatch.queue().lanes}["subagent"] == 2
        answers = [await spawn(application) for _ in range(3)]
        with anyio.fail_after(60):
            await gate.reached.wait()
        lanes = {use.name: use for use in application.dispatch.queue().lanes}
        assert (lanes["subagent"].running, lanes["subagent"].waiting) == (2, 1)
        assert lanes["main"].running == 0
        gate.open()
        for answer in answers:
            assert (await ended(application, answer["runId"])).status is SubagentOutcome.SUCCESS
    plain = config()
    async with gateway(tmp_path / "i", plain) as application:
        assert {use.name: use.limit for use in application.dispatch.queue().lanes}["subagent"] == 8


async def test_a_conversation_starts_at_most_as_many_as_the_configuration_says(
    tmp_path: Path,
) -> None:
    gate = ReplyGate()

    def reply(request: ModelRequest) -> Sequence[Step]:
        return [gate, "late"] if last_text(request) == "count" else echo(request)

    configuration = config(maxChildrenPerAgent=2)
    async with gateway(tmp_path / "h", configuration, ScriptedModel(reply)) as application:
        for _ in range(2):
            assert (await spawn(application))["status"] == "accepted"
        refused = await spawn(application)
        assert refused["status"] == "forbidden"
        assert len(await Control(application.dispatch).rows()) == 2
        gate.open()


async def test_the_rules_of_the_group_that_asked_hold_for_its_sub_agents_too(
    tmp_path: Path,
) -> None:
    model = ScriptedModel(echo)
    groups = {"g1": {"tools": {"deny": ["read"]}}}
    fields = config(maxSpawnDepth=2) | {"channels": {"memory": {"groups": groups}}}
    async with gateway(tmp_path / "h", fields, model) as application:
        group = spawn_request(SessionKey.parse("agent:main:memory:group:g1"))
        for request in (group, spawn_request()):
            answer = await spawn(application, request)
            await ended(application, answer["runId"])
        of_group, of_main = (
            {tool.name for tool in request.request.tools}
            for request in model.requests
            if request.last == "count"
        )
        assert "read" in of_main - of_group


async def test_a_conversation_reads_its_own_sub_agents_and_no_others(tmp_path: Path) -> None:
    async with gateway(tmp_path / "h", config()) as application:
        mine = await spawn(application)
        other = await spawn(application, spawn_request(SessionKey.parse("agent:main:work")))
        for answer in (mine, other):
            await ended(application, answer["runId"])
        caller = Caller(MAIN, PeerKind.DIRECT, Origin.OWNER, is_private=True)
        workspace = RootedFolder(application.settings.config.workspace(MAIN.agent))
        context = ToolContext(workspace, caller=caller)
        tools = application.dispatch.runtime.tools
        history = tools["sessions_history"]
        result = await history.run({"sessionKey": mine["childSessionKey"]}, context)
        assert "echo: count" in result.text
        with pytest.raises(ToolError, match="not visible"):
            await history.run({"sessionKey": other["childSessionKey"]}, context)
        listed = await tools["sessions_list"].run({}, context)
        assert mine["childSessionKey"] in listed.text
        assert other["childSessionKey"] not in listed.text
