"""Runs the command as a process of its own, against a scripted gateway."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.cli import run_command
from tests.support.fake_gateway import TOKEN, FakeGateway, fake_gateway

Command = Callable[..., Awaitable[CompletedProcess[bytes]]]


@pytest.fixture
async def gateway() -> AsyncIterator[FakeGateway]:
    async with fake_gateway() as gateway:
        yield gateway


@pytest.fixture
def environ(gateway: FakeGateway, tmp_path: Path) -> dict[str, str]:
    """An environment in which the scripted gateway is the one that is meant."""
    port = gateway.url.rpartition(":")[2]
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    return kept | {
        "HOME": str(tmp_path),
        "SKERRY_STATE_DIR": str(tmp_path / "state"),
        "SKERRY_GATEWAY_PORT": port,
        "SKERRY_GATEWAY_TOKEN": TOKEN,
        "TERM": "xterm",
    }


@pytest.fixture
def command(environ: dict[str, str]) -> Command:
    """Runs `skerry` with the arguments and returns its output."""

    async def run(*arguments: str, stdin: bytes = b"") -> CompletedProcess[bytes]:
        return await run_command(*arguments, environ=environ, said=stdin)

    return run
