"""Runs the key server as a child process of the relayer, and restarts it when it dies."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from skerry_relayer.errors import DownError
from skerry_relayer.keys.client import KeyClient
from skerry_relayer.keys.server import READY, SOCKET
from skerry_relayer.processes import Child, child, module

logger = logging.getLogger(__name__)
START_SECONDS: Final = 30.0
_FIRST_WAIT: Final = 0.1
_MAX_WAIT: Final = 10.0


@asynccontextmanager
async def key_server(folder: Path) -> AsyncGenerator[KeyClient]:
    """Runs the key server of a folder for the block and connects to it.

    A server that dies is restarted; until then requests raise `DownError`.

    Raises:
        DownError: the key server could not be started.
    """
    path = folder / SOCKET
    async with anyio.create_task_group() as tasks:
        try:
            await tasks.start(_keep_running, folder, path)
            async with KeyClient(path) as client:
                yield client
        finally:
            tasks.cancel_scope.cancel()


async def _keep_running(
    folder: Path, path: Path, *, task_status: anyio.abc.TaskStatus[None]
) -> None:
    wait, is_first = _FIRST_WAIT, True
    while True:
        command = module("skerry_relayer.keys.server", str(folder), str(path))
        async with child(command, {}) as server:
            if await _is_ready(server):
                wait = _FIRST_WAIT
                if is_first:
                    task_status.started()
                    is_first = False
                await server.wait()
                logger.error("key server %d ended: %s", server.pid, server.tail)
            elif is_first:
                await server.wait()
                raise DownError(f"The key server did not start. {server.tail.strip()}")
            else:
                logger.error("the key server could not be restarted: %s", server.tail)
        await anyio.sleep(wait)
        wait = min(wait * 2, _MAX_WAIT)


async def _is_ready(server: Child) -> bool:
    """Returns whether the server printed its ready line in time."""
    printed = b""
    with anyio.move_on_after(START_SECONDS):
        while READY.encode() not in printed:
            try:
                printed += await server.stdout.receive()
            except anyio.EndOfStream:
                return False
        return True
    await server.end()
    return False
