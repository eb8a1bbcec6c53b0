"""A forked program behaves as one that a new interpreter runs."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from skerry.testing import forks
from skerry.testing.gateway import GatewayProcess
from tests.support.cli import run_command

BOTH = pytest.mark.parametrize("switch", ["0", "1"], ids=["interpreter", "fork"])


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path)}


async def test_a_command_says_and_does_the_same(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, said, code in (
        (("--version",), b"", 0),
        (("nonsense",), b"", 2),
        (("status", "--json"), b"", 1),
        (("config", "set", "gateway.prot", "-"), b"18999", 1),
        (("config", "get", "gateway.port"), b"", 0),
        (("config", "path"), b"", 0),
    ):
        found = []
        for switch in ("0", "1"):
            monkeypatch.setenv(forks.SWITCH, switch)
            completed = await run_command(*words, environ=environ, said=said)
            found.append((completed.returncode, completed.stdout, completed.stderr))
        assert found[0] == found[1]
        assert found[1][0] == code


async def test_its_environment_and_folder_are_its_own(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKERRY_STATE_DIR", "of the test, not of the command")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.json").write_text("{nonsense", encoding="utf-8")
    completed = await forks.run("skerry", ["config", "validate", "other.json"], environ)
    assert b"other.json" in completed.stderr + completed.stdout
    assert b"No such file" not in completed.stderr
    for name in ("one", "two"):
        completed = await forks.run(
            "skerry", ["config", "path"], environ | {"SKERRY_STATE_DIR": name}
        )
        assert completed.stdout.decode() == f"{tmp_path / name / 'skerry.json'}\n"


async def test_more_than_a_pipe_holds_goes_in_and_comes_out(environ: dict[str, str]) -> None:
    words = ["config", "set", "agents.list[0].name", "-"]
    completed = await forks.run("skerry", words, environ, b"x" * 1_000_000)
    assert completed.returncode == 1
    completed = await forks.run("skerry", ["config", "schema"], environ)
    assert len(completed.stdout) > 65_536


@BOTH
async def test_a_signal_ends_it_and_is_told(
    switch: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(forks.SWITCH, switch)
    gateway = GatewayProcess(tmp_path)
    try:
        await gateway.start()
        os.kill(gateway.pid, signal.SIGKILL)
        assert await gateway.wait() == -signal.SIGKILL
        await gateway.start()
        assert await gateway.stop() == 0
    finally:
        await gateway.end()


async def test_many_at_once_have_each_their_own_answer(environ: dict[str, str]) -> None:
    codes: dict[int, int] = {}

    async def ask(number: int) -> None:
        words = ["config", "path"] if number % 2 else ["nonsense"]
        completed = await forks.run("skerry", words, environ | {"SKERRY_STATE_DIR": f"/{number}"})
        assert (f"/{number}/".encode() in completed.stdout) == bool(number % 2)
        codes[number] = completed.returncode

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(ask, number)
    assert codes == {number: 0 if number % 2 else 2 for number in range(8)}


def test_what_only_an_interpreter_can_do_starts_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(forks.SWITCH, "1")
    assert forks.by_fork("skerry", {}) == (sys.platform == "linux")
    assert not forks.by_fork("tests.support.pumps", {})
    assert not forks.by_fork("skerry", {"PYTHONPATH": "/elsewhere"})
    assert not forks.by_fork("skerry", {"PYTHONIOENCODING": "latin-1"})
    monkeypatch.setenv(forks.SWITCH, "0")
    assert not forks.by_fork("skerry", {})
