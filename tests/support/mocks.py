"""Mock model servers that others wrote, each as a process for one test."""

import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.streams.text import TextReceiveStream

ROOT = Path(__file__).parents[2]
_ADDRESS = re.compile(r"http://127\.0\.0\.1:[1-9]\d*")


def program(variable: str, place: str) -> str:
    """Return the program that an environment variable names, or that `make test-all` installed."""
    path = os.environ.get(variable) or shutil.which(ROOT / place)
    assert path is not None, f"{place} is missing: make test-all installs it"
    return path


@asynccontextmanager
async def started(command: Sequence[str]) -> AsyncIterator[str]:
    """Run a server until the block ends; give the address that it prints."""
    with anyio.fail_after(50):
        async with await anyio.open_process(command, stderr=subprocess.STDOUT) as process:
            assert process.stdout is not None
            try:
                said = ""
                output = TextReceiveStream(process.stdout, errors="replace")
                while (address := _ADDRESS.search(said)) is None:
                    said += await output.receive()
                async with anyio.create_task_group() as group:
                    group.start_soon(_drain, output)
                    yield address.group()
                    group.cancel_scope.cancel()
            finally:
                process.kill()


async def _drain(output: TextReceiveStream) -> None:
    """Read on, so that the server never waits for somebody who listens."""
    async for _ in output:
        pass
