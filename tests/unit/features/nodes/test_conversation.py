"""Events of nodes: payloads that are refused, and limits."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from skerry.features.nodes.conversation import MAX_TEXT, MAX_WAITING
from tests.support.device import Device
from tests.support.gateway import Rig, running_gateway
from tests.support.wire import Wire

NODE: dict[str, Any] = {
    "role": "node",
    "scopes": None,
    "client": {"id": "node-host", "version": "2", "platform": "linux", "mode": "node"},
}


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    async with running_gateway(tmp_path) as rig:
        yield rig


@pytest.fixture
async def node(rig: Rig) -> AsyncIterator[Wire]:
    async with Device().connected(rig.url, **NODE) as wire:
        yield wire


@pytest.mark.parametrize(
    ("event", "params", "message"),
    [
        ("agent.request", {}, "invalid payload: payload: Input should be"),
        ("agent.request", {"payload": {}}, "invalid payload: message: Field required"),
        ("agent.request", {"payload": {"message": 5}}, "message: Input should be a valid string"),
        ("agent.request", {"payload": {"message": ""}}, "message: String should have at least 1"),
        ("agent.request", {"payloadJSON": "{"}, "invalid payload"),
        ("voice.transcript", {"payload": {"text": "x" * (MAX_TEXT + 1)}}, "at most 20000"),
        ("chat.subscribe", {"payload": {"sessionKey": 1}}, "sessionKey: Input should be"),
    ],
)
async def test_a_payload_that_is_wrong_is_refused(
    rig: Rig, node: Wire, event: str, params: dict[str, Any], message: str
) -> None:
    error = (await node.ask("node.event", {"event": event, **params}))["error"]
    assert error["code"] == "INVALID_REQUEST"
    assert message in error["message"]
    assert rig.dispatcher.submitted == []


async def test_a_message_without_text_starts_nothing(rig: Rig, node: Wire) -> None:
    params = {"event": "voice.transcript", "payload": {"text": " \n", "unknown": 1}}
    answer = await node.call("node.event", params)
    assert (answer["handled"], answer["reason"]) == (False, "empty_text")
    assert rig.dispatcher.submitted == []


async def test_a_node_cannot_fill_the_gateway_with_messages(rig: Rig, node: Wire) -> None:
    params = {"event": "agent.request", "payload": {"message": "again", "timeoutSeconds": 5}}
    for _ in range(MAX_WAITING):
        assert (await node.call("node.event", params))["handled"] is True
    error = (await node.ask("node.event", params))["error"]
    assert (error["code"], error["retryable"]) == ("UNAVAILABLE", True)
    assert len(rig.dispatcher.submitted) == MAX_WAITING
    assert rig.dispatcher.submitted[0].timeout == 5
