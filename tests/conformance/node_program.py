"""Runs one of the programs in `tests/conformance/node`."""

import json
import os
import shutil
import subprocess
from typing import Any

import anyio.to_thread

from tests.conformance.schema import HERE

SECONDS = 60


def node() -> str:
    """Returns the Node that npm installed, or the system's."""
    return (
        shutil.which("node", path=f"{HERE}/node_modules/.bin{os.pathsep}{os.environ['PATH']}")
        or "node"
    )


async def run_node(program: str, *arguments: str) -> dict[str, Any]:
    """Runs the program; returns the JSON that it printed."""

    def run() -> subprocess.CompletedProcess[str]:
        command = [node(), str(HERE / program), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)

    completed = await anyio.to_thread.run_sync(run)
    assert completed.returncode == 0, completed.stderr
    payload: dict[str, Any] = json.loads(completed.stdout)
    return payload
