"""Rules on tools by sender, for the sandbox and beyond it, in whole gateways."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.hooks.hooks import Hooks
from skerry.hooks.payloads import BeforeToolCall, BeforeToolCallChange
from skerry.hooks.runner import Handler
from skerry.testing.channel import FakePlatform
from skerry.testing.model import ScriptedModel, echo
from tests.e2e.test_approvals import begin, final
from tests.e2e.test_approvals_chat import until
from tests.e2e.test_exec import call, gateway
from tests.support.whole import CALL, whole_gateway


async def test_in_a_group_the_rules_of_the_sender_decide_what_a_run_may_use(
    tmp_path: Path,
) -> None:
    rules = {"requireMention": False, "toolsBySender": {"id:7": {"deny": ["read"]}}}
    config = {
        "channels": {"memory": {"groups": {"G1": rules}}},
        "tools": {"guests": {"allow": ["read"]}},
    }
    platform, model = FakePlatform(tmp_path / "platform"), ScriptedModel(echo)
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config, model=model):
        platform.say(CALL, peer="G1", kind="group", sender="5", message_id="m1")
        await until(platform, "a note of main", "G1")
        platform.say(CALL, peer="G1", kind="group", sender="7", message_id="m2")
        await until(platform, "toolsBySender.deny: read", "G1")
    offered = [[tool.name for tool in request.request.tools] for request in model.requests]
    assert [("read" in names) for names in offered] == [True, True, False, False]


async def test_a_sandboxed_conversation_has_the_tools_of_its_own_lists(tmp_path: Path) -> None:
    config: dict[str, Any] = {"tools": {"sandbox": {"tools": {"deny": ["exec"]}}}}
    async with gateway(tmp_path / "home", config) as (_, wire, _):
        await begin(wire, call("ls"))
        assert "tools.sandbox.tools.deny: exec" in await final(wire)


@pytest.mark.requirement("tools-policy-elevated")
@pytest.mark.parametrize("more", [{"elevated": True}, {"host": "gateway"}], ids=json.dumps)
async def test_a_command_leaves_the_sandbox_when_a_person_approves_it(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    async with gateway(tmp_path / "home", {}) as (_, wire, workspace):
        await begin(wire, call("pwd", **more))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert (payload["request"]["host"], payload["request"]["rule"]) == (
            "gateway",
            "elevated-approval",
        )
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "allow-once"})
        assert str(workspace) in await final(wire)


async def test_the_policy_decides_on_the_arguments_that_a_hook_leaves(tmp_path: Path) -> None:
    async def outside(call_: BeforeToolCall) -> BeforeToolCallChange:
        assert call_.tool_name == "exec"
        return BeforeToolCallChange(params={"elevated": True})

    async with gateway(tmp_path / "home", {}) as (application, wire, _):
        application.hooks.before_tool_call.add(Handler("test", outside))
        await begin(wire, call("pwd"))
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert payload["request"]["rule"] == "elevated-approval"
        await wire.call("exec.approval.resolve", {"id": payload["id"], "decision": "deny"})
        assert "denied" in await final(wire)


async def test_a_sub_agent_of_a_group_lacks_what_the_group_lacks(tmp_path: Path) -> None:
    config = {
        "channels": {
            "memory": {"groups": {"G1": {"requireMention": False, "tools": {"deny": ["exec"]}}}}
        },
        "commands": {"ownerAllowFrom": ["memory:ann"]},
        "tools": {"alsoAllow": ["sessions_spawn"]},
    }
    platform, task = FakePlatform(tmp_path / "platform"), call("id")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, config):
        spawn = f"call sessions_spawn {json.dumps({'task': task})}"
        platform.say(spawn, peer="G1", kind="group", sender="ann", message_id="m1")
        text = await until(platform, "A sub-agent", "G1")
        assert "channels.memory.groups.tools.deny: exec" in text
