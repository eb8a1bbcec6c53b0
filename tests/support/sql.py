"""Every SQL statement of the source, and the faults of those that only SQLite understands."""

import ast
import importlib
import re
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from skerry.store import forgetting_tables, session_listing, usage

SOURCE: Final = Path("src")
_STATEMENT: Final = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|WITH \w+ AS) ?")
_FRAGMENT: Final = re.compile(
    r"\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|ORDER BY|GROUP BY|LIMIT|VALUES|PRAGMA|VACUUM"
    r"|SAVEPOINT|COMMIT|ROLLBACK|BEGIN|CASE WHEN|IS NULL|IS NOT|IN \()(?![a-z])|\?"
    r"|\b(sum|max|min|total|coalesce|iif|ifnull|json_\w+)\("
)

ENGINE: Final = MappingProxyType(
    {
        "store/engine.py": "pragmas, one unit beside a gateway, the file that is written anew",
        "store/text_index.py": "FTS5",
        "store/writer.py": "the transaction of a batch",
        "store/unreadable_entries.py": "texts that are none, which only SQLite stores",
        "store/state_schema.py": "migrations of SQLite files, which are never edited",
        "store/state_schema_later.py": "the same",
        "store/salvage.py": "reads a damaged SQLite file",
        "store/schema_migrations.py": "runs the migrations of a SQLite file",
        "store/restore_guard.py": "compares the schema of a SQLite file",
        "store/restore.py": "puts one SQLite file in the place of another",
        "store/openclaw_databases.py": "reads the SQLite file of another program",
    }
)
"""Files of the store that are of SQLite, and why: nothing in them travels."""
OTHERS: Final = MappingProxyType(
    {
        "infra/sqlite.py": "opens and migrates files",
        "features/memory/database.py": "the index of the memory, which can be made again",
        "features/memory/index_schema.py": "the same",
        "features/memory/index_tables.py": "the same",
        "features/memory/vector_rows.py": "the same",
        "features/memory/bench/baseline.py": "what the memory is measured beside",
    }
)
"""Files outside the store that have SQL, and why."""

BOOLEANS: Final = frozenset(
    {
        ("session", "current"),
        ("session", "aborted_last_run"),
        ("session", "pinned"),
        ("run", "settled"),
        ("run", "noticed"),
        ("outbox", "repeated"),
        ("forgetting", "extra"),
        ("model_call", "counted"),
        ("model_call", "folded"),
        ("approval", "owed"),
    }
)
"""Columns that are BOOLEAN where there is such a type."""

_TWO: Final = "?, ?"
CHOICES: Final[Mapping[str, Mapping[str, list[Any]]]] = MappingProxyType(
    {
        "store/devices.py": {"of_one": ["", " WHERE device_id = ?"]},
        "store/forgetting.py": {
            "table": list(forgetting_tables.tables()),
            "agent": [None, "main"],
        },
        "store/frozen_prompt.py": {
            "condition": ["session_id = ?", "session_id = ? AND audience = ?"]
        },
        "store/session_listing.py": {
            "clause": [
                " AND ".join((*session_listing._ARCHIVED.values(), session_listing._UNLISTED))
            ],
            "order": list(session_listing._ORDER),
            "session_filter": [
                session_listing.EVERY,
                session_listing.SessionFilter(by_last_message=True),
            ],
        },
        "store/outbox.py": {"condition": [f"state IN ({_TWO})"], "some": ["ab"]},
        "store/transcript_hits.py": {"some": ["ab"]},
        "store/transcript_search.py": {"column": ["agent_id", "key"]},
        "store/settled_runs.py": {
            "some": ["ab"],
            "none": ["NOT EXISTS (SELECT 1 FROM run WHERE run.run_id ="],
            "over": [
                (
                    "state IN ('sent', 'dropped') AND updated_at < ?"
                    " AND NOT EXISTS (SELECT 1 FROM run WHERE run.run_id = outbox.run_id)"
                )
            ],
        },
        "store/message_counts.py": {"ids": ["ab"]},
        "store/usage.py": {
            "name": [usage._GROUP.get(by, by.value) for by in usage.UsageGroup if by != "session"],
            "order": ["1", usage._DEAREST],
            "of_key": ["", usage._OF_KEY],
            "agent": [None, "main"],
            "some": ["ab"],
        },
        "store/session_usage.py": {"within": [f"session_id IN ({_TWO})"]},
    }
)
"""What stands for the names of functions in the statements of a file: all that they can be."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, as it can be run."""

    file: str
    """Below `skerry`."""
    line: int
    sql: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern that does not travel."""

    why: str
    pattern: re.Pattern[str]
    fault: str
    """An example, which the pattern must find."""


def _rule(why: str, pattern: str, fault: str) -> Rule:
    return Rule(why, re.compile(pattern), fault)


RULES: Final = (
    _rule(
        "ON CONFLICT (columns) DO UPDATE | NOTHING",
        r"\bOR (REPLACE|IGNORE|ABORT|FAIL)\b",
        "INSERT OR REPLACE INTO task (name) VALUES (?)",
    ),
    _rule(
        "RETURNING gives numbers",
        r"\blast_insert_rowid|\browid\b|VALUES \(NULL",
        "SELECT last_insert_rowid()",
    ),
    _rule(
        "an INSERT names its columns",
        r"INSERT INTO \w+ (VALUES|SELECT)",
        "INSERT INTO task VALUES (?, ?, ?)",
    ),
    _rule(
        "a conflict names its columns",
        r"ON CONFLICT DO",
        "INSERT INTO task (name) VALUES (?) ON CONFLICT DO NOTHING",
    ),
    _rule(
        "CASE and coalesce, which every engine has",
        r"\b(iif|ifnull|total|group_concat|instr|hex|zeroblob|randomblob|printf|typeof|glob)\(",
        "SELECT iif(tail > 0, 1, 2) FROM session",
    ),
    _rule(
        "CASE in place of max and min of several values",
        r"\b(max|min)\([^()]*(\([^()]*\)[^()]*)*,",
        "UPDATE session SET tail = max(tail, ?)",
    ),
    _rule(
        "JSON is stored whole; what is asked for is a column, and a list is IN (?, ?)",
        r"\bjson\w*\(",
        "SELECT value FROM json_each(?)",
    ),
    # `IS DISTINCT FROM` would say it in one condition, but SQLite has it since 3.39 only: a Python
    # 3.11 of Ubuntu 22.04 comes with 3.37.
    _rule(
        "optional conditions are put together in Python; `<>` and IS NULL for what may be NULL",
        r"\? IS (NOT )?NULL|\bIS (NOT )?\?|\? IN \(",
        "SELECT 1 FROM session WHERE (? IS NULL OR key = ?)",
    ),
    _rule(
        "conditions are no numbers",
        r"\bsum\((?!CASE)[^()]*(=|<|>|\bNOT\b|\bIS\b|\bAND\b|\bOR\b)"
        r"|[-+*] \([^()]*(=|<|>|\bIS\b|\bNOT\b)[^()]*\)|\) [-+*] \([^()]*(=|<>| IS )[^()]*\)",
        "SELECT sum(outcome <> 'ok') FROM model_call",
    ),
    _rule(
        "truth is written TRUE and FALSE",
        rf"\b({'|'.join(sorted(name for _, name in BOOLEANS))}) (=|<>) [01]\b",
        "UPDATE session SET current = 1",
    ),
    _rule("limits are positive", r"LIMIT -", "SELECT 1 FROM run LIMIT -1 OFFSET ?"),
    _rule(
        "times come from the caller",
        r"\b(date|time|datetime|strftime|julianday|unixepoch)\(|CURRENT_(TIME|DATE)|'now'",
        "SELECT date(at / 1000, 'unixepoch') FROM model_call",
    ),
    _rule(
        "bytes are bound, and types are those of every engine",
        r"\b[xX]'|CAST\([^()]* AS (BLOB|TEXT|INTEGER|REAL)\)|\?\d",
        "UPDATE run SET request = x''",
    ),
    _rule(
        "pragmas, locks and what knows the file are of the engine",
        r"\b(PRAGMA|VACUUM|ATTACH|SAVEPOINT|COMMIT|ROLLBACK|REINDEX|NOTIFY)\b|BEGIN( |$)"
        r"|\bpragma_|\bsqlite_(?!\w*error)",
        "PRAGMA secure_delete = ON",
    ),
    _rule(
        "full text is of the text index",
        r"\bMATCH \?|\bfts5|entry_text",
        "SELECT 1 FROM t WHERE t MATCH ?",
    ),
    _rule(
        "a number orders within its conversation and is no mark",
        r"\bmax\((\w+\.)?serial\)|\bserial (>|>=|BETWEEN)|\bserial [-+] ",
        "SELECT 1 FROM outbox WHERE serial > ?",
    ),
    _rule(
        "operators of every engine",
        r"[^=!<>]==|\b(GLOB|REGEXP|COLLATE|INDEXED BY)\b|!=",
        "SELECT 1 FROM run WHERE run_id == ?",
    ),
)


def files() -> Iterator[str]:
    """Yields the files of the program, below `skerry`."""
    root = SOURCE / "skerry"
    yield from sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))


def literals(source: str) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yields the texts of a module, each whole, without its docstrings."""
    pending: list[ast.AST] = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            yield node
        pending += [] if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node)


def text_of(node: ast.Constant | ast.JoinedStr) -> str:
    """Returns the text; inserted values become `?`, as parameters."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "".join(
        str(value.value) if isinstance(value, ast.Constant) else "\0" for value in node.values
    )


def faults(source: str) -> Iterator[tuple[int, str, str]]:
    """Yields line, reason and text of what in a module's SQL does not travel."""
    for node in literals(source):
        text = text_of(node)
        if _FRAGMENT.search(text):
            for rule in RULES:
                if rule.pattern.search(text):
                    yield node.lineno, rule.why, text


def statements(file: str) -> Iterator[Statement]:
    """Yields the statements of a file as they can be run.

    Raises:
        NameError: one is made of what neither a constant of its module nor `CHOICES` says.
    """
    path = SOURCE / "skerry" / file
    nodes = [node for node in literals(path.read_text("utf-8")) if _STATEMENT.match(text_of(node))]
    if not nodes:
        return
    module = importlib.import_module(
        ".".join(("skerry", *Path(file).with_suffix("").parts)).removesuffix(".__init__")
    )
    for node in nodes:
        if isinstance(node, ast.Constant):
            yield Statement(file, node.lineno, str(node.value))
            continue
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        choices = {name: values for name, values in CHOICES.get(file, {}).items() if name in names}
        code = compile(ast.fix_missing_locations(ast.Expression(node)), file, "eval")
        made = {
            str(eval(code, {**vars(module), **dict(zip(choices, some, strict=True))}))  # noqa: S307 - our own source
            for some in product(*choices.values())
        }
        yield from (Statement(file, node.lineno, sql) for sql in sorted(made))


def travelling() -> Iterator[Statement]:
    """Yields the statements that another engine is to take too."""
    for file in files():
        if file.startswith("store/") and file not in ENGINE:
            yield from statements(file)


_TYPES: Final = MappingProxyType(
    {"TEXT": "TEXT", "INTEGER": "BIGINT", "REAL": "DOUBLE PRECISION", "BLOB": "BYTEA"}
)
_UNMADE: Final = ("sqlite_", "entry_text")
"""Beginnings of the tables that are SQLite's own or of its full text."""


def postgres_tables(connection: sqlite3.Connection) -> Iterator[str]:
    """Yields what makes the tables and indexes of a SQLite database in PostgreSQL, line by line."""
    rows = connection.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type DESC, name"
    ).fetchall()
    for kind, name, table, sql in rows:
        if table.startswith(_UNMADE):
            continue
        if kind == "table":
            yield _table(connection, name)
        elif sql is not None:
            yield f"{' '.join(sql.split())};"
        else:  # what a UNIQUE of the table or its key made
            columns = connection.execute("SELECT name FROM pragma_index_info(?)", (name,))
            listed = ", ".join(column for (column,) in columns)
            yield f"CREATE UNIQUE INDEX {name.removeprefix('sqlite_')} ON {table} ({listed});"


def _table(connection: sqlite3.Connection, name: str) -> str:
    columns, keys = [], []
    for _, column, kind, required, default, key in connection.execute(f"PRAGMA table_info({name})"):
        is_truth = (name, column) in BOOLEANS
        parts = [column, "BOOLEAN" if is_truth else _TYPES[kind]]
        if required:
            parts.append("NOT NULL")
        if default is not None:
            truth = "TRUE" if default == "1" else "FALSE"
            parts.append(f"DEFAULT {truth if is_truth else default}")
        if key:
            keys.append((key, column))
            if kind == "INTEGER" and column == "serial":
                parts.append("GENERATED BY DEFAULT AS IDENTITY")
        columns.append(" ".join(parts))
    if keys:
        columns.append(f"PRIMARY KEY ({', '.join(column for _, column in sorted(keys))})")
    return f"CREATE TABLE {name} ({', '.join(columns)});"
