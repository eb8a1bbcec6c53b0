"""The official client of the protocol, unmodified, under Node."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from skerry.testing.gateway import running_gateway as whole_gateway
from tests.conformance.schema import HERE
from tests.support.gateway import TOKEN, running_gateway

pytestmark = pytest.mark.full("Node 24 and npm @openclaw/gateway-client")

SECONDS = 60


def node() -> str:
    """Return the Node that npm installed, or the system's."""
    return (
        shutil.which("node", path=f"{HERE}/node_modules/.bin{os.pathsep}{os.environ['PATH']}")
        or "node"
    )


async def play(url: str, token: str, script: str = "client.mjs") -> dict[str, Any]:
    """Run the client; return what it saw."""

    def run() -> subprocess.CompletedProcess[str]:
        command = [node(), str(HERE / script), url, token]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    done = await anyio.to_thread.run_sync(run)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


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
    assert states == ["delta", "final"]


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
