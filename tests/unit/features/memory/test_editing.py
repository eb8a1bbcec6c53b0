"""Tests of listing, reading and replacing whole files of the memory."""

import os
from pathlib import Path

import pytest

from skerry.features.memory.editing import (
    MAX_BYTES,
    ChangedError,
    SaveError,
    listed,
    read_whole,
    save,
)
from skerry.features.memory.reading import NotMemoryError
from skerry.model.memory import MemoryFile, MemorySource


def test_files_are_listed_as_they_are_now_with_what_is_indexed_of_them(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "MEMORY.md").write_text("# Long\n")
    (tmp_path / "memory" / "2026-11-22.md").write_text("- today\n")
    (tmp_path / "memory" / "notes.txt").write_text("none of it")
    indexed = [
        MemoryFile("MEMORY.md", MemorySource.MEMORY, 1, 1, passages=3),
        MemoryFile("memory/gone.md", MemorySource.MEMORY, 1, 1, passages=9),
        MemoryFile("sessions/a.md", MemorySource.SESSIONS, 5, 7, passages=2, session="agent:main"),
    ]
    found = {
        memory_file.path: memory_file for memory_file in listed(tmp_path, ["missing"], indexed)
    }
    assert list(found) == ["MEMORY.md", "memory/2026-11-22.md", "missing", "sessions/a.md"]
    assert (found["MEMORY.md"].passages, found["MEMORY.md"].size) == (3, 7)
    day = found["memory/2026-11-22.md"]
    assert (day.day, day.passages) == ("2026-11-22", None)
    assert found["missing"].error
    assert found["sessions/a.md"].session == "agent:main"


def test_a_file_is_replaced_only_while_it_is_as_it_was_read(tmp_path: Path) -> None:
    place = (tmp_path, "MEMORY.md")
    assert read_whole(place, "MEMORY.md", None).hash == ""
    first = save(place, "MEMORY.md", "one\n", "", None)
    assert first.is_new
    assert read_whole(place, "MEMORY.md", None).hash == first.hash
    with pytest.raises(ChangedError, match="was changed"):
        save(place, "MEMORY.md", "two\n", "", None)
    second = save(place, "MEMORY.md", "two\n", first.hash, None)
    assert not second.is_new
    with pytest.raises(ChangedError):
        save(place, "MEMORY.md", "three\n", first.hash, None)
    (tmp_path / "MEMORY.md").unlink()
    with pytest.raises(ChangedError):
        save(place, "MEMORY.md", "three\n", second.hash, None)
    assert list(tmp_path.iterdir()) == []


def test_line_ends_stay_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_bytes(b"one\r\ntwo\r\n")
    place = (tmp_path, "MEMORY.md")
    base = read_whole(place, "MEMORY.md", None).hash
    saved = save(place, "MEMORY.md", "one\nthree\n", base, None)
    assert (tmp_path / "MEMORY.md").read_bytes() == b"one\r\nthree\r\n"
    assert read_whole(place, "MEMORY.md", None).hash == saved.hash


def test_links_large_files_and_what_is_no_text_are_refused(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    inside.mkdir()
    outside.write_text("secret")
    (inside / "MEMORY.md").symlink_to(outside)
    place = (inside, "MEMORY.md")
    with pytest.raises(NotMemoryError, match="symbolic link"):
        read_whole(place, "MEMORY.md", None)
    with pytest.raises(SaveError, match="symbolic link"):
        save(place, "MEMORY.md", "x", "", None)
    assert outside.read_text() == "secret"
    (inside / "MEMORY.md").unlink()
    os.link(outside, inside / "MEMORY.md")
    with pytest.raises(SaveError, match="hard link"):
        save(place, "MEMORY.md", "x", "", None)
    (inside / "MEMORY.md").unlink()
    (inside / "MEMORY.md").write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(NotMemoryError, match="1 MiB"):
        read_whole(place, "MEMORY.md", None)
    (inside / "MEMORY.md").write_bytes(b"\xff")
    with pytest.raises(NotMemoryError, match="UTF-8 at byte 0"):
        read_whole(place, "MEMORY.md", None)
    for text in ("\0", "\ud800", "ä" * MAX_BYTES):
        with pytest.raises(SaveError):
            save(place, "MEMORY.md", text, "", None)
    with pytest.raises(SaveError, match="A new file is"):
        save((tmp_path, "outside.md"), "/else/outside.md", "x", "", None)
