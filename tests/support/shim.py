"""A program `skerry` for shells: a forked process with all imports runs each command."""

import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio
import anyio.abc

from skerry.testing import forks

PROGRAM: Final = """#!{python} -IS
import json, os, socket, sys
caller = socket.socket(socket.AF_UNIX)
caller.connect({path!r})
socket.send_fds(caller, [b"."], [0, 1, 2])
told = {{"arguments": sys.argv[1:], "environ": dict(os.environ), "folder": os.getcwd()}}
caller.sendall(json.dumps(told).encode() + b"\\n")
code = int(caller.makefile().readline())
sys.exit(code if code >= 0 else 128 - code)
"""


@asynccontextmanager
async def forking_skerry(folder: Path) -> AsyncIterator[Path]:
    """Makes a folder with the program, which answers during the block."""
    folder.mkdir()
    path = folder / "asked"
    program = folder / "skerry"
    program.write_text(PROGRAM.format(python=sys.executable, path=str(path)), "utf-8")
    program.chmod(0o755)
    listener = await anyio.create_unix_listener(path)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, _answer)
        yield folder
        tasks.cancel_scope.cancel()


async def _answer(stream: anyio.abc.SocketStream) -> None:
    assert isinstance(stream, anyio.abc.UNIXSocketStream)
    async with stream:
        _, descriptors = await stream.receive_fds(1, 3)
        text = b""
        while not text.endswith(b"\n"):
            text += await stream.receive()
        report = json.loads(text)
        stdin, stdout, stderr = descriptors
        try:
            code = await forks.run_over(
                (stdin, stdout, stderr), report["arguments"], report["environ"], report["folder"]
            )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        await stream.send(b"%d\n" % code)
