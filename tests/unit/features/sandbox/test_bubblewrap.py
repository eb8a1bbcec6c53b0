"""Commands in bubblewrap: their view of the machine, their rights, and their end."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from skerry.config.check import check
from skerry.config.root import Config
from skerry.model.errors import SandboxError
from skerry.model.ids import MAIN_AGENT, AgentId
from skerry.ports.sandbox import Sandbox, SandboxSpec
from skerry.sdk.slots import SandboxHost, open_sandbox

pytestmark = pytest.mark.anyio


def config_of(state: Path, **sandbox: object) -> Config:
    """Returns a configuration with this sandbox."""
    tree = {"agents": {"defaults": {"sandbox": {"backend": "bubblewrap"} | sandbox}}}
    return check(tree, state_dir=state, path=state / "skerry.json")[0]


def sandbox_of(config: Config) -> Sandbox:
    return open_sandbox(SandboxHost(lambda: config, {"PATH": os.defpath}))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "workspace"
    folder.mkdir(parents=True, mode=0o700)
    folder.parent.chmod(0o700)
    return folder


async def output(sandbox: Sandbox, spec: SandboxSpec) -> tuple[int, str]:
    """Runs a command; returns its exit code and its output."""
    text = bytearray()
    with anyio.fail_after(60):
        async with sandbox.open(spec) as process:
            async for part in process.stdout:
                text += part
            return await process.wait(), text.decode()


def script(text: str, workspace: Path, **more: object) -> SandboxSpec:
    agent = AgentId(str(more.pop("agent", MAIN_AGENT)))
    return SandboxSpec(["/bin/sh", "-c", text], workspace, agent, **more)  # type: ignore[arg-type] # of one test each


@pytest.fixture
def sandbox(workspace: Path) -> Sandbox:
    return sandbox_of(config_of(workspace.parent))


async def test_the_self_test_passes_here(sandbox: Sandbox) -> None:
    result = await sandbox.usable()
    assert result.usable, result
    assert result.backend == "bubblewrap"
    assert all(check.ok for check in result.checks)
    assert len(result.checks) >= 30


async def test_a_command_writes_the_workspace_as_its_owner(
    sandbox: Sandbox, workspace: Path
) -> None:
    (workspace / "own.txt").write_text("before\n")
    code, text = await output(
        sandbox, script("cat own.txt; echo after >> own.txt; id -u", workspace)
    )
    assert (code, text) == (0, "before\n1000\n")
    assert (workspace / "own.txt").read_text() == "before\nafter\n"
    await output(sandbox, script("echo x > new.txt; mkdir folder", workspace))
    assert (workspace / "new.txt").stat().st_uid == os.getuid()
    assert (workspace / "folder").stat().st_uid == os.getuid()


@pytest.mark.abuse(85)
@pytest.mark.requirement("sandbox-workspace-access")
async def test_what_the_gateway_loads_is_read_only_and_cannot_be_made(
    sandbox: Sandbox, workspace: Path
) -> None:
    (workspace / "project" / ".git").mkdir(parents=True)
    (workspace / "hooks").mkdir()
    places = "hooks/x skills/x plugins/x .git/x .skerry/x .openclaw/x project/.git/x HOOK.md"
    loop = f"for p in {places}; do (: > $p) 2>/dev/null && echo $p; done; rm -rf hooks skills; "
    code, text = await output(sandbox, script(loop + "mv hooks h; ls -d hooks", workspace))
    assert text.splitlines()[-1] == "hooks"
    assert not set(places.split()) & set(text.splitlines())
    assert code == 0
    assert sorted(path.name for path in workspace.iterdir()) == ["hooks", "project"]


@pytest.mark.abuse(76)
async def test_without_a_usable_backend_nothing_runs(workspace: Path) -> None:
    """Podman is not there: a command is refused, and `usable` tells the remedy."""
    sandbox = sandbox_of(config_of(workspace.parent, backend="podman"))
    result = await sandbox.usable()
    assert not result.usable
    assert "podman" in result.remedy
    assert [(check.id, check.ok) for check in result.checks] == [("podman-available", False)]
    assert "podman" in result.checks[0].detail
    with pytest.raises(SandboxError) as refused:
        await output(sandbox, script("touch ran", workspace))
    assert refused.value.remedy
    assert list(workspace.iterdir()) == []


@pytest.mark.abuse(76)
def test_without_user_namespaces_bubblewrap_is_not_usable(tmp_path: Path) -> None:
    """Runs the self-test where no further namespace can be made."""
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec "$@"'
    command = [sys.executable, "-m", "skerry", "sandbox", "test", "--json"]
    completed = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", forbid, "sh", *command],
        env={**os.environ, "SKERRY_STATE_DIR": str(tmp_path)},
        capture_output=True,
        check=False,
        timeout=120,
    )
    result = json.loads(completed.stdout)
    assert completed.returncode == 1
    assert result["usable"] is False
    assert "user namespaces" in result["remedy"]


@pytest.mark.requirement("sandbox-mode")
@pytest.mark.parametrize(
    ("mode", "main", "other"),
    [("all", True, True), ("non-main", False, True), ("off", False, False)],
)
def test_the_mode_names_the_sessions_that_run_inside(
    workspace: Path, mode: str, *, main: bool, other: bool
) -> None:
    sandbox = sandbox_of(config_of(workspace.parent, mode=mode))
    assert sandbox.applies(MAIN_AGENT, "agent:main:main") is main
    assert sandbox.applies(MAIN_AGENT, "agent:main:telegram:direct:7") is other


@pytest.mark.requirement("sandbox-workspace-access")
@pytest.mark.requirement("sandbox-scope")
@pytest.mark.parametrize("scope", ["session", "agent", "shared"])
async def test_without_access_a_scope_has_a_folder_of_its_own(workspace: Path, scope: str) -> None:
    (workspace / "secret").write_text("secret")
    sandbox = sandbox_of(config_of(workspace.parent, workspaceAccess="none", scope=scope))
    text = "ls; echo x > made"
    listed = [
        (await output(sandbox, script(text, workspace, agent=agent, session=session)))[1]
        for agent, session in (("main", "a"), ("main", "a"), ("main", "b"), ("other", "c"))
    ]
    again = {"session": ["", ""], "agent": ["made\n", ""], "shared": ["made\n", "made\n"]}
    assert listed == ["", "made\n", *again[scope]]
    assert [path.name for path in workspace.iterdir()] == ["secret"]


@pytest.mark.requirement("sandbox-no-new-privileges")
@pytest.mark.requirement("sandbox-cap-drop")
async def test_a_command_has_no_rights_and_gets_none(sandbox: Sandbox, workspace: Path) -> None:
    _, text = await output(sandbox, script("cat /proc/self/status", workspace))
    lines = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert lines["NoNewPrivs"] == "1"
    assert {lines[f"Cap{kind}"] for kind in ("Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}


@pytest.mark.requirement("sandbox-readonly-root")
async def test_nothing_but_the_workspace_and_tmp_can_be_written(
    sandbox: Sandbox, workspace: Path
) -> None:
    places = "/ /usr /usr/bin /etc /dev /proc /proc/sys /workspace"
    text = f"for p in {places}; do touch $p/x 2>/dev/null && echo $p; done"
    _, printed = await output(sandbox, script(text, workspace))
    assert printed.split() == ["/workspace"]


async def test_in_a_tainted_run_memory_and_prompt_files_are_read_only(
    sandbox: Sandbox, workspace: Path
) -> None:
    (workspace / "AGENTS.md").write_text("own\n")
    places = "AGENTS.md MEMORY.md HEARTBEAT.md memory/x plain.txt"
    text = f"for p in {places}; do (echo x >> $p) 2>/dev/null && echo $p; done"
    _, printed = await output(sandbox, script(text, workspace, is_tainted=True))
    assert printed.split() == ["plain.txt"]
    assert sorted(path.name for path in workspace.iterdir()) == ["AGENTS.md", "plain.txt"]
    _, printed = await output(sandbox, script("echo x >> AGENTS.md && echo done", workspace))
    assert printed == "done\n"


async def test_the_state_directory_in_a_workspace_is_hidden(tmp_path: Path) -> None:
    state = tmp_path / "home" / ".state"
    (state / "agents").mkdir(parents=True)
    (state / "agents" / "secret").write_text("secret")
    workspace = tmp_path / "home"
    tree = {"agents": {"defaults": {"workspace": str(workspace)}}}
    config = check(tree, state_dir=state, path=state / "skerry.json")[0]
    _, text = await output(sandbox_of(config), script("ls -A .state; cat .state/*/*", workspace))
    assert "secret" not in text.replace("cat", "")


async def test_more_than_is_granted_is_refused(workspace: Path) -> None:
    sandbox = sandbox_of(config_of(workspace.parent, workspaceAccess="ro"))
    with pytest.raises(SandboxError, match="workspaceAccess"):
        await output(sandbox, script("true", workspace, access="rw"))
    code, _ = await output(sandbox, script(": > x", workspace))
    assert code != 0


async def test_a_terminal_controls_the_command_alone(sandbox: Sandbox, workspace: Path) -> None:
    spec = script("test -t 0 && (: < /dev/tty) && echo controls", workspace, pty=True)
    _, text = await output(sandbox, spec)
    assert "controls" in text
    code, text = await output(sandbox, script("(: < /dev/tty) || echo none", workspace))
    assert (code, "none" in text) == (0, True)


async def test_ctrl_c_interrupts_a_command_in_a_terminal(sandbox: Sandbox, workspace: Path) -> None:
    text = "trap 'echo interrupted; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    shown = b""
    with anyio.fail_after(60):
        async with sandbox.open(script(text, workspace, pty=True)) as process:
            while b"ready" not in shown:
                shown += await process.stdout.receive()
            await process.stdin.send(b"\x03")
            assert await process.wait() == 7
