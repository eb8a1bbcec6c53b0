"""Runs of QMD's programs that hang, flood or crash, as errors that a person can read."""

import os
from pathlib import Path

import anyio
import pytest

from skerry.features.memory.qmd_process import QmdError, checked, run
from skerry.infra.process import Finished


async def sh(folder: Path, script: str, *, seconds: float = 60) -> Finished:
    environ = {"PATH": os.environ["PATH"]}
    return await run(["/bin/sh", "-c", script], environ=environ, folder=folder, seconds=seconds)


async def test_it_tells_what_was_printed_and_how_it_ended(tmp_path: Path) -> None:
    finished = await sh(tmp_path, "echo out; echo some  words >&2; exit 3")
    assert finished == Finished(3, b"out\n", "some words")
    with pytest.raises(QmdError, match="qmd update failed with code 3: some words"):
        checked(finished, "qmd update")


@pytest.mark.requirement("qmd-timeouts")
async def test_what_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    hangs = "sleep 600 & echo $! > stays; sleep 600"
    with anyio.fail_after(60), pytest.raises(QmdError, match=r"did not end within 0\.5 s"):
        await sh(tmp_path, hangs, seconds=0.5)
    path = Path("/proc") / (tmp_path / "stays").read_text("utf-8").strip() / "cmdline"
    with anyio.fail_after(60):
        while path.exists() and path.read_bytes():  # noqa: ASYNC110 - another process
            await anyio.sleep(0.01)


async def test_what_prints_without_end_is_stopped(tmp_path: Path) -> None:
    with anyio.fail_after(60), pytest.raises(QmdError, match="more than 200000 bytes"):
        await sh(tmp_path, "yes")
    finished = await sh(tmp_path, "yes | head -c 100000 >&2; echo the end >&2")
    assert len(finished.err) <= 600
    assert finished.err.endswith("the end")


@pytest.mark.parametrize("script", ["kill -SEGV $$", "exit 139"])
async def test_a_crash_is_named(tmp_path: Path, script: str) -> None:
    with pytest.raises(QmdError, match=r"crashed \(segmentation fault\)"):
        checked(await sh(tmp_path, script), "qmd query")
    with pytest.raises(QmdError, match="ended by signal 15"):
        checked(await sh(tmp_path, "kill $$"), "qmd query")


async def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(QmdError, match="cannot be started"):
        await run(["x"], environ={}, folder=tmp_path / "no", seconds=5)
