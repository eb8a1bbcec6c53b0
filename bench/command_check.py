"""CPU of the decision on a command of a host, child process included, beside parts of it alone."""

import resource
import shlex
import statistics
from collections.abc import Awaitable, Callable

import anyio

from bench.measure import figure
from skerry.features.exec import shfmt_reader, tree_reader
from skerry.features.exec.command_check import ExecRules, check

COMMANDS = (
    "git status",
    "git diff HEAD~1 src/app.py | grep -i 'fix' | head -n 20",
    "(cat README.md; ls -la docs) 2>&1 >/dev/null && git status",
)
RULES = ExecRules(allowlist=("git status", "git diff *", "ls -la *", "cat *.md"))
ROUNDS = 7
REPEAT = 20


def cpu_seconds() -> float:
    """Returns the CPU of this process and of the children that it waited for."""
    uses = [resource.getrusage(scope) for scope in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(use.ru_utime + use.ru_stime for use in uses)


async def milliseconds(decide: Callable[[str], Awaitable[object]]) -> float:
    """Returns the CPU milliseconds a command, the median of the rounds."""
    rounds = []
    for _ in range(ROUNDS):
        begun = cpu_seconds()
        for _ in range(REPEAT):
            for command in COMMANDS:
                await decide(command)
        rounds.append((cpu_seconds() - begun) * 1000 / REPEAT / len(COMMANDS))
    return statistics.median(rounds)


async def decided(command: str) -> None:
    """Decides as a gateway does."""
    assert (await check(command, RULES)).decision == "allow"


async def split(command: str) -> None:
    """Splits into words, which finds no second command."""
    shlex.split(command)


async def tree(command: str) -> None:
    """Reads with tree-sitter alone."""
    tree_reader.read(command)


async def measure() -> None:
    """Prints the figure."""
    await decided(COMMANDS[0])
    check_ms = await milliseconds(decided)
    parts = {"shfmt": shfmt_reader.read, "tree-sitter": tree, "shlex": split}
    remarks = [f"{name} alone {await milliseconds(read):.3f}" for name, read in parts.items()]
    figure("CPU of the decision on a command, ms", "<= 5", f"{check_ms:.2f}", ", ".join(remarks))


def main() -> None:
    """Runs the benchmark."""
    anyio.run(measure)


if __name__ == "__main__":
    main()
