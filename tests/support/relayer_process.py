"""A relayer in a process of its own, as `skerry relayer serve` runs it."""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Any, Self

import anyio
import anyio.abc
import httpx2
from anyio.streams.text import TextReceiveStream

from skerry_relayer.serve import now
from tests.support import memwal

READY_SECONDS = 120.0


@dataclass
class Served:
    """A running relayer."""

    url: str
    package_id: str
    process: anyio.abc.Process

    async def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        with anyio.fail_after(60):
            await self.process.wait()


async def command(home: Path, *words: str) -> Any:
    """Runs `skerry relayer WORDS --json` and returns its output."""
    completed = await anyio.run_process(
        [sys.executable, "-m", "skerry", "relayer", *words, "--json"],
        env=os.environ | {"SKERRY_STATE_DIR": str(home)},
        check=False,
    )
    return json.loads(completed.stdout)


async def made(home: Path) -> dict[str, str]:
    """Makes a relayer with an account; returns what `account add` prints."""
    await command(home, "init")
    account: dict[str, str] = await command(home, "account", "add", "--label", "Mara")
    return account


@asynccontextmanager
async def served(home: Path, *words: str) -> AsyncIterator[Served]:
    """Runs the relayer of a state directory until the end of the block."""
    process = await anyio.open_process(
        [sys.executable, "-m", "skerry", "relayer", "serve", "--port", "0", "--json", *words],
        env=os.environ | {"SKERRY_STATE_DIR": str(home)},
        stdin=None,
        stdout=PIPE,
        stderr=None,
    )
    assert process.stdout is not None
    try:
        with anyio.fail_after(READY_SECONDS):
            line = await TextReceiveStream(process.stdout).receive()
        ready = json.loads(line)
        yield Served(ready["url"], ready["packageId"], process)
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.CancelScope(shield=True), anyio.fail_after(60):
            await process.wait()
            await process.aclose()


class Client:
    """Signs requests of one delegate to a running relayer."""

    def __init__(self, relayer: Served, account: dict[str, str]) -> None:
        self.who = memwal.Delegate(
            account_id=account["accountId"],
            seed=bytes.fromhex(account["delegateKey"]),
            package_id=relayer.package_id,
        )
        self.http = httpx2.AsyncClient(base_url=relayer.url, timeout=60)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def send(self, method: str, path: str, body: object = None) -> httpx2.Response:
        content = b"" if body is None else json.dumps(body).encode()
        headers = self.who.headers(method, path, content, now=now())
        return await self.http.request(method, path, content=content, headers=headers)

    async def post(self, path: str, body: object) -> httpx2.Response:
        return await self.send("POST", path, body)

    async def done(self, job_id: str) -> dict[str, Any]:
        """Waits for the end of a job and returns its state."""
        with anyio.fail_after(60):
            while True:
                answer = await self.send("GET", f"/api/remember/{job_id}")
                state: dict[str, Any] = answer.json()
                if state["status"] in {"done", "failed"}:
                    return state
                await anyio.sleep(0.05)
