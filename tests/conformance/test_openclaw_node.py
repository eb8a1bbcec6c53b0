"""A client of the protocol that others wrote (npm openclaw-node), unmodified, under Node."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from skerry.model.message import ToolCall
from skerry.testing.gateway import running_gateway
from skerry.testing.model import ReplyGate
from skerry.testing.model_server import HttpStep, StubModelServer
from tests.conformance.node_program import run_node

pytestmark = pytest.mark.full("Node 24 and npm openclaw-node")

KEY = "agent:main:main"


def script(body: dict[str, Any]) -> Sequence[HttpStep]:
    """Reads a file, tell of it, and talk slowly until it is stopped."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return ["It says ", "pong."]
    if "slow" in str(last["content"]):
        return ["So far", ReplyGate()]
    return ["I look.", ToolCall("c1", "read", {"path": "note.txt"})]


async def test_it_connects_runs_streams_aborts_and_reads(tmp_path: Path) -> None:
    home = tmp_path / "state"
    (home / "workspace").mkdir(mode=0o700, parents=True)
    (home / "workspace" / "note.txt").write_text("pong\n")
    async with (
        StubModelServer(script) as model,
        running_gateway(model=model.base_url, home=home) as gateway,
    ):
        url, token = gateway.address.url, gateway.token
        payload = await run_node("openclaw-node.mjs", url, token, str(tmp_path))
    assert payload["errors"] == []
    assert payload["hello"]["protocol"] == 4
    assert payload["health"]["ok"]
    assert payload["agents"]["defaultId"] == "main"
    assert payload["channels"]["channels"] == {}
    kinds = [kind for kind, _ in payload["chat"]]
    assert kinds[0] == "userMessagePersisted"
    assert kinds[-1] == "done"
    assert [kind for kind in kinds if kind in {"agent_start", "tool_use", "tool_result"}] == [
        "agent_start",
        "tool_use",
        "tool_result",
    ]
    assert ["tool_use", "read"] in payload["chat"]
    (result,) = (text for kind, text in payload["chat"] if kind == "tool_result")
    assert result.startswith("read: ")
    assert "pong" in result
    said = "".join(text for kind, text in payload["chat"] if kind == "text")
    assert said == "I look.\n\nIt says pong."
    roles = [message["role"] for message in payload["history"]["messages"]]
    assert roles == ["user", "assistant", "toolResult", "assistant"]
    assert payload["list"]["sessions"][0]["key"] == KEY
    assert payload["aborted"]["aborted"]
    assert ["text", "So far"] in payload["slow"]
    assert payload["waited"]["status"] == "ok"
    assert payload["refused"] == "unknown method: no.such.method"


async def test_its_device_signs_and_is_known_again(tmp_path: Path) -> None:
    home = tmp_path / "state"
    async with (
        StubModelServer(script) as model,
        running_gateway(model=model.base_url, home=home) as gateway,
    ):
        url, token = gateway.address.url, gateway.token
        first = await run_node("openclaw-node.mjs", url, token, str(tmp_path))
        device = json.loads((tmp_path / "device.json").read_text())
        again = await run_node("openclaw-node.mjs", url, token, str(tmp_path))
    assert len(device["deviceId"]) == len(hashlib.sha256().hexdigest())
    assert device["deviceToken"] == first["hello"]["auth"]["deviceToken"]
    assert first["hello"]["auth"]["role"] == again["hello"]["auth"]["role"] == "operator"
    assert "operator.write" in again["hello"]["auth"]["scopes"]
