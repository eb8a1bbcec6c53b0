"""Tables of a plugin: a SQLite database of its own, migrated when it is opened."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from skerry.infra import sqlite
from skerry.infra.supervise import in_daemon_thread
from skerry.model.errors import PluginError
from skerry.store.engine import transaction
from skerry.store.unit import Reader, Unit

__all__ = ("Database", "Reader", "Unit")

T = TypeVar("T")
FILE: Final = "tables.sqlite"


class Database:
    """The tables of one plugin; `PluginApi.database` returns them.

    They are in `tables.sqlite` in the data folder of the plugin, so that a plugin can neither block
    nor damage the state of the gateway. Calls run one after another.
    """

    def __init__(self, folder: Path, steps: Sequence[str]) -> None:
        self._path = folder / FILE
        self._steps = tuple(steps)
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    async def read(self, work: Callable[[Reader], T]) -> T:
        """Runs `work` in a thread, and returns its result or raises its exception.

        `work` reads with the `Reader`: `reader.one(sql, values)`, `reader.all(sql, values)`.

        Raises:
            PluginError: the tables cannot be opened.
            sqlite3.Error: a statement failed.
        """
        return await in_daemon_thread(partial(self._run, work), "read plugin tables")

    async def write(self, work: Callable[[Unit], T]) -> T:
        """Runs `work` in a thread and a transaction; returns its result after the COMMIT.

        When `work` raises, its changes are rolled back and the exception is raised.

        Raises:
            PluginError: the tables cannot be opened.
            sqlite3.Error: a statement failed.
        """
        return await in_daemon_thread(partial(self._run, work), "write plugin tables")

    def close(self) -> None:
        """Closes the file; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _run(self, work: Callable[[Unit], T]) -> T:
        with self._lock, transaction(self._connection or self._open()) as unit:
            return work(unit)

    def _open(self) -> sqlite3.Connection:
        connection = sqlite.connect(self._path)
        try:
            sqlite.migrate(connection, self._path, self._steps)
        except sqlite.NewerSchemaError as error:
            connection.close()
            message = f"{self._path} has run {error.version} steps; the plugin has {error.newest}."
            raise PluginError(message, "Install the newer version of the plugin again.") from error
        except sqlite3.Error as error:
            connection.close()
            raise PluginError(f"{self._path} cannot be migrated: {error}.") from error
        self._connection = connection
        return connection
