"""The Model Context Protocol at `/api/mcp`: tools of the memory for clients with a bearer key."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.relayer import Lab


async def call(lab: Lab, method: str, params: object = None, **headers: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    known = {
        "authorization": f"Bearer {lab.me.seed.hex()}",
        "x-memwal-account-id": lab.me.account_id,
    }
    return await lab.http.post("/api/mcp", json=body, headers=known | headers)


async def tool(lab: Lab, name: str, arguments: object, **headers: str) -> tuple[bool, Any]:
    answer = await call(lab, "tools/call", {"name": name, "arguments": arguments}, **headers)
    result = answer.json()["result"]
    text = result["content"][0]["text"]
    return result["isError"], json.loads(text) if text.startswith("{") else text


async def test_a_client_is_introduced_and_sees_the_tools(lab: Lab) -> None:
    answer = (await call(lab, "initialize", {"protocolVersion": "2025-06-18"})).json()["result"]
    assert answer["protocolVersion"] == "2025-06-18"
    assert (await call(lab, "ping")).json()["result"] == {}
    tools = (await call(lab, "tools/list")).json()["result"]["tools"]
    assert {"memwal_remember", "memwal_recall", "memwal_analyze", "memwal_restore"} <= {
        entry["name"] for entry in tools
    }
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    headers = {
        "authorization": f"Bearer {lab.me.seed.hex()}",
        "x-memwal-account-id": lab.me.account_id,
    }
    assert (await lab.http.post("/api/mcp", json=note, headers=headers)).status_code == 202


async def test_tools_store_and_find_in_the_namespace_of_the_client(lab: Lab) -> None:
    space = {"x-memwal-namespace": "work"}
    failed, job = await tool(lab, "memwal_remember", {"text": "I drink tea"}, **space)
    assert (failed, job["status"]) == (False, "running")
    _, state = await tool(lab, "memwal_remember_status", {"job_ids": [job["job_id"]]})
    assert state["results"][0]["status"] == "done"
    failed, payload = await tool(lab, "memwal_recall", {"query": "tea"}, **space)
    assert (failed, [row["text"] for row in payload["results"]]) == (False, ["I drink tea"])
    _, elsewhere = await tool(lab, "memwal_recall", {"query": "tea"})
    assert elsewhere["total"] == 0
    assert (await tool(lab, "memwal_health", {}))[1]["status"] == "ok"


async def test_wrong_arguments_are_results_and_wrong_calls_are_errors(lab: Lab) -> None:
    failed, text = await tool(lab, "memwal_recall", {"query": ""})
    assert (failed, text) == (True, {"error": "query cannot be empty"})
    assert (await tool(lab, "memwal_recall", {}))[0] is True
    assert (await call(lab, "tools/call", {"name": "rm"})).json()["error"]["code"] == -32602
    assert (await call(lab, "resources/list")).json()["error"]["code"] == -32601


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": ""},
        {"authorization": "Bearer " + "ab" * 32},
        {"authorization": "Bearer x"},
        {"x-memwal-account-id": "0x" + "34" * 32},
        {"x-memwal-account-id": ""},
    ],
    ids=["none", "unknown", "malformed", "other-account", "no-account"],
)
async def test_only_a_delegate_of_the_account_is_let_in(lab: Lab, headers: dict[str, str]) -> None:
    answer = await call(lab, "tools/list", **headers)
    assert (answer.status_code, answer.content) == (401, b"")


async def test_the_route_is_closed_unless_it_was_opened(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    lab.relayer.mcp = False
    async with lab.http:
        assert (await call(lab, "tools/list")).status_code == 404
    lab.relayer.nonces.close()
