"""The program behind `tests.support.fake_qmd`: acts like QMD 2.8, or misbehaves.

It is run as a file of its own and imports nothing of Skerry. Its index is JSON in SQLite.
"""

import json
import os
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, Final

FOLDER = Path(os.environ["QMD_FAKE"])
INDEX = Path(os.environ["XDG_CACHE_HOME"]) / "qmd" / "index.sqlite"
_SPLIT = re.compile(r"\w+")


def note(name: str, value: object) -> None:
    """Appends a line to a file beside the program."""
    with (FOLDER / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def misbehave(what: str) -> None:
    """Misbehaves where `behaviour.json` has an entry for the command."""
    try:
        how = json.loads((FOLDER / "behaviour.json").read_text("utf-8")).get(what)
    except FileNotFoundError:
        return
    if how is None:
        return
    if how == "orphan":
        note("pids", os.posix_spawn("/bin/sleep", ["sleep", "600"], {}))
        return
    MISDEEDS[how]()
    sys.stdout.flush()
    os._exit(0)


def hang() -> None:
    """Does nothing for long."""
    note("hanging", os.getpid())
    time.sleep(600)


def unknown() -> None:
    """Refuses as QMD does when a collection is not in its index."""
    sys.stderr.write("Collection not found: memory-dir\n")
    sys.stderr.flush()
    os._exit(1)


MISDEEDS: Final[dict[str, Callable[[], object]]] = {
    "hang": hang,
    "segfault": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "garbage": lambda: sys.stdout.write("Loading model ... 3%\n[]"),
    "wrong": lambda: sys.stdout.write('[{"path": "MEMORY.md"}]'),
    "flood": lambda: sys.stdout.write("[" + "1," * 400_000),
    "missing": unknown,
    "die": lambda: os._exit(7),
}


def load() -> dict[str, Any]:
    """Returns the collections: each with path, mask and the texts of its files."""
    if not INDEX.exists():
        return {}
    try:
        with closing(sqlite3.connect(INDEX)) as database:
            rows = database.execute("SELECT body FROM fake").fetchall()
    except sqlite3.DatabaseError as error:
        crash(str(error))
        raise
    index: dict[str, Any] = json.loads(rows[0][0])
    return index


def crash(why: str) -> None:
    """Ends as a program of Node does."""
    file = "file:///usr/lib/node_modules/@tobilu/qmd/dist/db.js"
    trace = "".join(f"    at openDatabase{n} ({file}:77:16)\n" for n in range(40))
    sys.stderr.write(
        f"{file}:77\n    throw new SqliteError(why);\n          ^\n\nSqliteError: {why}\n{trace}"
        "  code: 'SQLITE_NOTADB'\n}\n\nNode.js v24.1.0\n"
    )
    sys.stderr.flush()
    os._exit(1)


def save(index: dict[str, Any]) -> None:
    """Writes the collections."""
    INDEX.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(INDEX)) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS fake (body TEXT)")
        database.execute("DELETE FROM fake")
        database.execute("INSERT INTO fake VALUES (?)", (json.dumps(index),))


def scan(folder: dict[str, Any]) -> str:
    """Reads the files of a collection again; returns the line that QMD prints."""
    root, old = Path(folder["path"]), folder["files"]
    mask = re.sub(r"\\(.)", r"[\1]", folder["mask"])
    files = {
        str(file.relative_to(root)): file.read_text("utf-8")
        for file in sorted(root.glob(mask))
        if file.is_file()
    }
    new = sum(name not in old for name in files)
    changed = sum(name in old and old[name] != text for name, text in files.items())
    removed = sum(name not in files for name in old)
    folder["files"] = files
    same = len(files) - new - changed
    return f"Indexed: {new} new, {changed} updated, {same} unchanged, {removed} removed"


def search(queries: list[tuple[str, str]], names: list[str], limit: int) -> list[dict[str, Any]]:
    """Returns the files that have every word of one of the queries.

    Each scores 0, as QMD has it where there are few files.
    """
    hits = []
    index = load()
    for name in names:
        for path, text in index.get(name, {"files": {}})["files"].items():
            words = set(_SPLIT.findall(text.lower()))
            expected = [set(_SPLIT.findall(query.lower())) for _, query in queries]
            if any(words_of_query and words_of_query <= words for words_of_query in expected):
                rows = text.split("\n")
                any_of = set().union(*expected)
                line = next(
                    n for n, row in enumerate(rows, 1) if any_of & set(_SPLIT.findall(row.lower()))
                )
                start, rest = max(1, line - 1), len(rows) - line - 1
                shown = rows[start - 1 : line + 1]
                head = f"@@ -{start},{len(shown)} @@ ({start - 1} before, {max(0, rest)} after)"
                snippet = "\n".join((head, *shown))
                file = f"qmd://{name}/{path}"
                hits.append(
                    {"docid": "#abc123", "score": 0.0, "file": file, "line": line, "title": path}
                    | {"snippet": snippet}
                )
    return hits[:limit]


def collection(verb: str, *rest: str) -> None:
    """Lists, add or removes collections."""
    index = load()
    if verb == "list":
        sys.stdout.write(f"Collections ({len(index)}):\n\n")
        for name, folder in index.items():
            sys.stdout.write(f"{name} (qmd://{name}/)\n  Pattern:  {folder['mask']}\n\n")
        return
    if verb == "add":
        path, _, name, _, mask = rest[:5]
        if name in index:
            sys.stderr.write(f"Collection '{name}' already exists.\n")
            sys.exit(1)
        index[name] = {"path": path, "mask": mask, "files": {}}
        sys.stdout.write(scan(index[name]) + "\n")
    else:
        del index[rest[0]]
    save(index)


def update(*_rest: str) -> None:
    """Reads all files again."""
    index = load()
    for number, (name, folder) in enumerate(index.items(), 1):
        sys.stdout.write(f"[{number}/{len(index)}] {name} ({folder['mask']})\n{scan(folder)}\n")
    save(index)


def embed(*_rest: str) -> None:
    """Pretends to compute vectors."""
    sys.stdout.write("Done\n")


def query(document: str, *rest: str) -> None:
    """Answers a document of typed lines."""
    lines = (line.partition(": ") for line in document.split("\n"))
    queries = [(kind, text) for kind, _, text in lines]
    names = [rest[n + 1] for n, word in enumerate(rest) if word == "-c"]
    sys.stdout.write(json.dumps(search(queries, names, int(rest[rest.index("-n") + 1]))))


def mcp(*_rest: str) -> None:
    """Answers requests until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        if request["method"] == "initialize":
            _answer(request, {"protocolVersion": request["params"]["protocolVersion"]})
        elif request["method"] == "tools/call":
            arguments = request["params"]["arguments"]
            note("calls", ["asked", arguments])
            misbehave("asked")
            queries = [(part["type"], part["query"]) for part in arguments["searches"]]
            hits = search(queries, arguments["collections"], arguments["limit"])
            for hit in hits:
                hit["file"] = hit["file"].removeprefix("qmd://")
            _answer(request, {"content": [], "structuredContent": {"results": hits}})


def _answer(request: dict[str, Any], result: object) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")
    sys.stdout.flush()


def main(arguments: list[str]) -> None:
    """Does one command."""
    note("pids", os.getpid())
    note("calls", arguments)
    what, *rest = arguments
    misbehave(what)
    commands: dict[str, Callable[..., None]] = {
        "collection": collection,
        "update": update,
        "embed": embed,
        "query": query,
        "mcp": mcp,
    }
    commands[what](*rest)


if __name__ == "__main__":
    main(sys.argv[1:])
