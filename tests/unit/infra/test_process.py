"""Programs that hang, flood, crash or leave children: nothing of them stays."""

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from skerry.infra import process
from skerry.infra.process import (
    Child,
    Finished,
    FloodError,
    LateError,
    NotStartedError,
    Program,
    Worker,
    allowed,
    child,
    hand_over,
    run,
    run_blocking,
    starter,
)

MARK = "SKERRY_TEST_TREE"
STAYS = "sleep 600 & echo $! > stays; "


def tree(folder: Path) -> list[int]:
    """Returns the processes that were started with the folder as their mark."""
    mark = f"{MARK}={folder}".encode()
    pids = []
    for path in Path("/proc").iterdir():
        try:
            if path.name.isdecimal() and mark in (path / "environ").read_bytes().split(b"\0"):
                status = (path / "stat").read_text("utf-8")
                if status.rpartition(")")[2].split()[0] != "Z":
                    pids.append(int(path.name))
        except (OSError, ValueError):
            continue
    return pids


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@asynccontextmanager
async def nothing_stays(folder: Path) -> AsyncGenerator[None]:
    """Waits until the block's processes are gone, and sees that no descriptor is left open."""
    files = open_files()
    yield
    with anyio.fail_after(60):
        while tree(folder):  # noqa: ASYNC110 - other processes end, and tell nobody
            await anyio.sleep(0.01)
    assert open_files() <= files


def script(folder: Path, text: str, **more: object) -> Program:
    environ = {"PATH": os.environ["PATH"], MARK: str(folder)}
    return Program(["/bin/sh", "-c", text], environ, folder, **more)  # type: ignore[arg-type]


async def until(happened: Callable[[], object]) -> None:
    with anyio.fail_after(60):
        while not happened():  # noqa: ASYNC110 - another process does it, and tells nobody
            await anyio.sleep(0.01)


async def test_it_returns_what_was_printed_and_how_it_ended(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        completed = await run(script(tmp_path, "echo out; echo some words >&2; exit 3"), seconds=60)
        assert completed == Finished(3, b"out\n", "some words\n")
        completed = await run(script(tmp_path, "cat"), seconds=60)
        assert completed.out == b"", "there is nothing to read"
        completed = await run(script(tmp_path, "cat"), seconds=60, stdin=b"to read")
        assert completed.out == b"to read"
        completed = await run(
            script(tmp_path, "exec <&-; kill $$"), seconds=60, stdin=bytes(1_000_000)
        )
        assert completed.code == -signal.SIGTERM


async def test_it_gets_the_listed_variables_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    completed = await run(script(tmp_path, "env"), seconds=60)
    names = {line.partition(b"=")[0] for line in completed.out.splitlines()}
    assert names <= {b"PATH", MARK.encode(), b"PWD", b"OLDPWD", b"SHLVL", b"_"}
    chosen = {"PATH": "/bin", "XPATH": "1", "LC_ALL": "C", "KEY": "2"}
    assert allowed(chosen, re.compile(r"PATH|LC_\w+")) == {"PATH": "/bin", "LC_ALL": "C"}


async def test_what_hangs_is_ended_with_its_children_at_the_deadline(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        with anyio.fail_after(60), pytest.raises(LateError, match="did not end within 3 s"):
            await run(script(tmp_path, STAYS + "sleep 600"), seconds=3)
        assert (tmp_path / "stays").exists()


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
async def test_a_program_is_asked_to_end_before_it_is_killed(tmp_path: Path, trap: str) -> None:
    """One that ignores SIGTERM goes with its children; one that does not removes its files."""
    text = trap or "trap 'rm stays; exit 0' TERM; "
    async with nothing_stays(tmp_path):
        grace = 0.3 if trap else 50.0  # one that obeys ends at once, on a busy machine later
        program = script(tmp_path, f"{text}{STAYS}while true; do sleep 0.01; done", grace=grace)
        with anyio.fail_after(60):
            async with child(program) as running:
                await until((tmp_path / "stays").exists)
                assert len(tree(tmp_path)) >= 3, "the program, its child, and the guard"
        code = running.returncode
    assert code == (-signal.SIGKILL if trap else 0)
    assert (tmp_path / "stays").exists() == bool(trap)


async def test_a_grandchild_that_is_left_behind_is_ended_and_not_waited_for(
    tmp_path: Path,
) -> None:
    async with nothing_stays(tmp_path):
        with anyio.fail_after(60):
            completed = await run(script(tmp_path, STAYS + "echo done"), seconds=600)
        assert completed.out == b"done\n"


async def test_a_flood_is_stopped_and_of_errors_the_end_is_kept(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        with anyio.fail_after(60), pytest.raises(FloodError, match="more than 1000 bytes"):
            await run(script(tmp_path, "yes"), seconds=600, max_bytes=1000)
        flood = "yes | head -c 10000000 >&2; echo the end >&2; echo out"
        completed = await run(script(tmp_path, flood), seconds=600)
    assert completed.out == b"out\n"
    assert completed.err.endswith("the end\n")
    assert len(completed.err) == process.TAIL_BYTES


async def test_a_flood_of_errors_ends_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "ERROR_BYTES", 1_000_000)
    async with nothing_stays(tmp_path), child(script(tmp_path, "yes >&2")) as running:
        with anyio.fail_after(60):
            assert await running.wait() == -signal.SIGKILL


async def test_one_that_dies_at_its_start_again_and_again_leaves_nothing(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        for _ in range(5):
            async with child(script(tmp_path, "echo why >&2; exit 9"), listens=True) as running:
                assert await running.wait() == 9
            assert running.tail == "why\n"


async def test_what_cannot_be_started_is_an_error_with_its_reason(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        missing = Program([str(tmp_path / "none")], {})
        (tmp_path / "closed").touch()
        closed = Program([str(tmp_path / "closed")], {})
        nowhere = script(tmp_path / "gone", "true")
        for program, reason in ((missing, "No such"), (closed, "denied"), (nowhere, "No such")):
            with pytest.raises(NotStartedError, match=f"cannot be started: .*{reason}"):
                await run(program, seconds=60)
            with pytest.raises(NotStartedError):
                Worker(program)
        with pytest.raises(NotStartedError):
            hand_over([str(tmp_path / "none")])


async def test_a_cancelled_caller_leaves_nothing(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path), anyio.create_task_group() as tasks:
        program = script(tmp_path, STAYS + "sleep 600")
        tasks.start_soon(lambda: run(program, seconds=600))
        await until((tmp_path / "stays").exists)
        tasks.cancel_scope.cancel()


async def test_a_caller_that_is_cancelled_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    program = script(tmp_path, STAYS + "echo ok > ready; sleep 600")
    async with nothing_stays(tmp_path), anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: run(program, seconds=600))
        for _ in range(2):  # until it is started, of which nobody is told yet
            await anyio.lowlevel.checkpoint()
        assert (tmp_path / "ready").read_text("utf-8") == "ok\n"  # the event loop stands meanwhile
        tasks.cancel_scope.cancel()


async def test_it_ends_with_its_block(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        async with child(script(tmp_path, STAYS + "sleep 600")) as running:
            await until((tmp_path / "stays").exists)
            assert running.pid in tree(tmp_path)
            assert running.returncode is None
        assert running.returncode == -signal.SIGKILL


HOLDER = """
import anyio, os, sys
from pathlib import Path
from skerry.infra.process import Program, Worker, child

program = Program(["/bin/sh", "-c", "sleep 600 & sleep 600"], dict(os.environ))

async def main():
    async with child(program):
        worker = Worker(program)
        print("ready", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_when_we_are_killed_it_ends_with_its_children(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER]
    environ = {**os.environ, MARK: str(tmp_path)}
    async with nothing_stays(tmp_path):
        with subprocess.Popen(  # noqa: ASYNC220 - it is killed below
            command, stdout=subprocess.PIPE, text=True, env=environ
        ) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
            await until(lambda: len(tree(tmp_path)) >= 7)
            holder.send_signal(signal.SIGKILL)


def test_a_blocking_caller_gets_the_same(tmp_path: Path) -> None:
    assert run_blocking(script(tmp_path, "cat"), seconds=60, stdin=b"x").out == b"x"
    with pytest.raises(LateError):
        run_blocking(script(tmp_path, "sleep 600"), seconds=0.2)


async def test_a_blocking_caller_in_an_event_loop_gets_it_too(tmp_path: Path) -> None:
    assert run_blocking(script(tmp_path, "cat"), seconds=60, stdin=b"x").out == b"x"


async def test_limits_hold_for_each_process_and_no_core_is_dumped(tmp_path: Path) -> None:
    text = "ulimit -v; ulimit -f; ulimit -c; yes > big"
    limited = script(tmp_path, text, memory_bytes=1 << 30, file_bytes=1 << 20)
    completed = await run(limited, seconds=60)
    assert completed.out == b"1048576\n2048\n0\n"
    assert (tmp_path / "big").stat().st_size == 1 << 20
    completed = await run(script(tmp_path, "ulimit -c"), seconds=60)
    assert completed.out == b"0\n"


async def test_a_worker_ends_with_its_input_or_is_ended_with_its_children(tmp_path: Path) -> None:
    async with nothing_stays(tmp_path):
        worker = Worker(script(tmp_path, "cat; exit 7"))
        worker.write(b"hello")
        assert os.read(worker.output, 5) == b"hello"
        assert worker.end(60) == 7
        worker = Worker(script(tmp_path, STAYS + "sleep 600"))
        await until((tmp_path / "stays").exists)
        worker.kill()
        assert worker.end(60) == -signal.SIGKILL


async def test_a_program_of_ours_gets_what_python_needs_and_what_is_added(tmp_path: Path) -> None:
    start = starter({"PATH": os.environ["PATH"], "SOME_API_KEY": "x", MARK: str(tmp_path)})
    async with start(["/usr/bin/env"], {"MORE": "1"}) as running:
        printed = b"".join([part async for part in running.stdout])
    names = {line.partition(b"=")[0] for line in printed.splitlines()}
    assert names - {b"PWD", b"OLDPWD", b"SHLVL", b"_"} == {b"PATH", b"MORE"}


def test_what_belongs_to_the_person_goes_on(tmp_path: Path) -> None:
    text = f"sleep 600 & echo $! > {tmp_path}/stays; exit 3"
    assert hand_over(["/bin/sh", "-c", text], silent=True) == 3
    stays = int((tmp_path / "stays").read_text("utf-8"))
    os.kill(stays, signal.SIGKILL)  # it was still there
    with pytest.raises(LateError):
        hand_over(["/bin/sleep", "600"], seconds=0.2)


async def test_pipes_that_were_not_asked_for_are_an_error(tmp_path: Path) -> None:
    async with child(script(tmp_path, "true")) as running:
        assert isinstance(running, Child)
        with pytest.raises(TypeError):
            _ = running.stdin


@pytest.mark.parametrize("uvloop", [False, True])
def test_a_child_gets_no_descriptor_that_is_not_named(*, uvloop: bool) -> None:
    """Loops differ: uvloop leaves its own open, and those that may be inherited."""
    stray, named = os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_RDONLY)
    high = fcntl.fcntl(stray, fcntl.F_DUPFD, 123)  # the first free one: 123 may be in use
    os.set_inheritable(stray, True)  # noqa: FBT003 - it takes no keyword

    async def main() -> set[int]:
        environ = {"PATH": os.environ["PATH"]}
        program = Program(["sh", "-c", "echo /proc/self/fd/*"], environ, descriptors=[named])
        completed = await run(program, seconds=60)
        return {int(path.rpartition("/")[2]) for path in completed.out.decode().split()}

    try:
        with ThreadPoolExecutor(1) as thread:
            options = {"use_uvloop": uvloop}
            work = partial(anyio.run, main, backend_options=options)
            inherited = thread.submit(work).result()
        assert named in inherited
        assert not {stray, high} & inherited
        assert len(inherited - {0, 1, 2, named}) <= 2, "the lifeline, and the folder that is read"
    finally:
        for descriptor in (stray, named, high):
            os.close(descriptor)


async def test_the_limit_on_files_is_in_bytes(tmp_path: Path) -> None:
    command = ["sh", "-c", "head -c 9000 /dev/zero > big; wc -c < big"]
    program = Program(command, {"PATH": os.environ["PATH"]}, tmp_path, file_bytes=4096)
    await run(program, seconds=60)
    assert (tmp_path / "big").stat().st_size == 4096


async def test_the_end_is_noted_without_a_descriptor_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not every machine has one; several may wait for the end."""

    def refuse(_: int) -> int:
        raise PermissionError

    monkeypatch.setattr(os, "pidfd_open", refuse)
    codes: list[int] = []

    async def wait(running: Child) -> None:
        codes.append(await running.wait())

    async with nothing_stays(tmp_path):
        with anyio.fail_after(60):
            program = script(tmp_path, "read -r code; exit $code")
            async with (
                child(program, listens=True) as running,
                anyio.create_task_group() as tasks,
            ):
                for _ in range(2):
                    tasks.start_soon(wait, running)
                await running.stdin.send(b"7\n")
    assert codes == [7, 7]


async def test_large_input_and_output_pass_while_nobody_reads_yet(tmp_path: Path) -> None:
    data = os.urandom(3_000_000)
    async with nothing_stays(tmp_path):
        completed = await run(script(tmp_path, "cat"), seconds=60, stdin=data, max_bytes=4_000_000)
    assert completed.out == data


async def test_a_pipe_that_is_closed_wakes_who_waits_for_it(tmp_path: Path) -> None:
    async def read(running: Child) -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await running.stdout.receive()

    with anyio.fail_after(60):
        async with (
            child(script(tmp_path, "sleep 600")) as running,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(read, running)
            await anyio.wait_all_tasks_blocked()
            await running.stdout.aclose()
