"""PostgreSQL prepares every statement about the state, over the tables of the newest version."""

import json
import re
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from skerry.infra import sqlite
from skerry.store.schema_migrations import migrate
from tests.support.mocks import program
from tests.support.sql import Statement, postgres_tables, travelling

pytestmark = pytest.mark.full("PostgreSQL")

PREPARE = Path(__file__).parent / "postgres" / "prepare.py"


def told(tables: list[str], statements: list[str]) -> dict[str, Any]:
    python = program("SKERRY_POSTGRES_PYTHON", ".venv-postgres/bin/python")
    completed = subprocess.run(
        [python, str(PREPARE)],
        input=json.dumps({"tables": tables, "statements": statements}),
        text=True,
        stdout=subprocess.PIPE,
        check=True,
    )
    payload: dict[str, Any] = json.loads(completed.stdout)
    return payload


def numbered(sql: str) -> str:
    """Returns the statement on one line, with the placeholders of PostgreSQL."""
    parts = " ".join(sql.split()).split("?")
    return parts[0] + "".join(f"${at}{part}" for at, part in enumerate(parts[1:], 1))


def test_postgresql_prepares_every_statement(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    with closing(sqlite.connect(path)) as connection:
        migrate(connection, path)
        tables = list(postgres_tables(connection))
    statements: list[Statement] = list(travelling())
    wrong = ["SELECT iif(tail > 0, 1, 2) FROM session", "SELECT nothing FROM session"]
    result = told(tables, [*(numbered(statement.sql) for statement in statements), *wrong])
    assert re.match(r"1[6-9]|[2-9]\d", result["version"])
    assert result["tables"] == {}
    errors = {int(at): why for at, why in result["statements"].items()}
    assert {len(statements), len(statements) + 1} <= set(errors)
    assert [(statements[at], why) for at, why in errors.items() if at < len(statements)] == []
