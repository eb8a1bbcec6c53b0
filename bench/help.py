"""CPU seconds of `skerry --help`, beside its budget."""

import resource
import statistics
import subprocess
import sys

BUDGET = 0.06
ROUNDS = 15


def cpu_seconds(*arguments: str) -> float:
    """Return the CPU time of one process, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    pairs = [(cpu_seconds("-m", "skerry", "--help"), cpu_seconds("-c", "")) for _ in range(ROUNDS)]
    help_seconds = statistics.median(one for one, _ in pairs)
    bare = statistics.median(one for _, one in pairs)
    print(
        f"skerry --help: {help_seconds:.3f} CPU s (budget {BUDGET}), "
        f"an empty Python {bare:.3f}, median of {ROUNDS} interleaved rounds"
    )


if __name__ == "__main__":
    main()
