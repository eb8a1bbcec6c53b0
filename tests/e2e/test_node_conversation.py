"""The conversation of a node: messages over a real WebSocket, and whose words they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from skerry.model.ids import AgentId
from tests.support.device import Device
from tests.support.node_device import NodeRig, node_gateway, phone
from tests.support.wire import Wire


def own(device: Device) -> str:
    return f"agent:main:node-{device.id}"


async def tell(node: Wire, event: str, **payload: Any) -> Any:
    return await node.call("node.event", {"event": event, "payloadJSON": json.dumps(payload)})


async def finished(rig: NodeRig, key: str) -> str:
    """Returns the answer of the next run of a conversation, as JSON."""
    payload = (await rig.wire.event("chat", state="final"))["payload"]
    assert payload["sessionKey"] == key
    return json.dumps(payload["message"])


def owned_by(device: Device) -> dict[str, Any]:
    return {"gateway": {"nodes": {"owners": [device.id]}}}


@pytest.mark.requirement("session-key-node")
@pytest.mark.parametrize(
    ("event", "field"), [("agent.request", "message"), ("voice.transcript", "text")]
)
async def test_a_message_of_a_node_runs_in_the_conversation_of_the_node(
    tmp_path: Path, event: str, field: str
) -> None:
    device = Device()
    async with node_gateway(tmp_path / "home", {}) as rig, phone(rig, device) as node:
        answer = await tell(node, event, **{field: "is it high tide"})
        assert answer == {"ok": True, "event": event, "handled": True}
        assert "is it high tide" in await finished(rig, own(device))
        keys = {row["key"] for row in (await rig.wire.call("sessions.list"))["sessions"]}
        assert own(device) in keys
        history = await rig.wire.call("chat.history", {"sessionKey": own(device)})
        assert len(history["messages"]) == 2


async def test_a_node_is_not_the_owner_without_the_configuration(tmp_path: Path) -> None:
    device = Device()
    config = {"tools": {"alsoAllow": ["nodes"]}}
    async with node_gateway(tmp_path / "home", config) as rig, phone(rig, device) as node:
        workspace = rig.application.settings.config.workspace(AgentId("main"))
        (workspace / "USER.md").write_text("The owner lives at 7 Quay Street.")
        await tell(node, "agent.request", message="who is your owner")
        await finished(rig, own(device))
        request = rig.model.requests[-1]
        assert request.request.tools == ()
        assert "untrusted-message" in request.last
        assert "Quay Street" not in request.request.system
        taint = await rig.wire.call("sessions.taint", {"key": own(device)})
        assert taint["origins"] == ["known"]
        await rig.begin("hello")
        await rig.final()
        assert "Quay Street" in rig.model.requests[-1].request.system, "the control"


async def test_a_device_of_the_owner_has_the_owners_tools_and_may_use_main(tmp_path: Path) -> None:
    device = Device()
    async with (
        node_gateway(tmp_path / "home", owned_by(device)) as rig,
        phone(rig, device) as node,
    ):
        await tell(node, "agent.request", message='call read {"path": "note.txt"}')
        assert "a note of main" in await finished(rig, own(device))
        await tell(node, "voice.transcript", text="hello", sessionKey="main")
        await finished(rig, "agent:main:main")
        assert "untrusted-message" not in rig.model.requests[-1].last


async def test_another_node_gets_its_own_conversation_instead_of_main(tmp_path: Path) -> None:
    device, other = Device(), Device()
    config = owned_by(other)
    wanted = ("main", "agent:main:main", "global", own(other), f"agent:sea:node-{device.id}", ":::")
    async with node_gateway(tmp_path / "home", config) as rig, phone(rig, device) as node:
        for number, key in enumerate((*wanted, "agent:::")):
            answer = await tell(node, "voice.transcript", text=f"hello {number}", sessionKey=key)
            (warning,) = answer["warnings"]
            assert warning["path"] == "/payload/sessionKey"
            assert f"hello {number}" in await finished(rig, own(device))
            refused = await tell(node, "chat.subscribe", sessionKey=key)
            assert (refused["handled"], refused["reason"]) == (False, "session_not_allowed")
        answer = await tell(node, "voice.transcript", text="mine", sessionKey=own(device))
        assert "warnings" not in answer
        await finished(rig, own(device))


async def test_a_subscribed_node_receives_the_answers_of_its_conversation_and_no_other(
    tmp_path: Path,
) -> None:
    device = Device()
    async with node_gateway(tmp_path / "home", {}) as rig, phone(rig, device) as node:
        assert (await tell(node, "chat.subscribe"))["handled"] is True
        await rig.begin("of the owner")
        await rig.final()
        await tell(node, "agent.request", message="mine")
        event = await node.event("chat", state="final")
        assert event["payload"]["sessionKey"] == own(device)
        assert "mine" in json.dumps(event["payload"]["message"])
        heard = {frame["event"] for frame in node.frames if frame["type"] == "event"}
        assert "agent" not in heard
        assert "of the owner" not in json.dumps(node.frames)
        await tell(node, "chat.unsubscribe")
        await finished(rig, own(device))
        before = len([frame for frame in node.frames if frame.get("event") == "chat"])
        await tell(node, "agent.request", message="unheard")
        await finished(rig, own(device))
        await node.call("skills.bins")
        after = len([frame for frame in node.frames if frame.get("event") == "chat"])
        assert after == before


async def test_an_event_that_is_repeated_runs_once(tmp_path: Path) -> None:
    device = Device()
    async with node_gateway(tmp_path / "home", {}) as rig, phone(rig, device) as node:
        for _ in range(2):
            await tell(node, "voice.transcript", text="once", eventId="e1")
        await finished(rig, own(device))
        await tell(node, "voice.transcript", text="twice", eventId="e2")
        assert "twice" in await finished(rig, own(device))
        history = await rig.wire.call("chat.history", {"sessionKey": own(device)})
        assert len(history["messages"]) == 4


async def test_a_message_of_a_node_is_no_command(tmp_path: Path) -> None:
    device = Device()
    async with (
        node_gateway(tmp_path / "home", owned_by(device)) as rig,
        phone(rig, device) as node,
    ):
        for number, text in enumerate(("/status", "/new", "/elevated full")):
            await tell(node, "agent.request", message=text)
            await finished(rig, own(device))
            assert len(rig.model.requests) == number + 1
            assert text in rig.model.requests[-1].last
