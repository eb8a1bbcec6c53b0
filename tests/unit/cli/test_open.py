"""`skerry open` as a process, against a scripted gateway."""

import os
import pty
import sys

import anyio
import pytest

from tests.support.fake_gateway import TOKEN, FakeGateway

from .conftest import Command


@pytest.fixture
def page(gateway: FakeGateway) -> str:
    gateway.answer("models.status", {"state": "ready", "model": {"provider": "a", "id": "b"}})
    return f"{gateway.url.replace('ws:', 'http:')}/"


async def test_into_a_pipe_goes_the_address_without_the_token(page: str, command: Command) -> None:
    completed = await command("open")
    assert (completed.returncode, completed.stdout.decode()) == (1, f"{page}\n")
    assert "shown on a terminal only" in completed.stderr.decode()
    assert TOKEN not in completed.stdout.decode() + completed.stderr.decode()


async def test_a_terminal_shows_the_address_with_the_token(page: str, gateway: FakeGateway) -> None:
    main, other = pty.openpty()
    given = ("--url", gateway.url, "--token", TOKEN)
    environ = {**os.environ, "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    command = [sys.executable, "-m", "skerry", "open", *given]
    with anyio.fail_after(60):
        async with await anyio.open_process(
            command, stdin=other, stdout=other, stderr=other, env=environ
        ) as process:
            assert await process.wait() == 0
    shown = os.read(main, 4096).decode()
    os.close(main)
    os.close(other)
    assert f"{page}#token={TOKEN}" in shown
