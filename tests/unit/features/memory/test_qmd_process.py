"""Programs that hang, flood, crash or leave children: nothing of them stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from skerry.features.memory.qmd_process import Finished, QmdError, child, run

ENVIRON = {"PATH": os.environ["PATH"]}
STAYS = "sleep 600 & echo $! > stays; "


def alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def until(happened: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not happened():  # noqa: ASYNC110 - another process does it, and tells nobody
            await anyio.sleep(0.01)


async def ends(pid: int) -> None:
    await until(lambda: not alive(pid))


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def sh(folder: Path, script: str, *, seconds: float = 20, most: int = 1000) -> Finished:
    command = ["/bin/sh", "-c", script]
    return await run(command, environ=ENVIRON, folder=folder, seconds=seconds, most=most)


async def test_it_tells_what_was_printed_and_how_it_ended(tmp_path: Path) -> None:
    done = await sh(tmp_path, "echo out; echo some  words >&2; exit 3")
    assert done == Finished(3, b"out\n", "some words")
    with pytest.raises(QmdError, match="qmd update failed with code 3: some words"):
        done.checked("qmd update")
    assert (await sh(tmp_path, "cat")).out == b"", "there is nothing to read"


@pytest.mark.requirement("qmd-timeouts")
async def test_what_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(QmdError, match=r"did not end within 0\.5 s"):
        await sh(tmp_path, STAYS + "sleep 600", seconds=0.5)
    await ends(int((tmp_path / "stays").read_text("utf-8")))


async def test_a_child_that_is_left_behind_is_killed_and_not_waited_for(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        done = await sh(tmp_path, STAYS + "echo done")
    assert done.out == b"done\n"
    await ends(int((tmp_path / "stays").read_text("utf-8")))


async def test_what_prints_without_end_is_stopped(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(QmdError, match="more than 1000 characters"):
        await sh(tmp_path, "yes")
    done = await sh(tmp_path, "yes | head -c 100000 >&2; echo the end >&2")
    assert len(done.err) <= 600
    assert done.err.endswith("the end")


@pytest.mark.parametrize("script", ["kill -SEGV $$", "exit 139"])
async def test_a_crash_is_named(tmp_path: Path, script: str) -> None:
    with pytest.raises(QmdError, match=r"crashed \(segmentation fault\)"):
        (await sh(tmp_path, script)).checked("qmd query")
    with pytest.raises(QmdError, match="ended by signal 15"):
        (await sh(tmp_path, "kill $$")).checked("qmd query")


async def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QmdError, match="cannot be started"):
        await run(["x"], environ=ENVIRON, folder=tmp_path / "no", seconds=5)


async def test_a_cancelled_caller_leaves_nothing(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sh, tmp_path, STAYS + "echo ok > ready; sleep 600")
        await until((tmp_path / "ready").exists)
        tasks.cancel_scope.cancel()
    await ends(int((tmp_path / "stays").read_text("utf-8")))


async def test_a_caller_that_is_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    files = open_files()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(sh, tmp_path, STAYS + "echo ok > ready; sleep 600")
        for _ in range(2):  # until it is started, of which nobody is told yet
            await anyio.lowlevel.checkpoint()
        assert (tmp_path / "ready").read_text("utf-8") == "ok\n"  # the event loop stands meanwhile
        tasks.cancel_scope.cancel()
    await ends(int((tmp_path / "stays").read_text("utf-8")))
    assert open_files() <= files


async def test_it_ends_with_its_block(tmp_path: Path) -> None:
    async with child(["/bin/sleep", "600"], environ=ENVIRON, folder=tmp_path) as process:
        assert alive(process.pid)
    assert not alive(process.pid)


HOLDER = """
import anyio, sys
from pathlib import Path
from skerry.features.memory.qmd_process import child

async def main():
    script = "sleep 600 & echo $! > stays; echo $$ > leads; sleep 600"
    folder = Path(sys.argv[1])
    async with child(["/bin/sh", "-c", script], environ={"PATH": "/bin:/usr/bin"}, folder=folder):
        while not (folder / "leads").exists():
            await anyio.sleep(0.01)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


def test_when_we_are_killed_it_ends_with_its_children(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        pids = [int((tmp_path / name).read_text("utf-8")) for name in ("stays", "leads")]
        assert all(map(alive, pids))
        holder.send_signal(signal.SIGKILL)
    for pid in pids:
        anyio.run(ends, pid)
