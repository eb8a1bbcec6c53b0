"""The policy on tools of MCP servers: their offer, and the calls that require an approval."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.features.mcp.tool import McpTool
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.origin import Origin
from skerry.policy.decide import decide
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import Tool, ToolContext, assess, call_of, permitted
from skerry.runtime.toolbox import Toolbox, tool_layers
from tests.support.mcp import GUEST, OWNER, Script, config_of, hosted, tool


async def tools_of(home: Path, **settings: Any) -> dict[str, McpTool]:
    """Returns the tools `look`, which the server declares as read-only, and `act`."""
    script = Script(home / "s.json", tool("look", annotations={"readOnlyHint": True}), tool("act"))
    async with hosted(home, {"small": script.server | settings}) as hosts:
        with anyio.fail_after(60):
            await hosts.source.prepare(OWNER)
        tools = dict(hosts.source.tools)
    return {name[10:]: made for name, made in tools.items() if isinstance(made, McpTool)}


async def effects(tools: dict[str, McpTool], caller: Caller, home: Path) -> list[ToolEffect]:
    context = ToolContext(RootedFolder(home), caller=caller)
    return [(await assess(tools[name], {}, context)).effect for name in ("look", "act")]


ALLOW, ASK, DENY = ToolEffect.ALLOW, ToolEffect.ASK, ToolEffect.DENY


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [ASK, ASK]),
        ({"autoApprove": ["a*"]}, [ASK, ALLOW]),
        ({"autoApproveReadOnly": True}, [ALLOW, ASK]),
    ],
)
async def test_a_call_needs_an_approval_unless_the_owner_allows_the_tool(
    tmp_path: Path, settings: dict[str, Any], expected: list[ToolEffect]
) -> None:
    tools = await tools_of(tmp_path, **settings)
    assert await effects(tools, OWNER, tmp_path) == expected
    assert await effects(tools, GUEST, tmp_path) == [ASK, ASK]


async def test_only_the_owner_is_offered_the_tools_unless_one_is_granted(tmp_path: Path) -> None:
    tools = (await tools_of(tmp_path)).values()
    for granted, expected in (([], []), (["mcp_small_look"], ["mcp_small_look"])):
        section = {"tools": {"guests": {"allow": granted}}}
        config = config_of(tmp_path, {}).model_validate(
            {"state_dir": tmp_path, "path": tmp_path / "c", **section}
        )
        layers = tool_layers(config, GUEST, ("p", "m"), frozenset())
        assert [each.spec.name for each in permitted(tools, GUEST, layers)] == expected
        assert len(permitted(tools, OWNER, layers)) == 2


@pytest.mark.parametrize("denied", ["mcp_small", "mcp_small_*", "mcp_*", "group:plugins"])
async def test_a_list_denies_all_tools_of_a_server(tmp_path: Path, denied: str) -> None:
    tools = (await tools_of(tmp_path)).values()
    config = config_of(tmp_path, {}).model_validate(
        {"state_dir": tmp_path, "path": tmp_path / "c", "tools": {"deny": [denied]}}
    )
    assert permitted(tools, OWNER, tool_layers(config, OWNER, ("p", "m"), frozenset())) == []


async def test_in_a_tainted_run_only_tools_that_both_call_read_only_run_unasked(
    tmp_path: Path,
) -> None:
    tools = await tools_of(tmp_path, autoApprove=["*"])
    context = ToolContext(RootedFolder(tmp_path), caller=OWNER, taint=frozenset({Origin.TOOL}))
    layers = tool_layers(config_of(tmp_path, {}), OWNER, ("p", "m"), frozenset())
    decided = [decide(call_of(tools[name], {}, context, layers)).effect for name in ("look", "act")]
    assert decided == [ALLOW, ASK]


async def test_an_approval_is_bound_to_the_version_of_the_tool_and_to_the_arguments(
    tmp_path: Path,
) -> None:
    tools = await tools_of(tmp_path)
    context = ToolContext(RootedFolder(tmp_path), caller=OWNER)
    bound = set()
    for name, arguments in (("act", {}), ("act", {"a": 1}), ("look", {})):
        subject = (await tools[name].assess(arguments, context)).subject
        assert subject is not None
        bound.add(subject.binding)
    assert len(bound) == 3


class Listed:
    """A source with one tool. Implements `ports.tool.ToolSource`."""

    is_active = True
    problems: Sequence[str] = ()

    def __init__(self, tool: McpTool) -> None:
        self.tools: Mapping[str, Tool] = {tool.spec.name: tool}
        self.prepared: list[Caller] = []

    async def prepare(self, caller: Caller) -> None:
        self.prepared.append(caller)


async def test_a_toolbox_has_the_tools_of_sources_beside_those_of_plugins(tmp_path: Path) -> None:
    made = (await tools_of(tmp_path))["act"]
    source = Listed(made)
    box = Toolbox(make_sources=lambda: {"mcp": source})
    assert dict(box) == {"mcp_small_act": made}
    assert len(box) == 1
    await box.prepare(OWNER)
    assert source.prepared == [OWNER]
    source.tools = {}
    assert dict(box) == {}
