"""Folders that are given to sandboxes: where they lead is checked on what was opened."""

import os
from pathlib import Path

import anyio
import pytest

from skerry.config.check import check
from skerry.config.protected import protected
from skerry.features.sandbox import binds
from skerry.model.errors import ConfigInvalidError, SandboxError
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import SandboxSpec
from skerry.sdk.slots import SandboxHost, open_sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "file").write_text("given\n")
    (tmp_path / "state" / "workspace").mkdir(parents=True)
    return folder


def opened(tmp_path: Path, *texts: str) -> list[str]:
    """Opens the binds; returns where they lead."""
    config = check({}, state_dir=tmp_path / "state", path=tmp_path / "state" / "c.json")[0]
    mounts = binds.opened(texts, config, protected(config), {"HOME": "/home/ann"})
    try:
        return [str(Path(f"/proc/self/fd/{mount.descriptor}").readlink()) for mount in mounts]
    finally:
        binds.close(mounts)


@pytest.mark.requirement("sandbox-bind-realpath-check")
def test_a_link_is_judged_by_where_it_leads(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "good").symlink_to(folder)
    assert opened(tmp_path, f"{tmp_path}/good:/data") == [str(folder)]
    (tmp_path / "shadow").symlink_to("/etc/passwd")
    (tmp_path / "above").symlink_to("/etc")
    for path in ("shadow", "above/ssl", "above/passwd"):
        with pytest.raises(SandboxError, match="nothing in /etc"):
            opened(tmp_path, f"{tmp_path}/{path}:/data")


def test_the_gateways_own_and_credentials_are_refused(tmp_path: Path, folder: Path) -> None:
    (folder / ".ssh").mkdir()
    for path in (folder, tmp_path, tmp_path / "state", tmp_path / "missing"):
        with pytest.raises(SandboxError):
            opened(tmp_path, f"{path}:/data")
    with pytest.raises(SandboxError, match="which belongs to the gateway"):
        opened(tmp_path, f"{tmp_path}/state/workspace:/data:rw")
    (tmp_path / "state" / "workspace" / "sub").mkdir()
    with pytest.raises(SandboxError, match="workspaceAccess"):
        opened(tmp_path, f"{tmp_path}/state/workspace/sub:/data:rw")


def test_a_second_name_and_a_pipe_are_refused(tmp_path: Path, folder: Path) -> None:
    os.link(folder / "file", folder / "second")
    os.mkfifo(folder / "pipe")
    for name in ("second", "pipe"):
        with pytest.raises(SandboxError):
            opened(tmp_path, f"{folder}/{name}:/data")


def test_a_link_that_is_swapped_meanwhile_leads_nowhere(tmp_path: Path, folder: Path) -> None:
    """The descriptor that was checked is mounted, not whatever its path names later."""
    link = tmp_path / "link"
    for turn in range(1000):
        link.unlink(missing_ok=True)
        link.symlink_to(folder if turn % 2 else "/etc")
        try:
            assert opened(tmp_path, f"{link}:/data") == [str(folder)]
        except SandboxError:
            assert not turn % 2


def test_a_wrong_bind_is_an_error_of_the_configuration(tmp_path: Path) -> None:
    docker = {"binds": ["/etc:/data"]}
    tree = {"agents": {"defaults": {"sandbox": {"docker": docker}}}}
    with pytest.raises(ConfigInvalidError, match="/etc"):
        check(tree, state_dir=tmp_path, path=tmp_path / "skerry.json")


@pytest.mark.anyio
async def test_a_folder_is_read_only_unless_it_is_given_for_writing(
    tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "free").mkdir()
    docker = {"binds": [f"{folder}:/given", f"{tmp_path}/free:/free:rw"]}
    tree = {"agents": {"defaults": {"sandbox": {"backend": "bubblewrap", "docker": docker}}}}
    state = tmp_path / "state"
    config = check(tree, state_dir=state, path=state / "skerry.json")[0]
    sandbox = open_sandbox(SandboxHost(lambda: config, {"HOME": "/home/ann"}))
    text = "cat /given/file; touch /given/new /free/new; ls /given /free"
    spec = SandboxSpec(["/bin/sh", "-c", text], state / "workspace", MAIN_AGENT)
    with anyio.fail_after(60):
        async with sandbox.open(spec) as process:
            output = b"".join([part async for part in process.stdout]).decode()
    assert output.startswith("given\n")
    assert "Read-only" in output
    assert (tmp_path / "free" / "new").exists()
    assert [path.name for path in folder.iterdir()] == ["file"]


def skill(path: Path) -> Path:
    """Makes the folder of a skill with a script."""
    path.mkdir(parents=True)
    (path / "SKILL.md").write_text("---\nname: frogs\n---\n")
    (path / "count.sh").write_text("echo three frogs\n")
    return path


def opened_skills(tmp_path: Path, *folders: Path) -> list[str]:
    """Opens the folders of skills; returns their paths inside."""
    config = check({}, state_dir=tmp_path / "state", path=tmp_path / "state" / "c.json")[0]
    mounts = binds.opened_skills(folders, protected(config))
    binds.close(mounts)
    assert not any(mount.is_writable for mount in mounts)
    return [mount.target for mount in mounts]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_only_the_folder_of_a_skill_itself_is_shown(tmp_path: Path) -> None:
    frogs = skill(tmp_path / "state" / "skills" / "frogs")
    inner = skill(frogs / "small")
    taken = Path("/workspace/frogs")
    assert opened_skills(tmp_path, inner, frogs, taken, frogs) == [str(frogs), str(inner)]
    (frogs.parent / "link").symlink_to(frogs)
    (frogs.parent / "empty").mkdir()
    around = tmp_path / "SKILL.md"
    around.write_text("")
    before = descriptors()
    for path in (frogs.parent / "link", frogs.parent / "empty", frogs.parent / "none", tmp_path):
        with pytest.raises(SandboxError, match=f"cannot show the skill in {path}: "):
            opened_skills(tmp_path, frogs, path)
    (tmp_path / "above").symlink_to(frogs.parent)
    with pytest.raises(SandboxError, match="it leads to"):
        opened_skills(tmp_path, tmp_path / "above" / "frogs")
    assert descriptors() == before, "a refusal closes what was opened"


@pytest.mark.anyio
async def test_a_command_runs_the_script_of_a_skill_and_sees_no_other_file_of_the_state(
    tmp_path: Path,
) -> None:
    state = tmp_path / "state"
    (state / "workspace").mkdir(parents=True)
    frogs, toads = skill(state / "skills" / "frogs"), skill(state / "skills" / "toads")
    tree = {"agents": {"defaults": {"sandbox": {"backend": "bubblewrap"}}}}
    config = check(tree, state_dir=state, path=state / "skerry.json")[0]
    sandbox = open_sandbox(SandboxHost(lambda: config, {}))
    text = f"sh {frogs}/count.sh; touch {frogs}/new; ls {state} {toads}"
    argv = ["/bin/sh", "-c", f"{text} 2>&1"]
    with anyio.fail_after(60):
        spec = SandboxSpec(argv, state / "workspace", MAIN_AGENT, skills=(frogs,))
        async with sandbox.open(spec) as process:
            output = b"".join([part async for part in process.stdout]).decode()
    assert output.startswith("three frogs\n")
    assert "Read-only" in output
    assert f"{state}:\nskills\n" in output
    assert f"cannot access '{toads}'" in output
