"""Migrations of the tables of features."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType

import pytest

from skerry.infra.features import Feature
from skerry.infra.sqlite import NewerSchemaError
from skerry.store import restore_guard, schema_migrations
from skerry.store.schema_migrations import migrate

FIRST = "CREATE TABLE pond (name TEXT PRIMARY KEY)"
SECOND = "ALTER TABLE pond ADD COLUMN depth INTEGER NOT NULL DEFAULT 1"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Creates the module `tables` of a feature, with one step."""
    module = ModuleType("skerry.features.pond.tables")
    vars(module)["STEPS"] = (FIRST,)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(schema_migrations, "FEATURES", (Feature("pond", tables=True),))
    schema_migrations.feature_steps.cache_clear()
    yield module
    schema_migrations.feature_steps.cache_clear()


def migrated(path: Path) -> list[tuple[object, ...]]:
    """Migrates the file; returns the rows of the pond."""
    schema_migrations.feature_steps.cache_clear()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        migrate(connection, path, keep=False)
        return connection.execute("SELECT * FROM pond").fetchall()


def test_each_step_of_a_feature_is_run_once(tables: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    assert migrated(path) == []
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("INSERT INTO pond VALUES ('mill')")
    assert migrated(path) == [("mill",)]
    vars(tables)["STEPS"] = (FIRST, SECOND)
    assert migrated(path) == [("mill", 1)]
    assert restore_guard.foreign(path) == ""


def test_a_newer_database_is_refused(tables: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    vars(tables)["STEPS"] = (FIRST, SECOND)
    migrated(path)
    vars(tables)["STEPS"] = (FIRST,)
    with pytest.raises(NewerSchemaError):
        migrated(path)


def test_a_table_that_no_step_made_is_foreign(tables: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    vars(tables)["STEPS"] = (FIRST,)
    migrated(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE pond_of_others (name TEXT)")
    assert "pond_of_others" in restore_guard.foreign(path)


def test_a_database_with_tables_of_a_feature_that_is_gone_is_foreign(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.sqlite"
    vars(tables)["STEPS"] = (FIRST,)
    migrated(path)
    monkeypatch.setattr(schema_migrations, "FEATURES", ())
    schema_migrations.feature_steps.cache_clear()
    assert "pond" in restore_guard.foreign(path)
