"""The disk of a workspace: a command is ended before it has filled it."""

from pathlib import Path

import pytest

from skerry.model.errors import SandboxError
from tests.e2e.test_full_disk import disk
from tests.unit.features.sandbox.test_bubblewrap import config_of, output, sandbox_of, script

__all__ = ["disk"]  # a fixture
pytestmark = pytest.mark.anyio


async def test_a_command_that_fills_the_disk_is_ended_while_there_is_room(disk: Path) -> None:
    workspace = disk / "workspace"
    workspace.mkdir()
    sandbox = sandbox_of(config_of(disk))
    text = "dd if=/dev/zero of=large bs=1M count=5 2>/dev/null; echo written; sleep 600"
    with pytest.raises(SandboxError, match=r"was killed: \d MB were free on the disk of .*, and"):
        await output(sandbox, script(text, workspace))
    assert (workspace / "large").stat().st_size == 5 << 20


async def test_a_disk_with_little_room_does_not_keep_a_command_from_running(disk: Path) -> None:
    workspace = disk / "workspace"
    workspace.mkdir()
    sandbox = sandbox_of(config_of(disk))
    assert await output(sandbox, script("sleep 1.5; echo ran", workspace)) == (0, "ran\n")
