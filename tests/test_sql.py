"""SQL is in the store only, and is portable to other engines."""

import re
from contextlib import closing
from pathlib import Path

import pytest

from skerry.infra import sqlite
from skerry.store.schema_migrations import migrate
from tests.support.sql import (
    ENGINE,
    OTHERS,
    RULES,
    SOURCE,
    Rule,
    faults,
    files,
    literals,
    statements,
    text_of,
    travelling,
)

ROOT = SOURCE / "skerry"
SQL = re.compile(
    r"\s*(SELECT \S|INSERT INTO \w|INSERT OR |UPDATE \w+ SET |DELETE FROM \w|PRAGMA \w|VACUUM\b"
    r"|BEGIN IMMEDIATE|SAVEPOINT \w|CREATE (TABLE|VIRTUAL|TEMP|INDEX))"
)
TABLES = re.compile(r"features/\w+/tables\.py")


def test_sql_is_in_the_store_or_in_the_tables_of_a_feature() -> None:
    found = {
        file
        for file in files()
        if any(
            SQL.match(text_of(literal)) for literal in literals((ROOT / file).read_text("utf-8"))
        )
    }
    elsewhere = {one for one in found if not one.startswith("store/") and not TABLES.fullmatch(one)}
    assert elsewhere == set(OTHERS)
    assert set(ENGINE) <= set(files())


def test_statements_travel() -> None:
    found = [
        f"{file}:{line}: {why}: {text!r}"
        for file in files()
        if (file.startswith("store/") or TABLES.fullmatch(file)) and file not in ENGINE
        for line, why, text in faults((ROOT / file).read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.why)
def test_each_pattern_finds_its_fault(rule: Rule) -> None:
    source = f'"""SELECT last_insert_rowid() in words."""\nwork = f"{{x}}"\nSQL = {rule.fault!r}\n'
    assert (3, rule.why, rule.fault) in list(faults(source))


def test_sqlite_takes_every_statement_as_the_tables_are(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    found = [*travelling(), *statements("store/text_index.py")]
    assert len(found) > 200
    with closing(sqlite.connect(path)) as connection:
        migrate(connection, path)
        for statement in found:
            connection.execute(
                f"EXPLAIN {statement.sql}", (None,) * statement.sql.count("?")
            ).fetchall()
