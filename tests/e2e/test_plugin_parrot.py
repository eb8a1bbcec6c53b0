"""The example of a plugin that is a process, in a gateway: its parts, its death, its end."""

import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2

from scripts.requirements import ROOT
from skerry.client.client import GatewayClient
from skerry.testing.gateway import GatewayProcess, running_gateway
from tests.e2e.test_memwal import ask
from tests.support.gateway import TOKEN
from tests.support.wire import connected

PARROT = ROOT / "docs" / "examples" / "plugins" / "parrot"


def parrots() -> set[int]:
    """Returns the processes of the example that run now."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                home = (folder / "cwd").readlink().name
            except OSError:
                continue
            if home == "parrot" and b"main.py" in words and b"sh" not in words[0][-4:]:
                found.add(int(folder.name))
    return found


@asynccontextmanager
async def gateway_with_parrot(
    home: Path,
) -> AsyncIterator[tuple[GatewayProcess, GatewayClient, httpx2.AsyncClient]]:
    folder = home / "parrot"
    shutil.copytree(PARROT, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    plugins = {"load": {"paths": [str(folder)]}}
    config = {"gateway": {"auth": {"token": TOKEN}}, "plugins": plugins}
    async with running_gateway(home=home / "state", config=config) as gateway:
        bearer = {"authorization": f"Bearer {TOKEN}"}
        base = gateway.address.url.replace("ws:", "http:")
        async with (
            GatewayClient(gateway.address) as client,
            httpx2.AsyncClient(base_url=base, timeout=60, headers=bearer) as http,
        ):
            (listed,) = (await client.request("plugins.list"))["plugins"]
            assert (listed["reason"], listed["tools"]) == ("", ["parrot_repeat"])
            yield gateway, client, http


async def test_a_process_takes_part_in_all_that_it_registered(tmp_path: Path) -> None:
    async with (
        gateway_with_parrot(tmp_path) as (gateway, client, http),
        connected(gateway.address.url) as wire,
    ):
        assert await ask(client, "/squawk twice", "k1") == "squawk twice"
        await ask(client, "hello parrot", "k2")
        assert (await wire.event("parrot.heard"))["payload"]["said"] >= 1
        said = (await client.request("parrot.said"))["said"]
        assert (await http.get("/plugins/parrot/said")).text == f"GET {said}\n"
        with anyio.fail_after(60):
            while not (await client.request("parrot.said"))["read"]:  # noqa: ASYNC110 - its service reads the transcripts
                await anyio.sleep(0.05)
        assert await gateway.stop() == 0


async def test_a_process_that_dies_returns_and_none_outlives_the_gateway(tmp_path: Path) -> None:
    before = parrots()
    async with gateway_with_parrot(tmp_path) as (gateway, client, http):
        (pid,) = parrots() - before
        os.kill(pid, signal.SIGKILL)
        assert await ask(client, "still there?", "k3")
        with anyio.fail_after(60):
            while not parrots() - before - {pid}:  # noqa: ASYNC110 - its service starts it again
                await anyio.sleep(0.05)
        assert (await http.get("/plugins/parrot/said")).status_code == 200
        await gateway.kill()
        with anyio.fail_after(60):
            while parrots() - before:  # noqa: ASYNC110 - its guard ends it
                await anyio.sleep(0.05)
