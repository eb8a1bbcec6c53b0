"""The README's other ways to install: from a clone, as a command for every folder."""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import anyio
import pytest

from scripts.requirements import ROOT

pytestmark = [pytest.mark.full("uv, pipx and a package index"), pytest.mark.timeout(1200)]

INSTALL_SECONDS = 900
"""For some thirty packages from an index."""
AWAY = re.compile(
    r"name resolution|dns error|failed to (?:fetch|connect)|could not fetch"
    r"|connection (?:error|refused|timed)|no matching distribution|network is unreachable"
    r"|client error \(connect\)",
    re.IGNORECASE,
)
"""What uv and pip say where no index can be reached."""


async def run(
    words: list[str], folder: Path, environ: Mapping[str, str], seconds: float = 120
) -> CompletedProcess[bytes]:
    with anyio.fail_after(seconds):
        return await anyio.run_process(words, cwd=folder, env=environ, check=False)


@pytest.mark.parametrize("tool", ["uv", "pipx"])
async def test_from_a_clone_it_becomes_a_command_for_every_folder(
    tool: str, tmp_path: Path
) -> None:
    program = shutil.which(tool)
    if program is None:
        pytest.skip(f"{tool} is not installed here")
    clone, elsewhere, bins = tmp_path / "skerry", tmp_path / "elsewhere", tmp_path / "bin"
    elsewhere.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SKERRY_")}
    environ = kept | {
        "HOME": str(tmp_path),
        "UV_TOOL_DIR": str(tmp_path / "uv"),
        "UV_TOOL_BIN_DIR": str(bins),
        "UV_PYTHON": sys.executable,
        "PIPX_HOME": str(tmp_path / "pipx"),
        "PIPX_BIN_DIR": str(bins),
        "PIPX_DEFAULT_PYTHON": sys.executable,
        "SKERRY_STATE_DIR": str(tmp_path / "state"),
        "SKERRY_GATEWAY_PORT": "1",
    }
    await run(["git", "clone", "--quiet", "--depth=1", ROOT.as_uri(), str(clone)], ROOT, environ)
    (line,) = re.findall(r"^uv tool install \.", (clone / "README.md").read_text(), re.MULTILINE)
    words = line.split() if tool == "uv" else ["pipx", "install", "."]
    completed = await run([program, *words[1:]], clone, environ, INSTALL_SECONDS)
    text = (completed.stdout + completed.stderr).decode(errors="replace")
    if completed.returncode and AWAY.search(text):
        pytest.skip(f"no package index can be reached: {text.strip().splitlines()[-1][:200]}")
    assert completed.returncode == 0, text
    skerry = str(bins / "skerry")
    shown = await run([skerry, "--help"], elsewhere, environ)
    assert (shown.returncode, shown.stdout.startswith(b"usage: skerry")) == (0, True), shown
    status = await run([skerry, "models", "list", "--offline", "--json"], elsewhere, environ)
    assert (status.returncode in {0, 1}, b"Traceback" in status.stderr) == (True, False), status
    assert str(ROOT).encode() not in status.stdout + status.stderr
