"""Deleted text between cells of SQLite is found, and no search runs without any."""

import random
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skerry.features.memory.residue import MAX_FRAGMENTS, gaps, has_residue

MARK = re.compile(rb"<mark\d{7}>")


@pytest.fixture(scope="module")
def churned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, set[bytes]]:
    """A file whose rows came and went, with `secure_delete`; and the marks of rows that are there.

    SQLite 3.40 to 3.46 leave copies of a few of the others.
    """
    path = tmp_path_factory.mktemp("churned") / "rows.sqlite"
    chance = random.Random(3)  # noqa: S311 - the same rows each time, not a secret
    live: dict[int, int] = {}
    with closing(sqlite3.connect(path, isolation_level=None)) as rows:
        rows.execute("PRAGMA secure_delete = ON")
        rows.execute("PRAGMA synchronous = OFF")
        rows.execute("CREATE TABLE c (id INTEGER PRIMARY KEY AUTOINCREMENT, f INT, content TEXT)")
        rows.execute("CREATE INDEX ci ON c (f)")
        for mark in range(1, 9001):
            if mark % 5 == 1:
                rows.execute("BEGIN")
            text = "".join(chance.choices("abcdefghij ", k=chance.randint(20, 900)))
            row = (chance.randint(0, 50), f"<mark{mark:07d}>{text}<mark{mark:07d}>")
            added = rows.execute("INSERT INTO c (f, content) VALUES (?, ?)", row)
            live[mark] = added.lastrowid or 0
            if mark % 5 == 0:
                for gone in chance.sample(sorted(live), 4 if mark > 1000 else 1):
                    rows.execute("DELETE FROM c WHERE id = ?", (live.pop(gone),))
                rows.execute("COMMIT")
    return path, {b"<mark%07d>" % one for one in live}


def test_each_copy_of_a_row_that_was_deleted_is_found(churned: tuple[Path, set[bytes]]) -> None:
    path, live = churned
    stale = set(MARK.findall(path.read_bytes())) - live
    rows = {text for gap in gaps(path) for text in MARK.findall(gap)}
    assert stale <= rows
    assert all(has_residue(path, [one]) for one in stale)


def test_what_is_in_rows_alone_or_nowhere_is_not_found(churned: tuple[Path, set[bytes]]) -> None:
    path, live = churned
    rows = {text for gap in gaps(path) for text in MARK.findall(gap)}
    here = sorted(live - rows)[:20]
    assert here
    assert not has_residue(path, here)
    assert not has_residue(path, [b"<mark9999999>"])


def test_of_too_many_texts_none_is_looked_for(churned: tuple[Path, set[bytes]]) -> None:
    path, _ = churned
    assert has_residue(path, [b"<mark9999999>"] * (MAX_FRAGMENTS + 1))


def test_an_empty_file_has_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "none").touch()
    assert not has_residue(tmp_path / "none", [b"zebra"])
