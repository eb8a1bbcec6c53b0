"""Modules that a gateway must not import at its start, because of the budgets of a start."""

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ARENA = 64 << 20
LIBRARIES = (
    "Stemmer",
    "click",
    "llama_cpp",
    "multiprocessing",
    "numpy",
    "simsimd",
    "uvicorn.main",
    "uvicorn.supervisors",
    "watchfiles",
)
OURS = (
    "skerry.app.commands",
    "skerry.client",
    "skerry.gateway.connection",
    "skerry.gateway.handshake",
    "skerry.gateway.methods.chat",
    "skerry.features.sessions.methods",
    "skerry.features.memory.recall_hook",
    "skerry.features.memory.tools",
    "skerry.features.memory.chat_commands",
    "skerry.features.memory.checks",
    "skerry.features.memory.methods",
    "skerry.plugins.loader",
    "skerry.store.backups",
    "skerry.store.transcript_search",
    "skerry.tools",
    "skerry_recall.collection",
    "skerry_recall.embed",
    "skerry_recall.fuse",
    "skerry_recall.local",
    "skerry_recall.postings",
    "skerry_recall.terms",
)


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Returns the modules that a gateway has imported when it is ready."""
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-X", "importtime", "-m", "skerry", "gateway", "run", "--port", "0"]
    report = home / "imports"
    with (
        report.open("w", encoding="utf-8") as errors,
        subprocess.Popen(
            command,
            env={"HOME": str(home), "SKERRY_STATE_DIR": str(home)},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        ready = any(line.startswith("ready ws://") for line in process.stdout)
        found = _names(report)
        process.terminate()
    assert ready
    return found


def _names(report: Path) -> set[str]:
    lines = report.read_text("utf-8")
    return set(re.findall(r"^import time: +\d+ \| +\d+ \| +(\S+)$", lines, re.MULTILINE))


@pytest.mark.parametrize("name", [*LIBRARIES, *OURS])
def test_a_start_does_without(imported: set[str], name: str) -> None:
    assert "skerry.gateway.listen" in imported
    assert [one for one in sorted(imported) if one == name or one.startswith(f"{name}.")] == []


def test_the_threads_of_a_gateway_take_memory_from_two_arenas(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "skerry", "gateway", "run", "--port", "0"],
        env={"HOME": str(tmp_path), "SKERRY_STATE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any(line.startswith("ready ws://") for line in process.stdout)
        maps = Path(f"/proc/{process.pid}/maps")
        beside = _arenas(maps.read_text("utf-8")) if maps.exists() else 0
        process.terminate()
    assert beside <= 1  # and the one of the main thread


def _arenas(maps: str) -> int:
    """Returns the number of arenas of glibc besides the first; each reserves 64 MB."""
    rows = [line.replace("-", " ", 1).split()[:3] for line in maps.splitlines()]
    spans = [(int(begin, 16), int(end, 16), kind) for begin, end, kind in rows]
    return sum(
        begin % ARENA == 0 and kind[:2] == "rw" and rest[:2] == "--" and last == begin + ARENA
        for (begin, _, kind), (_, last, rest) in pairwise(spans)
    )
