"""Mounts that root prepares: the owners of their files, and their end."""

import os
from pathlib import Path

import pytest

from skerry.features.sandbox.containers import _unmount_left
from skerry.features.sandbox.stage import INSIDE_UID, Maps, Mount, placed

DEAD = "999999999"
"""A process id that no machine gives."""
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can run as another user")


def mounted(path: Path) -> bool:
    return f" {path} " in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


def test_files_of_the_owner_are_those_of_the_user_inside_and_stay_the_owners(
    tmp_path: Path,
) -> None:
    (tmp_path / "own").write_text("own")
    descriptor = os.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    folder = tmp_path / "mounts" / str(os.getpid())
    with placed([Mount(descriptor, "/x", is_writable=True)], Maps(os.environ), folder) as paths:
        assert (paths[0] / "own").stat().st_uid == INSIDE_UID
        assert mounted(paths[0])
    os.close(descriptor)
    assert not folder.exists()
    assert (tmp_path / "own").stat().st_uid == 0


def test_mounts_that_a_killed_process_left_are_unmounted_and_nothing_is_deleted(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "kept").write_text("kept")
    descriptor = os.open(workspace, os.O_PATH | os.O_DIRECTORY)
    folder = tmp_path / "mounts" / DEAD / "container"
    left = placed([Mount(descriptor, "/x", is_writable=True)], Maps(os.environ), folder)
    (path,) = left.__enter__()
    assert mounted(path)
    _unmount_left(tmp_path / "mounts")
    assert not mounted(path)
    assert list((tmp_path / "mounts").iterdir()) == []
    assert (workspace / "kept").read_text() == "kept"
    left.__exit__(None, None, None)
    os.close(descriptor)
