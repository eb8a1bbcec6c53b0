"""Time of a command in a container that is kept, beside `docker exec` alone, and of its start.

Needs an engine that has the image of the configuration. The commands are `true`; the CPU of the
engine, which is another process, is not counted.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import anyio

from bench.measure import figure
from skerry.config.check import check
from skerry.features.sandbox.open_sandbox import open_sandbox
from skerry.infra.process import Program, run
from skerry.model.ids import MAIN_AGENT
from skerry.ports.sandbox import Sandbox, SandboxSpec
from skerry.sdk.slots import SandboxHost

COMMANDS = 10
ROUNDS = 5
NAME = "docker, time of a command in a warm container, times docker exec"


async def seconds(sandbox: Sandbox, workspace: Path) -> float:
    """Returns the seconds of a command by the sandbox."""
    begin = time.perf_counter()
    async with sandbox.open(SandboxSpec(["true"], workspace, MAIN_AGENT)) as process:
        assert await process.wait() == 0
    return time.perf_counter() - begin


async def docker_alone(container: str) -> float:
    """Returns the seconds of the same command by the program of docker."""
    begin = time.perf_counter()
    program = Program(["docker", "exec", container, "true"], os.environ)
    assert (await run(program, seconds=60)).code == 0
    return time.perf_counter() - begin


async def main(state: Path) -> None:
    (state / "workspace").mkdir()
    tree = {"agents": {"defaults": {"sandbox": {"backend": "docker"}}}}
    config = check(tree, state_dir=state, path=state / "skerry.json")[0]
    sandboxes = open_sandbox(SandboxHost(lambda: config, os.environ))
    test = await sandboxes.usable()
    if not test.usable:
        figure(NAME, "<= 3", "-", f"not measured: {test.remedy}")
        return
    workspace = state / "workspace"
    first = await seconds(sandboxes, workspace)
    (container,) = [
        container_row
        for engine in sandboxes.containers
        for container_row in await engine.stored_containers()
        if container_row.scope == "agent-main"
    ]
    rounds = [
        (
            statistics.median([await seconds(sandboxes, workspace) for _ in range(COMMANDS)]),
            statistics.median([await docker_alone(container.name) for _ in range(COMMANDS)]),
        )
        for _ in range(ROUNDS)
    ]
    skerry_ms, docker_ms = (statistics.median(r[n] for r in rounds) * 1e3 for n in range(2))
    ratio = statistics.median(a / b for a, b in rounds)
    remarks = (
        f"{skerry_ms:.0f} ms beside {docker_ms:.0f} ms; the first, which starts it,"
        f" {first * 1e3:.0f} ms"
    )
    figure(NAME, "<= 3", f"{ratio:.2f}", remarks)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="skerry-docker-", ignore_cleanup_errors=True) as name:
        anyio.run(main, Path(name))
