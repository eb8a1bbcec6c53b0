"""Opens the SQLite files of the relayer: durable commits, overwritten deletions, private modes."""

import os
import sqlite3
from pathlib import Path
from typing import Final

BUSY_MILLISECONDS: Final = 5000
PRIVATE: Final = 0o600
FOLDER: Final = 0o700


def private_folder(path: Path) -> Path:
    """Makes a folder that only its user may enter; returns it."""
    path.mkdir(FOLDER, parents=True, exist_ok=True)
    path.chmod(FOLDER)
    return path


def connect(path: Path, *, thread_bound: bool = True) -> sqlite3.Connection:
    """Opens a database in autocommit mode, whose commits survive a power failure."""
    private_folder(path.parent)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, PRIVATE))
    connection = sqlite3.connect(
        path,
        timeout=BUSY_MILLISECONDS / 1000,
        isolation_level=None,
        check_same_thread=thread_bound,
    )
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


def migrate(connection: sqlite3.Connection, steps: tuple[str, ...]) -> None:
    """Runs the missing steps of the schema; `user_version` counts the finished ones.

    Raises:
        ValueError: a newer program made the file.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(steps):
        return
    if version > len(steps):
        raise ValueError(
            f"The database has schema {version}, this program knows up to {len(steps)}: "
            "a newer version wrote it. Install that version."
        )
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for number, step in enumerate(steps[version:], version + 1):
            for statement in filter(str.strip, step.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
