"""A whole gateway whose memory is the real QMD: it answers, fails, is replaced, and comes back."""

import json
import os
import shlex
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from skerry.client.client import GatewayClient
from skerry.hooks.hooks import Hooks
from skerry.infra.clock import SystemClock
from tests.support.whole import whole_gateway

pytestmark = [pytest.mark.full("QMD"), pytest.mark.timeout(300)]

CONFORMANCE = Path(__file__).parents[1] / "conformance"
SECONDS = 120
"""For each wait: a test machine may have other work."""
ASKED = {"query": "When does the harbour open?"}
FOUND = "The harbour opens at seven."


class Hurried(SystemClock):
    """The machine's clock, which a test may set forward."""

    ahead = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead


class Installed:
    """QMD in a folder of its own, as a person has it, which breaks and is mended."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.command, self._folder = folder / "qmd", folder
        self._real, node = (
            CONFORMANCE / f"{one}/node_modules/.bin/{one}" for one in ("qmd", "node")
        )
        assert self._real.exists(), "make test-all installs it"
        (folder / "node").symlink_to(node)
        self.mend()

    def mend(self) -> None:
        self._write(f'exec {shlex.quote(str(self._real))} "$@" # runs on node')

    def break_it(self, home: Path) -> None:
        self._write('echo "no such module" >&2; exit 3 # runs on node')
        for pid in servers(home):
            os.kill(pid, signal.SIGKILL)

    def _write(self, text: str) -> None:
        new = self._folder / "new"
        new.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        new.chmod(0o755)
        new.rename(self.command)


def servers(home: Path) -> list[int]:
    """Returns the processes of QMD's server for the memory in `home`."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().split(b"\0")
            own = str(home).encode() in (path / "environ").read_bytes()
        except OSError:
            continue
        if own and b"mcp" in words:
            found.append(int(path.name))
    return found


@asynccontextmanager
async def remembering(
    home: Path, program: Installed, clock: Hurried
) -> AsyncIterator[GatewayClient]:
    """Gives a client of a gateway with QMD in the slot, and one fact in its memory."""
    qmd = {"command": str(program.command), "limits": {"timeoutMs": 30_000}}
    config = {
        "memory": {"backend": "qmd", "qmd": qmd},
        "agents": {"defaults": {"memorySearch": {"provider": "none"}}},
    }
    async with (
        whole_gateway(home, Hooks(), config=config, clock=clock) as (_, address),
        GatewayClient(address) as client,
    ):
        await client.request("memory.write", {"text": FOUND, "section": "Places"})
        await client.request("memory.sync", {"force": True}, timeout=SECONDS)
        yield client


async def search(client: GatewayClient) -> dict[str, Any]:
    payload: dict[str, Any] = await client.request("memory.search", ASKED, timeout=SECONDS)
    assert FOUND in payload["results"][0]["text"], payload
    return payload


async def tool(client: GatewayClient, run: str) -> dict[str, Any]:
    """Returns the result of the tool in the run."""
    message = f"call memory_search {json.dumps(ASKED)}"
    params = {"sessionKey": "main", "idempotencyKey": run, "message": message}
    await client.request("chat.send", params)
    ended = {"runId": run, "timeoutMs": 1000 * SECONDS}
    await client.request("agent.wait", ended, timeout=SECONDS)
    history = await client.request("chat.history", {"sessionKey": "main"})
    results = [message for message in history["messages"] if message["role"] == "toolResult"]
    payload: dict[str, Any] = json.loads(results[-1]["content"][0]["text"])
    assert FOUND in payload["results"][0]["snippet"], payload
    return payload


async def until(happened: Callable[[], object]) -> None:
    with anyio.fail_after(SECONDS):
        while not happened():  # noqa: ASYNC110 - another process does it, and tells nobody
            await anyio.sleep(0.05)


@pytest.mark.requirement("qmd-fallback-manager")
@pytest.mark.requirement("qmd-status-backend")
async def test_qmd_answers_fails_is_replaced_within_the_query_and_comes_back(
    tmp_path: Path,
) -> None:
    home, clock, program = tmp_path / "home", Hurried(), Installed(tmp_path / "program")
    async with remembering(home, program, clock) as client:
        payload = await search(client)
        assert (payload["backend"], payload["fallback"]) == ("qmd", None)
        assert payload["results"][0]["path"] == "qmd/memory-root/MEMORY.md"
        told = await tool(client, "1")
        assert (told["backend"], told["fallback"]) == ("qmd", None)
        assert (await client.request("memory.status"))["backend"] == "qmd"
        assert (await client.request("memory.files"))["backend"] == "qmd"
        await until(lambda: servers(home))

        program.break_it(home)
        await until(lambda: not servers(home))
        payload = await search(client)
        assert payload["backend"] == "builtin"
        assert payload["fallback"]["from"] == "qmd"
        assert "no such module" in payload["fallback"]["reason"]
        assert payload["results"][0]["path"] == "MEMORY.md"
        told = await tool(client, "2")
        assert (told["backend"], told["fallback"]["from"]) == ("builtin", "qmd")
        status = await client.request("memory.status")
        assert (status["backend"], status["fallback"]["from"]) == ("builtin", "qmd")

        program.mend()
        assert (await search(client))["backend"] == "builtin", "it is paused for a minute"
        clock.ahead += 61_000
        payload = await search(client)
        assert (payload["backend"], payload["fallback"]) == ("qmd", None)
        assert (await tool(client, "3"))["backend"] == "qmd"
        assert (await client.request("memory.status"))["backend"] == "qmd"
    await until(lambda: not servers(home))
