"""The gate of the tool `exec`: taint, folders, and the binding of approvals."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from msgspec.structs import replace

from skerry.config.protected import gate
from skerry.config.root import Config
from skerry.features.exec.binding import binding
from skerry.features.exec.output import KEPT_CHARS, Output
from skerry.features.exec.registry import Registry
from skerry.features.exec.sources import recorded
from skerry.features.exec.tool import Exec
from skerry.infra.rooted_fs import RootedFolder
from skerry.model.caller import Caller
from skerry.model.errors import SandboxError, ToolError
from skerry.model.ids import AgentId, RunId, SessionKey
from skerry.model.inbound import PeerKind
from skerry.model.origin import Origin
from skerry.model.run import RunRequest
from skerry.model.skill import Skill, SkillSet, Tier
from skerry.policy.decide import Actor
from skerry.policy.effect import ToolEffect
from skerry.policy.file_records import FileRecord, FileRecords
from skerry.ports.sandbox import SandboxProcess, SandboxSpec, SelfTest
from skerry.ports.tool import ToolContext
from skerry.sdk.tool_host import ToolHost
from skerry.store import DATABASE, Store, open_store
from skerry.testing.clock import FakeClock
from tests.support.tool_rules import config

OWNER = Caller(SessionKey.main(), PeerKind.DIRECT, Origin.OWNER, is_private=True)


class Everywhere:
    """Sandboxes that take every session and open none."""

    def applies(self, agent: AgentId, session: str) -> bool:
        return bool(agent and session)

    async def usable(self, agent: AgentId | None = None) -> SelfTest:
        raise NotImplementedError(agent)

    def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[SandboxProcess]:
        raise NotImplementedError(spec)


def tool(store: Store, place: str, folder: Path, sandbox: dict[str, Any] | None = None) -> Exec:
    section = {"exec": {"host": place, "allowlist": ["ls *"]}}
    parsed = Config.model_validate(
        {
            "tools": section,
            "agents": {"defaults": {"sandbox": sandbox or {}}},
            "state_dir": folder,
            "path": folder / "skerry.json",
        }
    )
    host = ToolHost(config=lambda: parsed, store=store, environ={}, clock=FakeClock())
    registry = Registry(host.start, host.clock, lambda: 60_000)
    return Exec(host, Everywhere(), registry)


@pytest.mark.parametrize(
    ("place", "taint", "effect", "rule"),
    [
        ("gateway", set[Origin](), ToolEffect.ALLOW, "allowlist"),
        ("gateway", {Origin.LOCAL}, ToolEffect.ALLOW, "allowlist"),
        ("gateway", {Origin.TOOL}, ToolEffect.ASK, "tainted-host"),
        ("gateway", {Origin.WEB}, ToolEffect.ASK, "tainted-host"),
        ("gateway", {Origin.STRANGER}, ToolEffect.ASK, "tainted-host"),
        ("sandbox", {Origin.WEB}, ToolEffect.ALLOW, "security-full"),
    ],
)
async def test_a_run_with_words_of_others_needs_a_person_on_this_machine_and_not_inside(
    tmp_path: Path, place: str, taint: set[Origin], effect: ToolEffect, rule: str
) -> None:
    async with open_store(tmp_path / DATABASE) as store:
        context = ToolContext(RootedFolder(tmp_path), caller=OWNER, taint=frozenset(taint))
        assessment = await tool(store, place, tmp_path).assess({"command": "ls x"}, context)
    assert (assessment.effect, assessment.rule) == (effect, rule)
    assert assessment.patterns == ()


@pytest.mark.parametrize(
    ("sandbox", "command", "origin"),
    [
        ({}, "cat x", Origin.LOCAL),
        ({"docker": {"network": "proxy"}}, "cat x", Origin.WEB),
        ({"workspaceAccess": "none"}, "cat x", Origin.WEB),
        ({"docker": {"binds": ["/srv/x:/x"]}}, "cat x", Origin.WEB),
        (None, "ls -l x | wc -l", Origin.LOCAL),
        (None, "cat ../x", Origin.WEB),
        (None, "cat link/x", Origin.WEB),
        (None, "wc --files0-from=x", Origin.WEB),
        (None, "./cat x", Origin.WEB),
        (None, "curl http://x.example/", Origin.WEB),
        (None, "echo a; git pull", Origin.WEB),
        (None, "cat x > y", Origin.WEB),
    ],
)
async def test_output_is_the_workspaces_own_unless_the_command_may_reach_the_network(
    tmp_path: Path, sandbox: dict[str, Any] | None, command: str, origin: Origin
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    async with open_store(tmp_path / DATABASE) as store:
        place = "gateway" if sandbox is None else "sandbox"
        exec_ = tool(store, place, tmp_path, sandbox)
        records = FileRecords()
        for taint, want in ((set[Origin](), origin), ({Origin.WEB}, Origin.WEB)):
            actor = Actor.of(OWNER, frozenset(taint))
            rules = gate(config({}), actor, records)
            context = ToolContext(
                RootedFolder(workspace, rules), caller=OWNER, taint=frozenset(taint)
            )
            assert await exec_.source({"command": command}, context) is want


async def test_output_is_foreign_while_the_workspace_has_a_file_with_words_of_others(
    tmp_path: Path,
) -> None:
    page, records = tmp_path / "page.txt", FileRecords()
    page.write_text("words")
    record = FileRecord(str(page.resolve()), b"", 5, "run", frozenset({Origin.WEB}))
    records.note(record)
    context = ToolContext(
        RootedFolder(tmp_path, gate(config({}), Actor.of(OWNER), records)), caller=OWNER
    )
    async with open_store(tmp_path / DATABASE) as store:
        exec_ = tool(store, "sandbox", tmp_path)
        assert await exec_.source({"command": "cat *"}, context) is Origin.WEB
        page.unlink()
        assert await exec_.source({"command": "cat *"}, context) is Origin.LOCAL


async def test_files_of_a_command_with_network_are_recorded_at_its_end(tmp_path: Path) -> None:
    records = FileRecords()
    rules = gate(config({}), Actor.of(OWNER), records)

    @asynccontextmanager
    async def command(_: object) -> AsyncIterator[SandboxProcess]:
        (tmp_path / f"{words}.txt").write_text("x")
        yield cast("SandboxProcess", None)

    for words in (Origin.WEB, Origin.LOCAL):
        with pytest.raises(ZeroDivisionError):
            async with recorded(
                command, ToolContext(RootedFolder(tmp_path, rules), caller=OWNER), words
            ):
                raise ZeroDivisionError
        (tmp_path / f"{words}.txt").touch()
    taints = [
        records.taint_of(str(tmp_path.resolve() / f"{name}.txt")) for name in ("web", "local")
    ]
    assert taints == [{Origin.WEB}, frozenset()]


@pytest.mark.parametrize("workdir", ["..", "/", "missing", "link"])
async def test_a_folder_outside_of_the_workspace_is_refused(tmp_path: Path, workdir: str) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    async with open_store(tmp_path / DATABASE) as store:
        context = ToolContext(RootedFolder(workspace), caller=OWNER)
        arguments: dict[str, Any] = {"command": "ls x", "workdir": workdir}
        with pytest.raises(ToolError, match="not a folder of the workspace"):
            await tool(store, "gateway", tmp_path).assess(arguments, context)


def test_the_binding_changes_with_each_fact_and_with_the_content_of_each_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "run.sh").write_text("echo 1")
    (tmp_path / "other").mkdir()

    def bound(**changes: Any) -> bytes:
        facts = {
            "command": "sh run.sh",
            "words": ["sh", "run.sh"],
            "cwd": tmp_path,
            "env": {"A": "1"},
            "about": ("gateway", "main", "s"),
        } | changes
        return binding(**cast("Any", facts))

    first = bound()
    assert bound() == first
    changed = {
        bound(command="sh run.sh "),
        bound(words=["sh"]),
        bound(cwd=tmp_path / "other"),
        bound(env={"A": "2"}),
        bound(about=("gateway", "main", "t")),
        bound(about=("sandbox", "main", "s")),
    }
    (tmp_path / "run.sh").write_text("echo 2")
    changed.add(bound())
    assert len(changed) == 7
    assert first not in changed


def test_of_a_long_output_the_beginning_and_the_end_are_kept() -> None:
    output = Output()
    for number in range(50_000):
        output.add(f"{number:05}\n".encode())
    for text, most in ((output.text, KEPT_CHARS), (output.brief(1000), 1000)):
        assert text.startswith("00000\n00001\n")
        assert text.endswith("49999\n")
        assert "characters left out" in text
        assert len(text) < most + 100
    assert output.take_new().endswith("49999\n")
    assert output.take_new() == ""


async def test_a_command_inside_gets_the_folders_of_the_skills_that_its_run_may_use(
    tmp_path: Path,
) -> None:
    def skill(name: str, tier: Tier, **more: Any) -> Skill:
        return Skill(name, "D.", Path("/skills", name), tier=tier, **more)

    skills = SkillSet(
        (
            skill("own", Tier.WORKSPACE),
            skill("a", Tier.MANAGED),
            skill("b", Tier.BUNDLED, is_listed=False),
            skill("c", Tier.PLUGIN),
            skill("off", Tier.MANAGED, off="skills.allowBundled"),
            skill("unmet", Tier.EXTRA, unmet=(("bins", ("x",)),)),
            skill("closed", Tier.EXTRA, is_listed=False, is_invocable=False),
        )
    )
    specs: list[SandboxSpec] = []

    class Recording(Everywhere):
        def open(self, spec: SandboxSpec) -> AbstractAsyncContextManager[SandboxProcess]:
            specs.append(spec)
            raise SandboxError("no sandbox", "none")

    parsed = Config.model_validate({"state_dir": tmp_path, "path": tmp_path / "skerry.json"})
    request = RunRequest(RunId("r"), OWNER.key, "count", origin=Origin.OWNER)
    async with open_store(tmp_path / DATABASE) as store, anyio.create_task_group() as tasks:

        def begin(work: Callable[[], Awaitable[None]], name: str) -> None:
            async def run() -> None:
                await work()

            tasks.start_soon(run, name=name)

        host = ToolHost(
            config=lambda: parsed,
            store=store,
            environ={},
            clock=FakeClock(),
            skills=lambda _: skills,
            start=begin,
        )
        exec_tool = Exec(host, Recording(), Registry(host.start, host.clock, lambda: 60_000))
        for names in (None, ("a", "own")):
            asking = replace(request, skills=names)
            context = ToolContext(RootedFolder(tmp_path), caller=OWNER, request=asking)
            with anyio.fail_after(60), pytest.raises(ToolError, match="no sandbox"):
                await exec_tool.run({"command": "ls"}, context)
    assert [[path.name for path in spec.skills] for spec in specs] == [["a", "b", "c"], ["a"]]
