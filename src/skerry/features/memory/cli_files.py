"""`skerry memory files` and `doctor`: lists the files of the memory, and checks the index."""

import os
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.checks import show_checks
from skerry.cli.failure import FAILED
from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.config.load import load_good
from skerry.features.memory.checks import thorough
from skerry.features.memory.cli_access import agent_of, empty_advice, memory
from skerry.features.memory.cli_progress import Bar
from skerry.ports.checks import Level


def run(arguments: Namespace) -> int:
    """Runs `skerry memory files` or `doctor`; returns the exit code."""
    return anyio.run(_doctor if arguments.action == "doctor" else _files, arguments)


async def _doctor(arguments: Namespace) -> int:
    """Checks the memory; returns 1 when a check failed."""
    loaded = load_good(os.environ)
    config = loaded.config
    checks = await thorough(config, loaded.expanded.environ, agent_of(config, arguments.agent))
    show_checks(checks, as_json=arguments.json)
    return FAILED if any(check.level is Level.FAILURE for check in checks) else 0


async def _files(arguments: Namespace) -> int:
    options = {"source": arguments.source, "limit": arguments.limit}
    params = {name: value for name, value in options.items() if value is not None}
    async with memory(arguments, ("operator.read",)) as (access, workspace):
        reply = await access.ask("memory.files", params, Bar())
    if arguments.json:
        show_json(reply)
        return 0
    if not reply["files"]:
        show(empty_advice(workspace))
        return 0
    head = ("PATH", "SIZE", "STATE", "CHANGED")
    show(table([head, *(_row(file, reply.get("backend")) for file in reply["files"])]))
    if left_out := reply["total"] - len(reply["files"]):
        notice(f"{left_out} older files are not shown. Show more with --limit.")
    return 0


def _row(file: dict[str, Any], backend: str | None) -> tuple[str, ...]:
    passages = file["passages"]
    # QMD does not report which files it has indexed.
    state = "searched by QMD" if backend == "qmd" else "not indexed yet"
    if passages is not None:
        state = f"{passages} passage{'' if passages == 1 else 's'}"
        if passages and file.get("vectors") is not None:
            state += ", by words and meaning" if file["vectors"] == passages else ", by words"
    if file.get("encoding"):
        state += f", read as {file['encoding']}"
    changed = local_time(file["changedAt"]) if file["changedAt"] else "-"
    return (
        one_line(file["path"]),
        f"{file['size']} B",
        one_line(file["error"]) if file["error"] else state,
        changed,
    )
