"""Ends of sandboxes: many at once, a limit, and a process that is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from skerry.features.sandbox import bubblewrap
from skerry.features.sandbox.canaries import processes
from skerry.model.errors import SandboxError
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import WORKDIR, Limits, SandboxSpec
from tests.unit.features.sandbox.test_bubblewrap import config_of, output, sandbox_of, script

pytestmark = pytest.mark.anyio


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "state" / "workspace"
    folder.mkdir(parents=True, mode=0o700)
    return folder


async def test_fifty_at_once_write_one_workspace_and_leave_nothing(workspace: Path) -> None:
    sandbox = sandbox_of(config_of(workspace.parent))
    await sandbox.usable()
    before = len(list(Path("/proc/self/fd").iterdir()))

    async def one(number: int) -> None:
        text = f"echo {number} > made-{number}; sleep 0.2; ls -d hooks; touch hooks/x 2>/dev/null"
        assert await output(sandbox, script(text, workspace)) == (1, "hooks\n")

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(one, number)
    names = sorted(path.name for path in workspace.iterdir())
    assert names == sorted(f"made-{number}" for number in range(50))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


async def test_leaving_the_block_ends_what_ignores_every_signal(workspace: Path) -> None:
    sandbox = sandbox_of(config_of(workspace.parent))
    mark = f"ignoring-{os.getpid()}"
    stubborn = (
        f"trap '' TERM HUP INT; echo ready; (setsid sh -c 'sleep 600; :' {mark} &); sleep 600"
    )
    spec = SandboxSpec(["/bin/sh", "-c", stubborn, mark], workspace, MAIN_AGENT)
    with anyio.fail_after(60):
        async with sandbox.open(spec) as process:
            assert await process.stdout.receive() == b"ready\n"
            while len(processes(mark)) < 2:  # noqa: ASYNC110 - another process starts
                await anyio.sleep(0.05)
        while processes(mark):  # noqa: ASYNC110 - other processes end
            await anyio.sleep(0.05)


@pytest.mark.requirement("sandbox-limits")
async def test_limits_hold_inside(workspace: Path) -> None:
    sandbox = sandbox_of(config_of(workspace.parent))
    limits = Limits(memory_bytes=64 << 20, processes=20, tmp_bytes=1 << 20, file_bytes=1 << 20)
    text = (
        "dd if=/dev/zero of=/dev/null bs=128M count=1 2>/dev/null || echo memory;"
        "dd if=/dev/zero of=/tmp/x bs=4096 count=512 2>/dev/null || echo tmp; rm -f /tmp/x;"
        "dd if=/dev/zero of=x bs=65536 count=32 2>/dev/null || echo file;"
        "(for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do sleep 9 & done)"
        " 2>/dev/null || echo processes"
    )
    _, printed = await output(sandbox, script(text, workspace, limits=limits))
    assert printed.split() == ["memory", "tmp", "file", "processes"]


async def test_a_gateway_that_is_killed_leaves_nothing(workspace: Path) -> None:
    mark = f"orphan-{os.getpid()}"
    program = (
        "import anyio, sys; sys.path.insert(0, sys.argv[2]);"
        "from pathlib import Path;"
        "from tests.unit.features.sandbox.test_bubblewrap import config_of, sandbox_of, output;"
        "from skerry.ports.sandbox import SandboxSpec;"
        "work = Path(sys.argv[1]);"
        "text = '(setsid sh -c \"sleep 600; :\" $0 &); sleep 600';"
        "spec = SandboxSpec(['/bin/sh', '-c', text, sys.argv[3]], work, 'main');"
        "anyio.run(output, sandbox_of(config_of(work.parent)), spec)"
    )
    root = str(Path(__file__).parents[4])
    command = [sys.executable, "-c", program, str(workspace), root, mark]
    with anyio.fail_after(120):
        async with await anyio.open_process(command) as process:
            while len(processes(mark)) < 2:  # noqa: ASYNC110 - another process starts them
                await anyio.sleep(0.05)
            process.send_signal(signal.SIGKILL)
        while processes(mark):  # noqa: ASYNC110 - other processes end
            await anyio.sleep(0.05)


def test_a_command_does_not_start_when_the_gateway_is_gone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    words = ["/bin/sh", "-c", bubblewrap.started(), "sh", "99", "99", "99", "9999999", "999"]
    words += ["touch", str(tmp_path / "made")]
    assert subprocess.run(words, stderr=writing, check=False).returncode == 0
    assert os.read(reading, 99) == b"."
    (tmp_path / "made").unlink()
    os.close(reading)
    assert subprocess.run(words, stderr=writing, check=False).returncode != 0
    os.close(writing)
    assert not (tmp_path / "made").exists()


async def test_what_bubblewrap_says_when_it_starts_nothing_is_told(workspace: Path) -> None:
    sandbox = sandbox_of(config_of(workspace.parent))
    spec = SandboxSpec(["true"], workspace, MAIN_AGENT, cwd=WORKDIR / "none")
    with pytest.raises(SandboxError, match=r"did not start the command: .*none"):
        await output(sandbox, spec)
