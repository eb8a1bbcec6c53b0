"""CPU of `skerry --help` and of a gateway's start; memory and CPU of a gateway that has no work."""

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import Tree, figure, gateway

ROUNDS = 9
SETTLE_SECONDS = 3
IDLE_SECONDS = 10
LIBRARIES = (
    "anyio",
    "httpx2",
    "msgspec",
    "pydantic",
    "sqlite3",
    "starlette.applications",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
    "uvloop",
)
IMPORTS = f"import {', '.join(LIBRARIES)}"


def run_cpu(*arguments: str) -> float:
    """Returns the CPU seconds of a Python that is run to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def show_help() -> None:
    pairs = [(run_cpu("-m", "skerry", "--help"), run_cpu("-c", "pass")) for _ in range(ROUNDS)]
    costs, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    figure(
        "`skerry --help`, CPU s", "<= 0.06", f"{costs:.3f}", f"an empty Python program {bare:.3f}"
    )


def start() -> None:
    costs: list[float] = []
    bare: list[float] = []
    with TemporaryDirectory(prefix="skerry-") as home:
        for _ in range(ROUNDS):
            with gateway(Path(home)) as running:
                costs.append(running.start_cpu)
            bare.append(run_cpu("-c", IMPORTS))
    figure(
        "gateway start to ready, CPU s",
        "<= 0.52",
        f"{statistics.median(costs):.2f}",
        f"importing its libraries {statistics.median(bare):.2f}; first start {costs[0]:.2f}",
    )


def idle() -> None:
    waiting = f"{IMPORTS}, time; print(flush=True); time.sleep(60)"
    with (
        TemporaryDirectory(prefix="skerry-") as home,
        gateway(Path(home)) as running,
        subprocess.Popen([sys.executable, "-c", waiting], stdout=subprocess.PIPE) as bare,
    ):
        time.sleep(SETTLE_SECONDS)
        memory, libraries = running.tree.rss(), Tree(bare.pid).rss()
        before = running.tree.cpu()
        time.sleep(IDLE_SECONDS)
        busy = (running.tree.cpu() - before) / IDLE_SECONDS
        bare.terminate()
    figure("idle memory, MB resident", "<= 62", f"{memory:.1f}", f"its libraries {libraries:.1f}")
    figure("idle CPU", "<= 0.5 %", f"{busy:.2%}", f"over {IDLE_SECONDS} s")


if __name__ == "__main__":
    show_help()
    start()
    idle()
