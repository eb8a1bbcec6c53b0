"""`skerry memory files` and `doctor` as processes."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

from skerry.testing.memory import FakeBackend, hit
from tests.support.cli import run_command
from tests.support.gateway import running_gateway
from tests.support.memory import memory_rig
from tests.unit.features.memory.test_cli_notes import skerry


async def test_files_are_listed_and_the_memory_is_checked(tmp_path: Path) -> None:
    here = memory_rig(tmp_path / "home", FakeBackend([hit()]))
    async with running_gateway(tmp_path, memory=here.service) as rig:
        assert b"The memory is empty" in (await skerry(rig, "files")).stdout
        here.put("MEMORY.md", "- tea\n")
        here.put("memory/2026-11-20.md", "- rain\n")
        listed = (await skerry(rig, "files")).stdout.decode()
        assert "MEMORY.md" in listed
        assert "not indexed yet" in listed
        few = await skerry(rig, "files", "--limit", "1")
        assert b"1 older files are not shown" in few.stderr
        report = json.loads((await skerry(rig, "files", "--json")).stdout)
        assert [file["path"] for file in report["files"]] == ["MEMORY.md", "memory/2026-11-20.md"]
        checked = await skerry(rig, "doctor", "--json")
        assert checked.returncode == 0
        assert "memory answers" in {row["name"] for row in json.loads(checked.stdout)}
        refused = await skerry(rig, "doctor", "--agent", "nobody")
        assert (refused.returncode, b"no agent 'nobody'" in refused.stderr) == (1, True)


async def alone(home: Path, *words: str) -> CompletedProcess[bytes]:
    environ = {**os.environ, "SKERRY_STATE_DIR": str(home), "SKERRY_GATEWAY_PORT": "1"}
    return await run_command("memory", *words, environ=environ)


async def test_without_a_gateway_files_are_listed_too(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "MEMORY.md").write_text("- tea\n")
    listed = await alone(tmp_path, "files", "--source", "memory", "--json")
    assert [file["path"] for file in json.loads(listed.stdout)["files"]] == ["MEMORY.md"]
