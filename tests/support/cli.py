"""The command as a process of its own, against a gateway of the test's."""

import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from subprocess import CompletedProcess

import anyio

from skerry.testing import forks
from tests.support.gateway import TOKEN, Rig


async def run_command(
    *arguments: str, environ: Mapping[str, str], said: bytes = b"", seconds: float = 60
) -> CompletedProcess[bytes]:
    """Runs `skerry` with the arguments until it ends, and returns what it printed."""
    with anyio.fail_after(seconds):
        if forks.by_fork("skerry", environ):
            return await forks.run("skerry", arguments, environ, said)
        command = [sys.executable, "-m", "skerry", *arguments]
        return await anyio.run_process(command, input=said, env=environ, check=False)


def run_command_text(
    *arguments: str, environ: Mapping[str, str], seconds: float = 60
) -> "CompletedProcess[str]":
    """Runs `skerry` as `run_command` does, for a test that waits without an event loop."""

    async def run() -> CompletedProcess[bytes]:
        return await run_command(*arguments, environ=environ, seconds=seconds)

    with ThreadPoolExecutor(1) as thread:
        completed = thread.submit(anyio.run, run).result()
    return subprocess.CompletedProcess(
        completed.args, completed.returncode, completed.stdout.decode(), completed.stderr.decode()
    )


async def skerry(rig: Rig, *arguments: str) -> CompletedProcess[bytes]:
    """Runs `skerry` with the arguments; the gateway of the rig is the one that is meant."""
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    home = str(rig.context.config().state_dir)
    environ = kept | {
        "HOME": home,
        "SKERRY_STATE_DIR": home,
        "SKERRY_GATEWAY_PORT": str(rig.port),
        "SKERRY_GATEWAY_TOKEN": TOKEN,
    }
    return await run_command(*arguments, environ=environ)
