"""An approval in the chat whose conversation made the call: asked there, answered by the owner."""

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from skerry.hooks.hooks import Hooks
from skerry.runtime import call_approvals
from skerry.testing.channel import FakePlatform
from tests.e2e.test_approvals import asking, ran
from tests.support.asking_tool import AskingTool
from tests.support.whole import whole_gateway
from tests.support.wire import connected

OWNED = {"commands": {"ownerAllowFrom": ["memory:alice"]}}


async def until(platform: FakePlatform, words: str, peer: str = "alice") -> str:
    """Returns the message with the words that the person received."""
    with anyio.fail_after(60):
        while True:
            for message in platform.received():
                if words in message.text and message.peer == peer:
                    return message.text
            await anyio.lowlevel.checkpoint()


async def test_the_owner_is_asked_in_the_chat_and_answers_there(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with whole_gateway(tmp_path / "home", Hooks(), platform, OWNED) as (application, _):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        platform.say(asking("a\u202e"), message_id="m1")
        request = await until(platform, "Approval required")
        assert "ask a\\u{202e}" in request
        word = request.rpartition("/approve ")[2].split()[0]
        platform.say(f"/approve {word} allow-once", message_id="m2")
        assert word in await until(platform, "Allowed once")
        await until(platform, "ran a")
        assert ran(application) == ["a\u202e"]
        platform.say(f"/approve {word} deny", message_id="m3")
        await until(platform, "No pending approval")


@pytest.mark.abuse(59)
async def test_a_chat_of_somebody_else_is_not_asked_about_the_call_of_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call_approvals, "WAIT_SECONDS", 0.05)
    platform = FakePlatform(tmp_path / "platform")
    config = {**OWNED, "tools": {"guests": {"allow": ["asking"]}}}
    async with (
        whole_gateway(tmp_path / "home", Hooks(), platform, config) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        platform.say(asking("a"), peer="mallory", message_id="m1")
        payload = (await wire.event("exec.approval.requested"))["payload"]
        assert payload["request"]["command"] == "ask a"
        assert "approval-pending" in await until(platform, "result: ", "mallory")
        assert not [message for message in platform.received() if "/approve" in message.text]


@pytest.mark.abuse(74)
async def test_nobody_else_and_no_other_conversation_can_answer(tmp_path: Path) -> None:
    platform = FakePlatform(tmp_path / "platform")
    async with (
        whole_gateway(tmp_path / "home", Hooks(), platform, OWNED) as (application, address),
        connected(address.url, auth={"token": address.token}) as wire,
    ):
        tools: Any = application.dispatch.runtime.tools
        tools.features.append(AskingTool())
        platform.say(asking("a"), message_id="m1")
        request = await until(platform, "Approval required")
        word = request.rpartition("/approve ")[2].split()[0]
        platform.say(f"/approve {word} allow-once", peer="mallory", message_id="m2")
        params = {
            "sessionKey": "agent:main:elsewhere",
            "message": f"/approve {word} allow-once",
            "idempotencyKey": "k",
        }
        await wire.call("chat.send", params)
        elsewhere = await wire.event("chat", state="final", runId="k")
        assert "No pending approval" in json.dumps(elsewhere["payload"])
        (pending,) = await wire.call("exec.approval.list")
        assert pending["id"].startswith(word)
        assert pending["reached"] is True
        assert ran(application) == []
        assert not [
            message
            for message in platform.received()
            if message.peer == "mallory" and word in message.text
        ]
