"""The view of a workspace: covered sockets and pipes, and other names of closed files."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.config.check import check
from skerry.config.protected import Protected, protected
from skerry.features.sandbox import view
from skerry.model.errors import SandboxError


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "workspace"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def guard(workspace: Path) -> Protected:
    state = workspace.parent
    return protected(check({}, state_dir=state, path=state / "skerry.json")[0])


@pytest.fixture
def listening(workspace: Path) -> Iterator[Path]:
    (workspace / "a" / "b").mkdir(parents=True)
    path = workspace / "a" / "b" / "server"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        yield path


def opened_view(
    workspace: Path, guard: Protected, *, tainted: bool = True, writes: bool = True
) -> view.View:
    names = view.closed_names(is_tainted=tainted)
    opened = view.opened(workspace, names, guard, writes=writes)
    opened.close()
    return opened


def closed(workspace: Path, guard: Protected, *, tainted: bool = True) -> set[str]:
    names = view.closed_names(is_tainted=tainted)
    opened = view.opened(workspace, names, guard)
    targets = {mount.target for mount in opened.mounts if not mount.is_writable}
    opened.close()
    return targets


@pytest.mark.parametrize("writes", [True, False])
def test_sockets_and_pipes_of_others_are_covered(
    workspace: Path, guard: Protected, listening: Path, *, writes: bool
) -> None:
    os.mkfifo(workspace / "pipe")
    (workspace / "link").symlink_to(listening)
    covered = opened_view(workspace, guard, writes=writes).covered
    assert set(covered) == {"/workspace/pipe", "/workspace/a/b/server"}


def test_a_workspace_with_too_many_of_them_is_refused(workspace: Path, guard: Protected) -> None:
    (workspace / "many").mkdir()
    for number in range(view.MAX_SPECIAL_FILES + 1):
        os.mkfifo(workspace / "many" / str(number))
    with pytest.raises(SandboxError, match="more than 200 sockets"):
        opened_view(workspace, guard)


def test_each_name_of_a_closed_file_is_closed(workspace: Path, guard: Protected) -> None:
    (workspace / "notes").mkdir()
    (workspace / "memory").mkdir()
    (workspace / "AGENTS.md").write_text("a")
    (workspace / "memory" / "day.md").write_text("b")
    (workspace / "notes" / "one").hardlink_to(workspace / "AGENTS.md")
    (workspace / "two").hardlink_to(workspace / "memory" / "day.md")
    (workspace / "free").write_text("c")
    (workspace / "notes" / "free-too").hardlink_to(workspace / "free")
    names = {"/workspace/notes/one", "/workspace/two"}
    assert names <= closed(workspace, guard)
    assert not {"/workspace/free", "/workspace/notes/free-too"} & closed(workspace, guard)
    assert not names & closed(workspace, guard, tainted=False)


def test_a_file_that_the_gateway_loads_is_closed_under_each_name(
    workspace: Path, guard: Protected
) -> None:
    (workspace / "hooks" / "a").mkdir(parents=True)
    (workspace / "hooks" / "a" / "handler.py").write_text("a")
    (workspace / "elsewhere").hardlink_to(workspace / "hooks" / "a" / "handler.py")
    assert "/workspace/elsewhere" in closed(workspace, guard, tainted=False)
