"""The official client of the protocol, unmodified, under Node."""

from pathlib import Path
from typing import Any

import pytest

from skerry.testing.gateway import running_gateway as whole_gateway
from tests.conformance.node_program import run_node
from tests.support.gateway import TOKEN, running_gateway

pytestmark = pytest.mark.full("Node 24 and npm @openclaw/gateway-client")


async def play(url: str, token: str, script: str = "client.mjs") -> dict[str, Any]:
    """Runs the client; returns what it saw."""
    return await run_node(script, url, token)


@pytest.mark.requirement("agent-rpc-accepts-at-once")
async def test_the_official_client_connects_and_runs_an_agent_to_its_final(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        rig.dispatcher.reply = str.upper
        seen = await play(rig.url, TOKEN)
    assert seen["hello"]["protocol"] == 4
    assert seen["health"]["ok"]
    assert seen["accepted"]["status"] == "accepted"
    assert seen["final"]["status"] == "ok"
    assert seen["final"]["result"]["payloads"] == [{"text": "PING", "mediaUrl": None}]
    assert seen["gaps"] == []
    assert seen["refused"]["code"] == "INVALID_REQUEST"
    states = [one["payload"]["state"] for one in seen["events"] if one["event"] == "chat"]
    assert states == ["status", "delta", "final"]


async def test_the_official_client_gets_an_answer_of_the_whole_gateway() -> None:
    async with whole_gateway() as gateway:
        seen = await play(gateway.address.url, gateway.token)
    assert seen["final"]["status"] == "ok"
    assert seen["final"]["result"]["payloads"] == [{"text": "echo: ping", "mediaUrl": None}]
    assert seen["gaps"] == []
    assert seen["events"][-1]["payload"]["state"] == "final"


async def test_the_official_client_is_refused_with_a_wrong_token(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        with pytest.raises(AssertionError, match="gateway token mismatch"):
            await play(rig.url, "wrong")


async def test_the_official_client_pairs_a_device_and_a_node_and_comes_back_with_its_token(
    tmp_path: Path,
) -> None:
    async with running_gateway(tmp_path) as rig:
        seen = await play(rig.url, TOKEN, "device.mjs")
    assert seen["again"]["deviceToken"] == seen["first"]["deviceToken"]
    assert seen["again"]["scopes"] == seen["first"]["scopes"]
    assert (seen["node"]["role"], seen["node"]["scopes"]) == ("node", [])
    assert seen["invoked"]["payload"] == {"lens": "front"}
    (device,) = seen["listing"]["paired"]
    assert device["deviceId"] == seen["deviceId"]
    assert sorted(device["roles"]) == ["node", "operator"]
    assert seen["stale"]["code"] == "AUTH_TOKEN_MISMATCH"
    assert seen["stale"]["canRetryWithDeviceToken"]
