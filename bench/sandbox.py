"""CPU and time of a command in the sandbox, beside bubblewrap alone and a plain process.

The CPU is that of this process and of all that it starts; the commands are `true`.
"""

import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath

import anyio

from bench.measure import figure
from skerry.config.check import check
from skerry.config.root import Config
from skerry.features.sandbox.bubblewrap import _arguments, found_program
from skerry.features.sandbox.command import SandboxCommand
from skerry.features.sandbox.stage import Mount
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import Limits, Sandbox, SandboxSpec
from skerry.sdk.slots import SandboxHost, open_sandbox

COMMANDS = 20
ROUNDS = 7
AT_ONCE = 50
MARK = "skerry-bench-sandbox"
Run = Callable[[], Awaitable[object]]


def cpu() -> float:
    """Returns the CPU seconds of this process and of its awaited children."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


async def measured(run: Run) -> tuple[float, float]:
    """Returns the CPU and the time of a command, in milliseconds."""
    began, begin = time.perf_counter(), cpu()
    for _ in range(COMMANDS):
        await run()
    return (cpu() - begin) / COMMANDS * 1e3, (time.perf_counter() - began) / COMMANDS * 1e3


def memory() -> float:
    """Returns the MB of all processes of the commands that run at once."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and folder.name != str(os.getpid()):
            with suppress(OSError):
                if MARK.encode() in (folder / "cmdline").read_bytes():
                    lines = (folder / "smaps_rollup").read_text().splitlines()
                    total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


async def at_once(sandbox: Sandbox, workspace: Path) -> tuple[float, float]:
    """Returns the CPU of a command, in milliseconds, and the MB of all of them."""
    spec = SandboxSpec(
        ["/bin/sh", "-c", "echo; read -r _", MARK], workspace, MAIN_AGENT, listens=True
    )
    begin, used, ready = cpu(), 0.0, 0
    done = anyio.Event()

    async def one() -> None:
        nonlocal ready, used
        async with sandbox.open(spec) as process:
            await process.stdout.receive()
            ready += 1
            if ready == AT_ONCE:
                used = await anyio.to_thread.run_sync(memory)
                done.set()
            await done.wait()

    async with anyio.create_task_group() as tasks:
        for _ in range(AT_ONCE):
            tasks.start_soon(one)
    return (cpu() - begin) / AT_ONCE * 1e3, used


def configuration(state: Path) -> Config:
    """Returns one whose sandbox is bubblewrap."""
    tree = {"agents": {"defaults": {"sandbox": {"backend": "bubblewrap"}}}}
    return check(tree, state_dir=state, path=state / "skerry.json")[0]


def bare(state: Path) -> Run:
    """Returns a function that runs `true` by bubblewrap alone, in the workspace of a state."""
    bwrap = found_program({"PATH": os.defpath})
    assert bwrap is not None
    path, settings = str(bwrap.path), configuration(state).sandbox(MAIN_AGENT)
    workspace = Mount(-1, "/workspace", is_writable=True)
    command = SandboxCommand(
        ["true"], [workspace], {}, Limits(), PurePosixPath("/"), settings, "bench"
    )
    source = [("", str(state / "workspace"))]

    async def run() -> None:
        with ExitStack() as stack:
            words, descriptors = _arguments(command, source, stack)
            await anyio.run_process([path, *words, "true"], pass_fds=descriptors)

    return run


async def main(folder: Path) -> None:
    state = folder / "state"
    (state / "workspace").mkdir(parents=True)
    config = configuration(state)
    sandbox = open_sandbox(SandboxHost(lambda: config, {"PATH": os.defpath}))
    assert (await sandbox.usable()).usable
    plain = bare(state)

    async def inside() -> None:
        async with sandbox.open(SandboxSpec(["true"], state / "workspace", MAIN_AGENT)) as process:
            assert await process.wait() == 0

    async def process() -> None:
        await anyio.run_process(["true"], stdin=subprocess.DEVNULL)

    await inside()
    rounds = [[await measured(run) for run in (inside, plain, process)] for _ in range(ROUNDS)]
    for index, (quantity, budget) in enumerate((("CPU", "<= 3"), ("time", "<= 2"))):
        skerry_cost, bare_cost, least = (
            statistics.median(r[n][index] for r in rounds) for n in range(3)
        )
        ratio = statistics.median(r[0][index] / r[1][index] for r in rounds)
        detail = f"{skerry_cost:.1f} ms beside {bare_cost:.1f} ms, a plain process {least:.1f} ms"
        figure(f"sandbox, {quantity} of a command, times bwrap", budget, f"{ratio:.2f}", detail)
    each, used = await at_once(sandbox, state / "workspace")
    figure(
        f"sandbox, {AT_ONCE} commands at once, MB of each",
        "<= 3",
        f"{used / AT_ONCE:.2f}",
        f"{each:.1f} ms of CPU each",
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        anyio.run(main, Path(name))
