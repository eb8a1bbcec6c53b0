"""A purge also removes data that was deleted before deletions were overwritten."""

import sqlite3
from contextlib import closing
from pathlib import Path

from skerry.store import DATABASE, open_store


def holding(folder: Path, text: bytes) -> list[str]:
    return [path.name for path in folder.iterdir() if path.is_file() and text in path.read_bytes()]


async def test_a_purge_leaves_nothing_in_free_places_of_an_older_file(tmp_path: Path) -> None:
    async with open_store(tmp_path / DATABASE):
        pass
    with closing(sqlite3.connect(tmp_path / DATABASE)) as older:
        older.execute("PRAGMA secure_delete = OFF")
        older.execute("CREATE TABLE note (text TEXT)")
        older.executemany(
            "INSERT INTO note VALUES (?)", [(f"zebra quokka {n}",) for n in range(99)]
        )
        older.commit()
        older.execute("DELETE FROM note")
        older.execute("DROP TABLE note")
        older.commit()
        older.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert holding(tmp_path, b"zebra quokka") == [DATABASE], "the deleted text must be in the file"
    async with open_store(tmp_path / DATABASE) as store:
        await store.purge()
        assert holding(tmp_path, b"zebra quokka") == []
