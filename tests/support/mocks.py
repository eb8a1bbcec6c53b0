"""Mock model servers that others wrote, as processes."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


def program(variable: str, place: str) -> str:
    """Returns the program that an environment variable names, or that `make test-all` installed."""
    path = os.environ.get(variable) or shutil.which(ROOT / place)
    assert path is not None, f"{place} is missing: make test-all installs it"
    return path


@contextmanager
def started(command: Sequence[str]) -> Iterator[str]:
    """Runs a server until the block ends; gives the address that it prints."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = (_ADDRESS.search(line) for line in process.stdout)
            address = next(filter(None, said), None)
            assert address is not None, f"{command[0]} ended before it served"
            # Read on, so that the server never waits for somebody who listens.
            Thread(target=process.stdout.read, daemon=True).start()
            yield address.group()
        finally:
            process.kill()
