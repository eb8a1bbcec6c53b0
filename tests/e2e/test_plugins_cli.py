"""`skerry plugins`: installs from a folder and a wheel, switches, examines and removes."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from skerry.config.source import parse_any
from tests.support.cli import run_command

CODE = """
async def run(call): return "green"
def register(api): api.register_command("tea", run, description="tea")
"""
MANIFEST = {
    "id": "tea",
    "name": "Tea",
    "version": "1.2.3",
    "description": "Tells about tea.",
    "configSchema": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind"],
        "properties": {"kind": {"enum": ["green", "black"]}, "cups": {"type": "integer"}},
    },
}


class Home:
    """A state directory, and the commands on it."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "state"
        self.state.mkdir(mode=0o700)
        self.source = folder / "tea"
        self.source.mkdir(mode=0o700)
        (self.source / "__init__.py").write_text(CODE)
        (self.source / "openclaw.plugin.json").write_text(json.dumps(MANIFEST))
        (self.source / "__pycache__").mkdir()
        (self.source / "__pycache__" / "x.pyc").write_bytes(b"x")

    async def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        environ = {
            "HOME": str(self.state),
            "PATH": os.environ["PATH"],
            "SKERRY_STATE_DIR": str(self.state),
        }
        completed = await run_command("plugins", *words, environ=environ)
        assert completed.returncode == code, (words, completed.stdout, completed.stderr)
        return completed.stdout.decode(), completed.stderr.decode()

    def section(self) -> dict[str, object]:
        file = self.state / "skerry.json"
        section: dict[str, object] = parse_any(file, file.read_text())["plugins"]
        return section


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_a_folder_is_installed_pinned_and_removed(home: Home) -> None:
    _, text = await home.run("install", str(home.source), code=1)
    assert "with all rights of the gateway" in text
    assert not (home.state / "extensions" / "tea").exists()
    await home.run("install", str(home.source), "--yes")
    copy = home.state / "extensions" / "tea"
    assert sorted(file.name for file in copy.iterdir()) == ["__init__.py", "openclaw.plugin.json"]
    info = json.loads((await home.run("info", "tea", "--json"))[0])
    assert (info["manifest"]["version"], len(info["pinned"])) == ("1.2.3", 64)
    assert info["reason"] == "config.kind: is required."
    _, again = await home.run("install", str(home.source), "--yes", code=1)
    assert "is installed" in again
    (home.state / "plugin-data" / "tea").mkdir(parents=True)
    await home.run("remove", "tea", "--data")
    assert not copy.exists()
    assert not (home.state / "plugin-data" / "tea").exists()


async def test_a_wheel_is_unpacked_and_one_that_leads_out_is_refused(home: Home) -> None:
    wheel = home.state / "tea-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tea/__init__.py", CODE)
        archive.writestr("tea-1.dist-info/METADATA", "Name: tea")
    await home.run("install", str(wheel), "--yes")
    assert (home.state / "extensions" / "tea" / "__init__.py").read_text() == CODE
    assert home.section()["entries"]
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("bad/__init__.py", CODE)
        archive.writestr("../escaped.py", CODE)
    _, text = await home.run("install", str(wheel), "--yes", code=1)
    assert "lead out of it" in text
    assert list((home.state / "extensions").iterdir()) == [home.state / "extensions" / "tea"]


@pytest.mark.requirement("memwal-install-command")
async def test_the_name_of_the_other_program_selects_our_plugin(home: Home) -> None:
    _, text = await home.run("install", "@mysten-incubation/oc-memwal")
    assert "nothing is downloaded" in text
    assert home.section()["slots"] == {"memory": "memory-memwal"}
    info = json.loads((await home.run("info", "memory-memwal", "--json"))[0])
    assert (Path(info["path"]) / "openclaw.plugin.json").is_file()
    await home.run("disable", "memory-memwal")
    assert home.section()["slots"] == {"memory": "memory-core"}
    await home.run("enable", "memory-memwal")
    assert home.section()["slots"] == {"memory": "memory-memwal"}
    await home.run("install", "@somebody/else", code=1)
    await home.run("info", "nobody", code=1)
    await home.run("remove", "memory-memwal", code=1)


@pytest.mark.requirement("plugin-manifest-requires")
async def test_what_a_manifest_requires_is_missing_by_name(home: Home) -> None:
    requires = {"bins": ["no-such-program"], "env": ["NO_SUCH_VARIABLE"], "node": ">=22"}
    manifest = {"name": "tea", "version": "1.0.0", "requires": requires}
    (home.source / "openclaw.plugin.json").write_text(json.dumps(manifest))
    await home.run("install", str(home.source), "--yes")
    out, _ = await home.run("doctor", code=1)
    assert "It needs the program no-such-program, the variable NO_SUCH_VARIABLE." in out


async def test_every_command_prints_json_for_scripts(home: Home) -> None:
    """A program is installed with its hash, switched off and on, examined and removed."""
    manifest = {
        "name": "tea",
        "version": "1.0.0",
        "process": {"command": ["./tea"], "env": ["TEA"]},
    }
    (home.source / "__init__.py").unlink()
    (home.source / "openclaw.plugin.json").write_text(json.dumps(manifest))
    (home.source / "tea").write_text("#!/bin/sh\n")
    (home.source / "tea").chmod(0o755)

    async def asked(*words: str, code: int = 0) -> Any:
        return json.loads((await home.run(*words, "--json", code=code))[0])

    refused = await asked("install", str(home.source), code=1)
    assert (refused["ok"], "Pass --yes" in str(refused)) == (False, True)
    done = await asked("install", str(home.source), "--yes")
    assert done["permissions"] == [
        "tea is a program that runs with all your rights: ./tea",
        "It receives the variables: TEA.",
    ]
    assert (Path(done["path"]) / "tea").stat().st_mode & 0o777 == 0o700
    info = await asked("info", "tea")
    assert (info["pinned"], info["sha256"]) == (done["sha256"], done["sha256"])
    assert info["manifest"]["process"]["command"] == ["./tea"]
    assert (await asked("disable", "tea"))["changed"] == {"plugins.entries.tea.enabled": False}
    assert (await asked("enable", "tea"))["changed"] == {"plugins.entries.tea.enabled": True}
    assert await asked("doctor") == []
    (Path(done["path"]) / "tea").write_text("#!/bin/sh\nexit 1\n")
    (failed,) = await asked("doctor", code=1)
    assert "a file of it has changed" in failed["reason"]
    data = home.state / "plugin-data" / "tea"
    data.mkdir(parents=True)
    assert (await asked("remove", "tea"))["data"] == str(data)
    assert (data.exists(), Path(done["path"]).exists()) == (True, False)
    assert (await asked("remove", "tea", code=1))["ok"] is False
    made = await asked("new", "kettle", "--dir", str(home.state))
    assert Path(made["path"] if "path" in made else made["folder"]).is_dir()
