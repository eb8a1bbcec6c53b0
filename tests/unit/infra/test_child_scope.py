"""Scope of a command: all that the command started ends with it, whatever its sessions are."""

import os
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from skerry.infra.child_scope import scoped
from skerry.infra.process import LIFELINE, Child, Program, child

STRAY = "setsid env -i /bin/sh -c 'echo $$ >stray.new; mv stray.new stray; exec sleep 600'"
"""A process with a session of its own, and without a variable by which it could be known."""
MADE = "while ! test -e stray; do sleep 0.01; done"


def within_scope(text: str, folder: Path) -> Program:
    words = scoped(["/bin/sh", "-c", text], LIFELINE, is_terminal=False)
    return Program(words, {"PATH": os.defpath}, folder, filters=True, grace=60.0, merges=True)


async def stray(folder: Path) -> int:
    with anyio.fail_after(60):
        while not (folder / "stray").exists():
            await anyio.lowlevel.checkpoint()
    return int((folder / "stray").read_text())


async def wait_for_end(pid: int) -> None:
    with anyio.fail_after(60):
        while is_alive(pid):
            await anyio.lowlevel.checkpoint()


def is_alive(pid: int) -> bool:
    """Returns whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def ended(process: Child) -> int:
    with anyio.fail_after(60):
        return await process.wait()


async def test_a_process_that_left_the_group_ends_with_its_command(tmp_path: Path) -> None:
    """Its parent is gone long before."""
    async with child(within_scope(f"( ( {STRAY} & ) & ); {MADE}", tmp_path)) as process:
        pid = await stray(tmp_path)
        assert await ended(process) == 0
        await wait_for_end(pid)


async def test_a_process_that_left_the_group_ends_with_the_block(tmp_path: Path) -> None:
    async with child(within_scope(f"{STRAY} & wait", tmp_path)):
        pid = await stray(tmp_path)
        assert is_alive(pid)
    await wait_for_end(pid)


async def test_a_process_that_left_the_group_ends_with_its_starter(tmp_path: Path) -> None:
    """The pipe is closed as by a SIGKILL."""
    reading, writing = os.pipe()
    words = scoped(["/bin/sh", "-c", f"{STRAY} & wait"], str(reading), is_terminal=False)
    environ = {"PATH": os.defpath}
    program = Program(words, environ, tmp_path, filters=True, descriptors=[reading])
    async with child(program) as process:
        os.close(reading)
        pid = await stray(tmp_path)
        assert is_alive(pid)
        os.close(writing)
        assert await ended(process) == -9
        await wait_for_end(pid)


async def test_many_that_start_others_are_ended(tmp_path: Path) -> None:
    """Each starts one in a session of its own, which stays when its parent is killed."""
    text = "for i in 1 2 3 4 5 6 7 8; do ( setsid sh -c 'setsid sleep 600 & wait' & ); done"
    async with child(within_scope(f"{text}; {STRAY} & {MADE}", tmp_path)) as process:
        await stray(tmp_path)
        await ended(process)
    with anyio.fail_after(60):
        while works_in(tmp_path):
            await anyio.lowlevel.checkpoint()


def works_in(folder: Path) -> bool:
    """Returns whether the folder is the working directory of a process."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").samefile(folder):
                return True
        except OSError:
            continue
    return False


@pytest.mark.parametrize(
    ("text", "code"), [("exit 3", 3), ("kill -TERM $$", -15), ("kill -KILL $$", -9), ("true", 0)]
)
async def test_it_ends_as_its_command_ends(tmp_path: Path, text: str, code: int) -> None:
    async with child(within_scope(text, tmp_path)) as process:
        assert await ended(process) == code


async def test_the_end_of_the_command_is_the_end_of_its_output(tmp_path: Path) -> None:
    shown = b""
    async with child(within_scope("echo out; echo error >&2; sleep 600 &", tmp_path)) as process:
        with anyio.fail_after(60):
            async for part in process.stdout:
                shown += part
    assert shown == b"out\nerror\n"
