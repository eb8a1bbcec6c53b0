"""The official client of the protocol, unmodified, under Node."""

from pathlib import Path
from typing import Any

import pytest

from skerry.testing.gateway import running_gateway as whole_gateway
from tests.conformance.node_program import run_node
from tests.support.gateway import TOKEN, running_gateway

pytestmark = pytest.mark.full("Node 24 and npm @openclaw/gateway-client")


async def play(url: str, token: str, script: str = "client.mjs") -> dict[str, Any]:
    """Runs the client; returns its output."""
    return await run_node(script, url, token)


@pytest.mark.requirement("agent-rpc-accepts-at-once")
async def test_the_official_client_connects_and_runs_an_agent_to_its_final(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        rig.dispatcher.reply = str.upper
        payload = await play(rig.url, TOKEN)
    assert payload["hello"]["protocol"] == 4
    assert payload["health"]["ok"]
    assert payload["accepted"]["status"] == "accepted"
    assert payload["final"]["status"] == "ok"
    assert payload["final"]["result"]["payloads"] == [{"text": "PING", "mediaUrl": None}]
    assert payload["gaps"] == []
    assert payload["refused"]["code"] == "INVALID_REQUEST"
    states = [event["payload"]["state"] for event in payload["events"] if event["event"] == "chat"]
    assert states == ["status", "delta", "final"]


async def test_the_official_client_gets_an_answer_of_the_whole_gateway() -> None:
    async with whole_gateway() as gateway:
        payload = await play(gateway.address.url, gateway.token)
    assert payload["final"]["status"] == "ok"
    assert payload["final"]["result"]["payloads"] == [{"text": "echo: ping", "mediaUrl": None}]
    assert payload["gaps"] == []
    assert payload["events"][-1]["payload"]["state"] == "final"


async def test_the_official_client_is_refused_with_a_wrong_token(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        with pytest.raises(AssertionError, match="gateway token mismatch"):
            await play(rig.url, "wrong")


async def test_the_official_client_pairs_a_device_and_a_node_and_comes_back_with_its_token(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as rig:
        payload = await play(rig.url, TOKEN, "device.mjs")
    assert payload["again"]["deviceToken"] == payload["first"]["deviceToken"]
    assert payload["again"]["scopes"] == payload["first"]["scopes"]
    assert (payload["node"]["role"], payload["node"]["scopes"]) == ("node", [])
    assert payload["invoked"]["payload"] == {"lens": "front"}
    (device,) = payload["listing"]["paired"]
    assert device["deviceId"] == payload["deviceId"]
    assert sorted(device["roles"]) == ["node", "operator"]
    assert payload["stale"]["code"] == "AUTH_TOKEN_MISMATCH"
    assert payload["stale"]["canRetryWithDeviceToken"]
