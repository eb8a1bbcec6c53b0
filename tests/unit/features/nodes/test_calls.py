"""The node that a tool means by an id, a name or a command; the binding of an approval."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from skerry.features.nodes.calls import MAX_PARAMS, Call, NodeCommand, NodeRow, find, run_on
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.errors import ToolError
from skerry.policy.effect import ToolEffect
from skerry.ports.tool import Assessment, ToolContext

SNAP = "camera.snap"
DESK = NodeRow("a" * 64, "desk", "linux", is_connected=True, commands=(SNAP,))


def row(node_id: str, name: str | None, **changes: Any) -> dict[str, Any]:
    about = {"nodeId": node_id, "displayName": name, "connected": True, "commands": [SNAP]}
    return about | changes


def nodes(*rows: dict[str, Any]) -> Call:
    async def call(method: str, params: Mapping[str, Any], scopes: tuple[str, ...]) -> Any:
        assert (method, dict(params), scopes) == ("node.list", {}, ("operator.read",))
        return {"nodes": list(rows)}

    return call


@pytest.mark.parametrize("expected", [None, "desk", "a" * 64])
async def test_a_node_is_found_by_command_name_or_id(expected: str | None) -> None:
    call = nodes(row("a" * 64, "desk"), row("b" * 64, "other", commands=[]))
    assert (await find(call, expected, SNAP)).id == "a" * 64


@pytest.mark.parametrize(
    ("rows", "expected", "message"),
    [
        ([], None, "No connected node has the command 'camera.snap'"),
        ([row("a", "x"), row("b", "y")], None, r"Several nodes .* x \(a\), y \(b\)"),
        ([row("a", "x"), row("b", "x", connected=False)], "x", "2 nodes are named 'x'"),
        ([row("a", "x", connected=False)], "x", "not connected. Connected nodes: none"),
        ([row("a", "x", commands=["a.b"])], "x", "has no command 'camera.snap'. It has: a.b"),
    ],
)
async def test_a_doubtful_node_is_refused_with_a_remedy(
    rows: list[dict[str, Any]], expected: str | None, message: str
) -> None:
    with pytest.raises(ToolError, match=message):
        await find(nodes(*rows), expected, SNAP)


async def test_a_node_that_takes_the_id_of_another_as_its_name_is_not_meant_by_it() -> None:
    rows = nodes(row("a", "x"), row("b", "a"))
    assert (await find(rows, "a", SNAP)).id == "a"


def test_an_approval_is_bound_to_device_command_and_parameters() -> None:
    other = NodeRow("b" * 64, "desk", "linux", is_connected=True, commands=(SNAP,))
    commands = (
        NodeCommand(DESK, SNAP, {"a": 1}),
        NodeCommand(DESK, SNAP, {"a": 2}),
        NodeCommand(DESK, "camera.clip", {"a": 1}),
        NodeCommand(other, SNAP, {"a": 1}),
    )
    assert len({each.subject().binding for each in commands}) == 4
    with pytest.raises(ToolError, match="more than 65536 bytes"):
        NodeCommand(DESK, SNAP, {"a": "x" * MAX_PARAMS}).subject()


async def test_a_command_does_not_run_on_another_device_than_the_approved_one(
    tmp_path: Path,
) -> None:
    approved = NodeCommand(DESK, SNAP, {}).subject()
    assessment = Assessment(ToolEffect.ASK, "node-command-ask", subject=approved)
    context = ToolContext(RootedFolder(tmp_path), assessment=assessment)
    other = NodeRow("b" * 64, "desk", "linux", is_connected=True, commands=(SNAP,))
    with pytest.raises(ToolError, match="changed meanwhile"):
        await run_on(nodes(), NodeCommand(other, SNAP, {}), context)
