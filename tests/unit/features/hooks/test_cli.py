"""`skerry hooks` as a process; no gateway is needed."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skerry.store import DATABASE

from .conftest import Command

HOOK = '---\ndescription: says hello\nmetadata: {"openclaw": {"events": ["command:new"]}}\n---\n'
CODE = "def handle(event): ...\n"


@pytest.fixture
def state(environ: dict[str, str]) -> Path:
    environ["SKERRY_GATEWAY_PORT"] = "1"
    path = Path(environ["SKERRY_STATE_DIR"])
    path.mkdir(mode=0o700)
    return path


def put(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "HOOK.md").write_text(HOOK)
    (folder / "handler.py").write_text(CODE)


def entries(state: Path) -> dict[str, dict[str, object]]:
    tree = json.loads((state / "skerry.json").read_text())
    found: dict[str, dict[str, object]] = tree["hooks"]["internal"]["entries"]
    return found


async def test_they_are_listed_switched_on_and_off(state: Path, command: Command) -> None:
    put(state / "hooks" / "greet")
    listed = (await command("hooks", "list")).stdout.decode()
    assert "disabled greet  says hello" in listed
    assert "enabled  boot-md" in listed
    on = await command("hooks", "enable", "greet")
    assert (on.returncode, entries(state)) == (0, {"greet": {"enabled": True}})
    report = json.loads((await command("hooks", "info", "greet", "--json")).stdout)
    assert (report["status"], report["events"]) == ("enabled", ["command:new"])
    assert "2 of 4 hooks run after" in (await command("hooks", "check")).stdout.decode()
    off = await command("hooks", "disable", "boot-md", "--json")
    assert json.loads(off.stdout) == {"ok": True, "hook": "boot-md", "enabled": False}
    assert entries(state)["boot-md"] == {"enabled": False}
    assert "1 of 4 hooks run after" in (await command("hooks", "check")).stdout.decode()


async def test_in_a_workspace_one_is_pinned_by_hand(state: Path, command: Command) -> None:
    put(state / "workspace" / "hooks" / "greet")
    refused = await command("hooks", "enable", "greet")
    assert refused.returncode == 1
    assert b"--pin" in refused.stderr
    assert (await command("hooks", "enable", "greet", "--pin")).returncode == 0
    digest = hashlib.sha256(CODE.encode()).hexdigest()
    assert entries(state)["greet"] == {"enabled": True, "sha256": digest}
    (state / "workspace" / "hooks" / "greet" / "handler.py").write_text("1\n")
    checked = await command("hooks", "check")
    assert checked.returncode == 1
    assert b"it has changed" in checked.stdout


@pytest.mark.usefixtures("state")
async def test_one_that_is_not_there_is_named_with_those_that_are(command: Command) -> None:
    completed = await command("hooks", "info", "nothing")
    assert completed.returncode == 1
    assert b"boot-md, command-logger, session-memory" in completed.stderr


async def test_who_wrote_its_files_is_shown_before_and_after_the_gateway_saw_them(
    state: Path, command: Command
) -> None:
    put(state / "hooks" / "greet")
    put(state / "workspace" / "hooks" / "inside")
    listed = (await command("hooks", "list")).stdout.decode()
    assert listed.count("HOOK.md: its writer is unknown") == 2
    await command("hooks", "enable", "inside", "--pin")
    shown = (await command("hooks", "info", "inside")).stdout.decode()
    assert "handler.py: pinned by its hash" in shown
    payload = {
        row["name"]: row for row in json.loads((await command("hooks", "list", "--json")).stdout)
    }
    assert payload["boot-md"]["files"] == []
    assert [file["name"] for file in payload["greet"]["files"]] == ["HOOK.md", "handler.py"]


async def test_a_database_that_cannot_be_read_is_said_so(state: Path, command: Command) -> None:
    put(state / "hooks" / "greet")
    with closing(sqlite3.connect(state / DATABASE)) as connection:
        connection.execute("CREATE TABLE other (x)")
    completed = await command("hooks", "list")
    assert completed.returncode == 1
    assert b"cannot be read" in completed.stderr
