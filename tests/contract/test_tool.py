"""The contract of `ports.tool.Tool`, kept by every tool of the gateway. A new one adds a row."""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import pytest
from pydantic import BaseModel, ValidationError

from skerry.config.root import Config
from skerry.features.files.apply_patch import ApplyPatch
from skerry.features.files.edit_tool import Edit
from skerry.features.files.read_tool import Read
from skerry.features.files.write_tool import Write
from skerry.features.nodes.canvas_tool import CanvasTool
from skerry.features.nodes.tool import NodesTool
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import SkerryError
from skerry.model.ids import SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult
from skerry.ports.tool import Tool, ToolContext, reads_only
from skerry.sdk.tool_host import ToolHost
from skerry.sdk.tools import FunctionTool
from skerry.testing.clock import FakeClock

if TYPE_CHECKING:
    from skerry.store import Store

OWNER: Final = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class Row:
    """A tool, with arguments that it can take in a workspace with a file `a.txt`."""

    tool: Tool
    good: Mapping[str, Any]
    path: str = ""
    """Name of the argument that is a path."""


class Echo(BaseModel):
    """Parameters of the plugin's tool."""

    text: str


async def _echo(params: Echo, _: ToolContext) -> str:
    return params.text


async def _one_node(method: str, params: Mapping[str, Any], _: tuple[str, ...]) -> Any:
    """Answers as a gateway with one node does."""
    if method == "node.invoke":
        return {"payload": {"command": params["command"]}}
    about = {"nodeId": "n" * 64, "displayName": "desk", "connected": True}
    return {"nodes": [{**about, "commands": ["canvas.hide"]}]}


HOST: Final = ToolHost(
    config=Config, store=cast("Store", None), environ={}, clock=FakeClock(), call=_one_node
)
PATCH: Final = "*** Begin Patch\n*** Update File: a.txt\n@@\n-one\n+two\n*** End Patch"
ROWS: Final[dict[str, Row]] = {
    "read": Row(Read(), {"path": "a.txt"}, "path"),
    "write": Row(Write(), {"path": "b.txt", "content": "new"}, "path"),
    "edit": Row(Edit(), {"path": "a.txt", "oldText": "one", "newText": "two"}, "path"),
    "apply_patch": Row(ApplyPatch(), {"input": PATCH}),
    "nodes": Row(NodesTool(HOST), {"action": "list"}),
    "canvas": Row(CanvasTool(HOST), {"action": "hide"}),
    "a plugin's": Row(FunctionTool("echo", "Say it.", Echo, _echo), {"text": "hi"}),
}


@dataclass(frozen=True)
class Stage:
    """A workspace, the files beside it, and the row under test."""

    row: Row
    home: Path

    @property
    def context(self) -> ToolContext:
        return ToolContext(RootedFolder(self.home / "workspace"), None, OWNER)

    async def call(self, **changed: object) -> ToolResult:
        return await self.row.tool.run({**self.row.good, **changed}, self.context)

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }


def stage(row: Row, home: Path) -> Stage:
    workspace = home / "workspace"
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n", "utf-8")
    (home / "outside.txt").write_text("canary\n", "utf-8")
    (workspace / "link.txt").symlink_to(home / "outside.txt")
    (workspace / "way").symlink_to(home)
    return Stage(row, home)


async def describes_itself_for_every_model(at: Stage) -> None:
    spec = at.row.tool.spec
    assert NAME.fullmatch(spec.name)
    assert spec.description.endswith((".", "?"))
    assert spec.parameters["type"] == "object"
    assert set(at.row.good) <= spec.parameters["properties"].keys()
    json.dumps(spec.parameters)
    assert at.row.tool.spec == spec


async def returns_text_for_good_arguments(at: Stage) -> None:
    result = await at.call()
    assert isinstance(result, ToolResult)
    assert not result.is_error
    assert result.text


async def refuses_arguments_of_another_shape_and_does_nothing(at: Stage) -> None:
    before = at.files()
    for name in at.row.good:
        with pytest.raises((ValidationError, SkerryError)):
            await at.call(**{name: {"deep": []}})
    with pytest.raises((ValidationError, SkerryError)):
        await at.row.tool.run({}, at.context)
    assert at.files() == before


async def opens_nothing_outside_of_the_workspace(at: Stage) -> None:
    if not at.row.path:
        return
    before = at.files()
    outside = ["../outside.txt", str(at.home / "outside.txt"), "link.txt", "way/outside.txt"]
    for path in outside:
        with pytest.raises(SkerryError) as caught:
            await at.call(**{at.row.path: path})
        assert "canary" not in str(caught.value)
    assert at.files() == before


async def has_no_effect_where_it_says_so(at: Stage) -> None:
    before = at.files()
    first = await at.call()
    if reads_only(at.row.tool):
        assert at.files() == before
        assert await at.call() == first


Clause = Callable[[Stage], Awaitable[None]]
CONTRACT: Final[list[Clause]] = [
    describes_itself_for_every_model,
    returns_text_for_good_arguments,
    refuses_arguments_of_another_shape_and_does_nothing,
    opens_nothing_outside_of_the_workspace,
    has_no_effect_where_it_says_so,
]


@pytest.mark.parametrize("clause", CONTRACT, ids=lambda clause: clause.__name__)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
async def test_a_tool_keeps_the_contract(row: Row, clause: Clause, tmp_path: Path) -> None:
    await clause(stage(row, tmp_path))


class Open(Read):
    """Reads without a look at where a path leads."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        return ToolResult((context.workspace.root / arguments["path"]).read_text("utf-8"))


class Hidden(Write):
    """Writes, and says that it has no effect."""

    reads_only = True


class Silent(Read):
    """Takes whatever it is given."""

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> ToolResult:
        del arguments, context
        return ToolResult("")


@pytest.mark.parametrize(
    ("defect", "clause"),
    [
        (Row(Open(), {"path": "a.txt"}, "path"), opens_nothing_outside_of_the_workspace),
        (Row(Hidden(), {"path": "b.txt", "content": "x"}, "path"), has_no_effect_where_it_says_so),
        (Row(Silent(), {"path": "a.txt"}), returns_text_for_good_arguments),
        (Row(Silent(), {"path": "a.txt"}), refuses_arguments_of_another_shape_and_does_nothing),
    ],
)
async def test_a_tool_with_a_defect_breaks_it(defect: Row, clause: Clause, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await clause(stage(defect, tmp_path))
