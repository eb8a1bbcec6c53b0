"""Clients read which tools there are, and what the rules say about each."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.model.errors import SkerryError
from tests.support.whole import whole_gateway

CONFIG: dict[str, Any] = {
    "tools": {"deny": ["web_fetch"], "exec": {"host": "gateway"}},
    "agents": {"list": [{"id": "main"}, {"id": "reader", "tools": {"profile": "minimal"}}]},
}


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[GatewayClient]:
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=CONFIG) as (_, address),
        GatewayClient(address, scopes=("operator.read",)) as made,
    ):
        yield made


async def listed(client: GatewayClient, **params: str) -> dict[str, dict[str, Any]]:
    rows = (await client.request("tools.list", params))["tools"]
    return {row["tool"]: row for row in rows}


async def test_each_tool_has_its_description_and_the_rule_that_decides(
    client: GatewayClient,
) -> None:
    rows = await listed(client)
    assert {"read", "write", "exec", "memory_search", "web_fetch"} <= rows.keys()
    assert all(row["description"] for row in rows.values())
    assert rows["read"]["decision"] == "allow"
    assert (rows["web_fetch"]["decision"], rows["web_fetch"]["rule"]) == (
        "deny",
        "tools.deny: web_fetch",
    )
    assert "group:fs" in rows["read"]["groups"]


async def test_an_agent_has_the_decisions_of_its_own_rules(client: GatewayClient) -> None:
    rows = await listed(client, agentId="reader", sessionKey="agent:reader:main")
    assert rows["session_status"]["decision"] == "allow"
    assert rows["read"]["decision"] == "deny"


async def test_an_unknown_agent_is_refused(client: GatewayClient) -> None:
    with pytest.raises(SkerryError, match="nobody"):
        await listed(client, agentId="nobody")
