"""The command as a process of its own, against a gateway of the test's."""

import os
import sys
from subprocess import CompletedProcess

import anyio

from tests.support.gateway import TOKEN, Rig


async def skerry(rig: Rig, *arguments: str) -> CompletedProcess[bytes]:
    """Run `skerry` with the arguments; the gateway of the rig is the one that is meant."""
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    home = str(rig.context.config().state_dir)
    environ = kept | {
        "HOME": home,
        "SKERRY_STATE_DIR": home,
        "SKERRY_GATEWAY_PORT": str(rig.port),
        "SKERRY_GATEWAY_TOKEN": TOKEN,
    }
    command = [sys.executable, "-m", "skerry", *arguments]
    with anyio.fail_after(60):
        return await anyio.run_process(command, env=environ, check=False)
