"""The phases of a plugin, from its discovery to its shutdown, and the slots that it claims."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from skerry.commands.table import CommandTable
from skerry.config.check import check
from skerry.hooks.hooks import Hooks
from skerry.infra.rooted_fs import RootedFolder
from skerry.plugins import lifecycle
from skerry.plugins.discovery import candidates
from skerry.plugins.loader import Plugins, load_plugins
from skerry.ports.tool import ToolContext

CODE = """
    import builtins
    from pydantic import BaseModel
    from skerry.sdk.tools import FunctionTool

    trace = builtins.skerry_trace
    trace.append("imported")
    class P(BaseModel): ...
    async def use(params, context):
        trace.append("used")
        return "done"
    async def serve(): ...
    def register(api):
        trace.append("registered " + str(api.config))
        api.register_tool(FunctionTool("tea", "Tea.", P, use))
        api.register_service("serve", serve)
    BEGIN
    async def shutdown(): trace.append("shut down")
"""
SCHEMA = {"type": "object", "required": ["cups"], "properties": {"cups": {"type": "integer"}}}


class Folder:
    """A state directory with one plugin in `extensions`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.plugin = home / "extensions" / "tea"
        self.plugin.mkdir(mode=0o700, parents=True)

    def write(self, code: str, manifest: dict[str, Any] | None = None) -> None:
        (self.plugin / "__init__.py").write_text(dedent(code))
        if manifest is not None:
            (self.plugin / "openclaw.plugin.json").write_text(json.dumps(manifest))

    @asynccontextmanager
    async def loaded(self, **entry: Any) -> AsyncIterator[Plugins]:
        section = {"entries": {"tea": {"enabled": True, **entry}}}
        path = self.home / "skerry.json"
        config, _ = check({"plugins": section}, state_dir=self.home, path=path)
        async with Hooks() as hooks:
            plugins = await load_plugins(config, hooks, CommandTable(), {"read"})
            yield plugins
            with anyio.fail_after(60):
                await plugins.close()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    noted: list[str] = []
    monkeypatch.setattr("builtins.skerry_trace", noted, raising=False)
    return noted


@pytest.mark.requirement("plugin-manifest-config")
@pytest.mark.requirement("plugin-lifecycle-order")
@pytest.mark.requirement("plugin-registration")
async def test_a_plugin_passes_the_phases_in_their_order(folder: Folder, trace: list[str]) -> None:
    manifest = {
        "name": "tea",
        "version": "1.0.0",
        "config": {"schema": "schema.json", "defaults": {"pot": "blue"}},
    }
    (folder.plugin / "schema.json").write_text(json.dumps(SCHEMA))
    folder.write(CODE.replace("BEGIN", 'def init(): trace.append("began")'), manifest)
    async with folder.loaded() as plugins:
        (report,) = plugins.reports
        assert report.reason == "config.cups: is required.", "found, and not valid"
        assert trace == [], "nothing of it ran"
    async with folder.loaded(config={"cups": 2}) as plugins:
        (report,) = plugins.reports
        assert (report.tools, report.services) == (("tea",), ("tea.serve",))
        assert (await plugins.tools["tea"].run({}, ToolContext(RootedFolder(folder.home)))).text
        assert trace == [
            "imported",
            "registered {'pot': 'blue', 'cups': 2}",
            "began",
            "used",
        ]
    assert trace[4:] == ["shut down"]
    assert (plugins.tools, plugins.handlers()) == ({}, [])


@pytest.mark.parametrize(
    ("begin", "reason"),
    [
        ("def init(): raise ValueError('no water')", "Its init() failed: no water"),
        ("async def init(): raise SystemExit(1)", "Its init() failed: it raised SystemExit(1)"),
        ("async def init():\n        import anyio; await anyio.sleep_forever()", "not return"),
        ("def init():\n        import threading; threading.Event().wait(600)", "not return"),
    ],
    ids=["raises", "exits", "hangs", "blocks"],
)
async def test_a_plugin_that_does_not_begin_takes_no_part_and_is_shut_down(
    folder: Folder,
    trace: list[str],
    monkeypatch: pytest.MonkeyPatch,
    begin: str,
    reason: str,
) -> None:
    monkeypatch.setattr(lifecycle, "INIT_SECONDS", 0.5)
    folder.write(CODE.replace("BEGIN", begin))
    with anyio.fail_after(60):
        async with folder.loaded() as plugins:
            (report,) = plugins.reports
            assert (report.status.value, reason in report.reason) == ("failed", True), report
            assert (plugins.tools, plugins.methods) == ({}, {})
    assert trace == ["imported", "registered {}", "shut down"]


async def test_a_shutdown_that_fails_or_hangs_holds_up_nothing(
    folder: Folder, trace: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lifecycle, "SHUTDOWN_SECONDS", 0.5)
    late = "async def shutdown():\n        import anyio; await anyio.sleep_forever()"
    folder.write(
        CODE.replace("BEGIN", "").replace('async def shutdown(): trace.append("shut down")', late)
    )
    with anyio.fail_after(60):
        async with folder.loaded() as plugins:
            assert plugins.reports[0].reason == ""
    assert plugins.tools == {}
    assert trace


@pytest.mark.requirement("plugin-manifest-capabilities")
async def test_the_files_of_capabilities_register_and_nothing_else_may(folder: Folder) -> None:
    tool = """
        from pydantic import BaseModel
        from skerry.sdk.tools import FunctionTool
        class P(BaseModel): ...
        async def use(params, context): return "done"
        def activate(api): api.register_tool(FunctionTool("tea", "Tea.", P, use))
    """
    (folder.plugin / "tools").mkdir(mode=0o700)
    (folder.plugin / "tools" / "tea.py").write_text(dedent(tool))
    (folder.plugin / "tools" / "__init__.py").write_text("")
    tools = {"name": "tea", "version": "1.0.0", "capabilities": {"tools": ["tools/tea.py"]}}
    folder.write("", tools)
    async with folder.loaded() as plugins:
        assert (plugins.reports[0].reason, list(plugins.tools)) == ("", ["tea"])
    for wrong, reason in (
        ({"capabilities": {"tools": ["tools/none.py"]}}, "'tools/none.py', which is no file"),
        ({"capabilities": {"tools": ["tools/__init__.py"]}}, "no function `register(api)`"),
        ({"capabilities": {"tool": []}}, "lists 'tool'"),
        (
            {"capabilities": {"hooks": ["tools/tea.py"]}},
            "The plugin registers tools, and capabilities",
        ),
        ({"contracts": {"tools": ["cup"]}, **tools}, "the tool tea, which contracts.tools"),
    ):
        folder.write("", wrong)
        async with folder.loaded() as plugins:
            assert reason in plugins.reports[0].reason
            assert plugins.tools == {}


def placed(home: Path) -> list[Path]:
    """Makes one plugin at each place where plugins are found, the place that counts first."""
    workspace = home / "workspace" / "extensions" / "memory-memwal"
    folders = [
        home / "own" / "memory-memwal",
        workspace,
        home / "extensions" / "memory-memwal",
    ]
    for folder in folders:
        folder.mkdir(parents=True, mode=0o700)
        (folder / "__init__.py").write_text("def register(api): api.claim_slot('memory', api)")
        (folder / "openclaw.plugin.json").write_text(json.dumps({"slots": {"memory": True}}))
    return folders


@pytest.mark.requirement("plugin-discovery")
@pytest.mark.requirement("plugin-slot-precedence")
def test_of_the_claimants_of_a_slot_config_then_workspace_then_global_then_bundled_has_it(
    tmp_path: Path,
) -> None:
    own, *others = placed(tmp_path)
    section = {"load": {"paths": [str(own)]}, "slots": {"memory": "memory-memwal"}}
    for number in range(4):
        config, _ = check({"plugins": section}, state_dir=tmp_path, path=tmp_path / "skerry.json")
        found = candidates(config, installed=True)
        claimants = [candidate for candidate in found if candidate.id == "memory-memwal"]
        assert len(claimants) == 4 - number
        assert [claimant.path for claimant in claimants[:-1]] == [own, *others][number:]
        assert claimants[-1].package_name == "skerry_memwal"
        assert [bool(claimant.winner) for claimant in claimants] == [False] + [True] * (3 - number)
        if number == 0:
            section["load"] = {"paths": []}
        elif others_left := others[number - 1 :]:
            (others_left[0] / "__init__.py").unlink()


async def test_the_one_that_counts_is_loaded_and_the_others_are_told_why(tmp_path: Path) -> None:
    own, *_ = placed(tmp_path)
    section = {"load": {"paths": [str(own)]}, "slots": {"memory": "memory-memwal"}}
    config, _ = check({"plugins": section}, state_dir=tmp_path, path=tmp_path / "skerry.json")
    async with Hooks() as hooks:
        plugins = await load_plugins(config, hooks, CommandTable(), ())
        states = [(report.path, report.status.value) for report in plugins.reports]
        assert states[0] == (str(own), "loaded")
        assert all("is used instead" in report.reason for report in plugins.reports[1:])
        await plugins.close()
