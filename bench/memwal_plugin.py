"""Cost of the memory plugin: CPU of a turn with recall and capture, start and memory of a gateway.

The server is a fake in a process of its own, which stores nothing and answers each recall with two
memories. The model answers the same to all, since an echo of the prompt would be longer with
memories in it. The baseline is a gateway without a memory, measured in the same rounds.
"""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio

from bench.measure import Gateway, driver, figure, gateway, model_server, settled
from skerry.testing.gateway import model_config
from tests.support.fake_relayer import configured

ROUNDS = 5
TURNS = 200
MESSAGE = "I prefer the harbour in the morning, and I work on the boats there"
"""A message that is looked up and captured."""
ANSWER = "I note that you prefer the harbour in the morning, and that you work on the boats"


@contextmanager
def server() -> Iterator[str]:
    """Runs the fake server; gives its address."""
    command = [sys.executable, "-m", "tests.support.fake_relayer"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def started(base_url: str, plugins: dict[str, Any]) -> Iterator[tuple[Gateway, float]]:
    """Runs a gateway; gives it with the CPU seconds of its start."""
    with (
        TemporaryDirectory(prefix="skerry-") as home,
        gateway(Path(home), model_config(base_url) | {"plugins": plugins}) as running,
    ):
        yield running, running.start_cpu


async def main() -> None:
    """Prints the figures."""
    none = {"slots": {"memory": "none"}}
    added: list[float] = []
    with (
        server() as url,
        model_server("--text", ANSWER) as model,
        started(model.base_url, configured(url)) as (with_memory, our_start),
        started(model.base_url, none) as (plain, plain_start),
    ):
        async with driver(with_memory) as with_plugin, driver(plain) as without_plugin:
            for client in (with_plugin, without_plugin):
                await client.turns(50, ["agent:main:warm"], MESSAGE)
            await settled(with_memory)
            costs: list[float] = []
            base: list[float] = []
            for number in range(ROUNDS):
                for client, running, rounds in (
                    (with_plugin, with_memory, costs),
                    (without_plugin, plain, base),
                ):
                    before = running.tree.cpu()
                    await client.turns(TURNS, [f"agent:main:round-{number}"], MESSAGE)
                    await settled(running)
                    rounds.append((running.tree.cpu() - before) / TURNS * 1e3)
            added = [a - b for a, b in zip(costs, base, strict=True)]
        figure(
            "CPU of memory-memwal per turn, ms",
            "<= 1",
            f"{statistics.median(added):.2f}",
            f"a turn with it {statistics.median(costs):.2f}, without a memory"
            f" {statistics.median(base):.2f}, {ROUNDS} rounds",
        )
        figure(
            "start of a gateway with memory-memwal, ms more",
            "<= 30",
            f"{(our_start - plain_start) * 1e3:.0f}",
            f"CPU of a start without {plain_start * 1e3:.0f}",
        )
        figure(
            "memory of a gateway with memory-memwal, MB more",
            "<= 4",
            f"{with_memory.tree.rss() - plain.tree.rss():.1f}",
            f"without {plain.tree.rss():.0f};"
            f" {with_memory.tree.anonymous() - plain.tree.anonymous():.1f} more"
            " without pages of files, such as the code of the library that signs",
        )


if __name__ == "__main__":
    anyio.run(main)
