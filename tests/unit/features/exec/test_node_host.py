"""The node of a command: it is named by its id, or by a name that no other paired node has."""

from collections.abc import Mapping
from typing import Any

import pytest

from skerry.features.exec.node_host import Call, find
from skerry.model.errors import ToolError

OWN, OTHER = "a" * 64, "b" * 64


def row(node_id: str, name: str, *, connected: bool = True) -> dict[str, Any]:
    commands = ["system.run"] if connected else []
    return {"nodeId": node_id, "displayName": name, "connected": connected, "commands": commands}


def nodes(*rows: dict[str, Any]) -> Call:
    async def call(method: str, _params: Mapping[str, Any], _scopes: tuple[str, ...]) -> Any:
        assert method == "node.list"
        return {"nodes": list(rows)}

    return call


@pytest.mark.parametrize("name", [None, OWN, "desk"])
async def test_a_node_is_found_by_its_id_and_by_its_name(name: str | None) -> None:
    rows = [row(OWN, "desk"), *([row(OTHER, "lap")] if name else [])]
    assert (await find(nodes(*rows), name)).id == OWN


@pytest.mark.abuse(119)
@pytest.mark.parametrize("connected", [True, False])
async def test_a_node_that_takes_the_name_of_another_gets_no_command_for_it(
    *, connected: bool
) -> None:
    call = nodes(row(OWN, "desk", connected=connected), row(OTHER, "desk"))
    with pytest.raises(ToolError, match="2 paired nodes call themselves 'desk'"):
        await find(call, "desk")
    by_id = nodes(row(OWN, "desk", connected=connected), row(OTHER, OWN))
    if connected:
        assert (await find(by_id, OWN)).id == OWN
        return
    with pytest.raises(ToolError, match="is not connected"):
        await find(by_id, OWN)
