"""A large tree is not looked into before each search, and a hand's edit is in the next one."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skerry.features.memory import file_changes as module
from skerry.features.memory.folder_watch import Watch
from skerry.features.memory.index import Index
from skerry.features.memory.index_settings import MemoryPaths
from skerry.features.memory.indexer import IndexSettings
from skerry.features.memory.markdown_files import scan
from skerry.infra.clock import SystemClock

linux = pytest.mark.skipif(sys.platform != "linux", reason="inotify is of Linux")


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


@linux
def test_each_change_of_a_note_is_told_once_and_nothing_else_is(
    watch: Watch, tmp_path: Path
) -> None:
    assert not watch.is_quiet()
    assert watch.cover([str(tmp_path)])
    assert not watch.cover([str(tmp_path)])
    assert watch.is_quiet()
    note = tmp_path / "a.md"

    def told() -> bool:
        return not watch.is_quiet()

    note.write_text("one")
    assert told()
    assert not told()
    with note.open("r+") as file:
        file.write("two")
    assert told()
    os.utime(note, ns=(1, 1))
    assert told()
    (tmp_path / "log.txt").write_text("x")
    assert not told()
    (tmp_path / "b.md").symlink_to(note)
    assert told()
    note.rename(tmp_path / "c.md")
    assert told()
    (tmp_path / "folder").mkdir()
    assert told()
    (tmp_path / "c.md").unlink()
    assert told()


def test_what_cannot_be_watched_is_never_quiet(watch: Watch, tmp_path: Path) -> None:
    assert not watch.cover([str(tmp_path / "nowhere")])
    assert not watch.covers
    assert not watch.is_quiet()


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    monkeypatch.setattr(module, "WATCHED", 3)
    notes = tmp_path / "workspace" / "memory" / "deep"
    notes.mkdir(parents=True)
    for number in range(5):
        (notes / f"{number}.md").write_text(f"Note {number}.")
    made = Index(
        tmp_path / "main.sqlite", IndexSettings(MemoryPaths(tmp_path / "workspace")), SystemClock()
    )
    assert made.freshen(1)
    yield made
    made.close()


def texts(index: Index) -> set[str]:
    assert index.freshen(1)
    with index.tables() as tables:
        return {passage.text for passage in tables.passages()}


def test_whatever_a_hand_does_is_in_the_next_search(large: Index, tmp_path: Path) -> None:
    memory = tmp_path / "workspace" / "memory"
    assert len(texts(large)) == 5
    with (memory / "deep" / "0.md").open("r+") as file:
        file.write("Mote")
    assert "Mote 0." in texts(large)
    (memory / "new").mkdir()
    (memory / "new" / "a.md").write_text("In a new folder.")
    assert "In a new folder." in texts(large)
    (memory / "new" / "a.md").write_text("Changed there.")
    assert "Changed there." in texts(large)
    (tmp_path / "workspace" / "MEMORY.md").write_text("Lasting.")
    assert "Lasting." in texts(large)
    (memory / "deep").rename(memory / "deeper")
    (memory / "deeper" / "1.md").write_text("Moved and changed.")
    assert "Moved and changed." in texts(large)
    (memory / "deeper" / "2.md").unlink()
    assert "Note 2." not in texts(large)


@linux
def test_while_nothing_changes_nothing_is_looked_into(
    large: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[object] = []

    def counted(places: MemoryPaths) -> object:
        looks.append(places)
        return scan(places)

    monkeypatch.setattr(module, "scan", counted)
    for _ in range(5):
        assert large.freshen(1)
    assert len(looks) <= 1  # what was read within the clock's grain is looked at once more


def test_without_a_watch_every_search_looks(
    large: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "cover", lambda *_: False)
    monkeypatch.setattr(Watch, "changed", lambda *_: None)
    (tmp_path / "workspace" / "memory" / "deep" / "0.md").write_text("Again.")
    assert "Again." in texts(large)
