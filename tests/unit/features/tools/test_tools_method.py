"""Clients read the list of tools, and the decision of the rules on each."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.model.errors import SkerryError
from skerry.policy.tool_names import CHOSEN
from skerry.testing.model import ScriptedModel, echo
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


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"tools": {"alsoAllow": ["cron", "image"]}},
        {"tools": {"profile": "messaging"}},
        {"agents": {"defaults": {"subagents": {"maxConcurrent": 2}}}},
        {"browser": {"enabled": True}},
    ],
    ids=["default", "named", "profile", "subagents", "browser"],
)
async def test_the_tools_that_are_allowed_are_those_that_a_request_of_the_owner_offers(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    model = ScriptedModel(echo)
    async with (
        whole_gateway(tmp_path / "home", Hooks(), config=config, model=model) as (_, address),
        GatewayClient(address, scopes=("operator.read", "operator.write")) as client,
    ):
        rows = await listed(client)
        await client.request("agent", {"message": "x", "idempotencyKey": "x"})
        with anyio.fail_after(60):
            while not model.requests:
                await anyio.lowlevel.checkpoint()
    offered = {tool.name for tool in model.requests[0].request.tools}
    assert {name for name, row in rows.items() if row["decision"] == "allow"} == offered
    refused = {row["rule"] for name, row in rows.items() if name in CHOSEN - offered}
    assert refused <= {"not-offered", "tools.profile=messaging: not listed"}
