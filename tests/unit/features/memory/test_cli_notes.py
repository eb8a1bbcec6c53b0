"""`skerry memory search|get|write|undo` as processes."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

from skerry.model.memory import MemoryFallback
from skerry.testing.memory import FakeBackend, hit
from tests.support.cli import run_command
from tests.support.gateway import TOKEN, Rig, running_gateway
from tests.support.memory import memory_rig


async def skerry(rig: Rig, *arguments: str) -> CompletedProcess[bytes]:
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    home = str(rig.context.config().state_dir)
    environ = kept | {
        "HOME": home,
        "SKERRY_STATE_DIR": home,
        "SKERRY_GATEWAY_URL": f"ws://127.0.0.1:{rig.port}",
        "SKERRY_GATEWAY_TOKEN": TOKEN,
    }
    return await run_command("memory", *arguments, environ=environ)


async def test_a_person_finds_reads_and_is_told_why(tmp_path: Path) -> None:
    backend = FakeBackend(
        [hit("memory/a.md", "Mill\x1b[31m Road\nno. 7", lines=(2, 3))],
        fallback=MemoryFallback("qmd", "it does not answer"),
    )
    here = memory_rig(tmp_path / "home", backend)
    here.put("memory/a.md", "one\nMill Road\nno. 7\nfour\n")
    async with running_gateway(tmp_path, memory=here.service) as rig:
        completed = await skerry(rig, "search", "dentist", "--explain", "--since", "2026-01-01")
        assert completed.stdout.decode() == (
            "1. memory/a.md#L2-L3  0.900\n   Mill[31m Road\n   no. 7\n      0.9000  text"
            "         how well its words fit\n\n"
        )
        assert b"Only words" in completed.stderr
        assert b"qmd: it does not answer" in completed.stderr
        assert backend.questions[0].since is not None
        assert backend.questions[0].explain
        lines = await skerry(rig, "get", "memory/a.md#L2-L3")
        assert lines.stdout == b"Mill Road\nno. 7\n"
        listed = await skerry(rig, "search", "dentist", "--json")
        assert json.loads(listed.stdout)["results"][0]["path"] == "memory/a.md"
        backend.hits = []
        assert b"No hits" in (await skerry(rig, "search", "dentist")).stdout
        refused = await skerry(rig, "get", "USER.md")
        assert (refused.returncode, b"not in the memory" in refused.stderr) == (1, True)


async def test_no_words_are_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as rig:
        for action in ("search", "write"):
            refused = await skerry(rig, action, "  ")
            assert (refused.returncode, b"the text is empty" in refused.stderr) == (2, True)


async def test_a_person_notes_and_takes_it_back(tmp_path: Path) -> None:
    here = memory_rig(tmp_path / "home")
    async with running_gateway(tmp_path, memory=here.service) as rig:
        text = (await skerry(rig, "write", "Mia likes tea.", "--section", "People")).stdout.decode()
        assert text.startswith("Noted in MEMORY.md, line 3. To remove it: skerry memory undo ")
        name = text.split()[-1]
        undone = await skerry(rig, "undo", name)
        assert undone.stdout == b"Removed from MEMORY.md: Mia likes tea.\n"
        again = await skerry(rig, "undo", name)
        assert (again.returncode, b"does not exist" in again.stderr) == (1, True)
