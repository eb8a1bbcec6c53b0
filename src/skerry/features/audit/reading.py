"""Reads the audit log from the database, with or without a running gateway."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from skerry.infra import sqlite
from skerry.model.errors import StateError
from skerry.store import DATABASE, Reader

T = TypeVar("T")


def read(state_dir: Path, work: Callable[[Reader], T]) -> T | None:
    """Returns the result of `work`; None when the log does not exist yet.

    Raises:
        StateError: the database cannot be read.
    """
    file = state_dir / DATABASE
    if not file.exists():
        return None
    try:
        with closing(sqlite.connect(file, read_only=True)) as connection:
            return work(Reader(connection))
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):  # an older version wrote the database
            return None
        raise StateError(f"{file} cannot be read: {error}.") from error
    except sqlite3.DatabaseError as error:
        raise StateError(f"{file} cannot be read: {error}.") from error
