"""Migrates the state database to the newest schema: first the kernel, then each feature."""

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from skerry.infra import sqlite
from skerry.infra.features import FEATURES
from skerry.store.state_schema import STEPS

COUNTS: Final = "feature_steps"
"""Table with one row per feature that has tables: the number of its executed steps."""
_COUNTS: Final = f"""CREATE TABLE IF NOT EXISTS {COUNTS}
    (feature TEXT PRIMARY KEY, done INTEGER NOT NULL) WITHOUT ROWID"""


@cache
def feature_steps() -> Mapping[str, Sequence[str]]:
    """Returns the migration steps of each feature that has tables."""
    return {feature.name: feature.load("tables:STEPS") for feature in FEATURES if feature.tables}


def migrate(connection: sqlite3.Connection, path: Path, *, keep: bool = True) -> None:
    """Runs the missing steps in one transaction.

    Raises:
        NewerSchemaError: a newer version of the program has run further steps.
    """
    steps_run = steps_done(connection)
    scripts = []
    for feature, steps in feature_steps().items():
        done = steps_run.get(feature, 0)
        if done > len(steps):
            raise sqlite.NewerSchemaError(done, len(steps))
        if done < len(steps):
            counted = (
                f"INSERT INTO {COUNTS} VALUES ('{feature}', {len(steps)})"  # noqa: S608 - constant names
                " ON CONFLICT (feature) DO UPDATE SET done = excluded.done"
            )
            scripts += [_COUNTS, *steps[done:], counted]
    sqlite.migrate(connection, path, STEPS, then=scripts, keep=keep)


def expected(connection: sqlite3.Connection, version: int, steps_run: Mapping[str, int]) -> None:
    """Creates the schema of a version, and of these numbers of feature steps, in an empty file."""
    for step in STEPS[:version]:
        connection.executescript(step)
    if steps_run:
        connection.executescript(_COUNTS)
    for feature, count in steps_run.items():
        for step in feature_steps().get(feature, ())[:count]:
            connection.executescript(step)


def steps_done(connection: sqlite3.Connection) -> dict[str, int]:
    """Returns the number of executed steps of each feature."""
    exists = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?"
    if connection.execute(exists, (COUNTS,)).fetchone() is None:
        return {}
    return dict(connection.execute(f"SELECT feature, done FROM {COUNTS}"))  # noqa: S608 - a constant name
