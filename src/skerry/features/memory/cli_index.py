"""`skerry memory status` and `index`: through a gateway, else in the state directory."""

import sys
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.gateway import duration
from skerry.cli.render import local_time, notice, one_line, show, show_json, styled, table
from skerry.features.memory.cli_access import Memory, empty_advice, is_indexed, memory
from skerry.features.memory.cli_progress import Bar


def run(arguments: Namespace) -> int:
    """Runs `skerry memory status` or `index`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    async with memory(arguments) as (access, workspace):
        if arguments.action == "index":
            return await _index(access, arguments, workspace)
        status = await access.ask("memory.status", {}, Bar())
    if arguments.json:
        show_json(status)
    else:
        show_status(status, workspace)
    return 0


async def _index(access: Memory, arguments: Namespace, workspace: str) -> int:
    bar = Bar()
    try:
        report = await access.sync(force=arguments.force, progress=bar)
    finally:
        bar.end()
    if arguments.json:
        show_json(report)
        return 0
    fallback = report.get("fallback")
    if fallback:
        notice(f"{fallback['from']}: {one_line(fallback['reason'])}")
    if not any(value for name, value in report.items() if name not in {"backend", "fallback"}):
        show(empty_advice(workspace))
        return 0
    passages = report["chunks"]
    show(
        f"{report['added']} new, {report['changed']} changed, {report['removed']} deleted,"
        f" {report['unchanged']} unchanged; {passages} passage{'s' * (passages != 1)} written,"
        f" {report['embedded']} embedded{_backend(report)}."
    )
    for failure in report["failed"]:
        notice(f"not indexed: {one_line(failure['path'])}: {one_line(failure['reason'])}")
    return 0


def _backend(report: dict[str, Any]) -> str:
    """Returns the name of the index, for a report; "" for the built-in one without a fallback."""
    backend = report.get("backend") or "builtin"
    fallback = report.get("fallback")
    return f", in the index of {backend}" if fallback or backend != "builtin" else ""


def show_status(status: dict[str, Any], workspace: str) -> None:
    """Prints a status: of an index its counts, of the memory of a plugin its own report."""
    if not is_indexed(status):
        show(table([("agent", status["agentId"]), ("backend", one_line(status["backend"]))]))
        for note in status["notes"]:
            show(one_line(note))
        return
    if not status["files"]:
        show(empty_advice(workspace))
    at = status["indexedAt"]
    rows = [
        ("agent", status["agentId"]),
        ("backend", status["backend"]),
        ("search", "words and meaning" if status["mode"] == "hybrid" else "words"),
        ("model", f"{status['provider']}/{status['model']}" if status["model"] else "none"),
        ("files", str(status["files"])),
        ("passages", f"{status['chunks']}, {status['vectors']} with a vector"),
        ("indexed", local_time(at) if at else "never; index now: skerry memory index"),
        ("index", one_line(status["database"])),
    ]
    show(table(rows))
    for source in status["sources"]:
        files, passages = source["files"], source["chunks"]
        by_meaning = f", {source['vectors']} with a vector" if status["model"] else ""
        show(
            f"  {source['source']}: {files} file{'s' * (files != 1)},"
            f" {passages} passage{'s' * (passages != 1)}{by_meaning}"
        )
    if status.get("backlog"):
        show(waiting(status["backlog"]))
    if status["fallback"]:
        notice(f"{status['fallback']['from']}: {one_line(status['fallback']['reason'])}")
    for note in status["notes"]:
        notice(styled(one_line(note), "yellow", sys.stderr))


def waiting(backlog: dict[str, Any]) -> str:
    """Describes the passages that still lack vectors, and the time until they have them (pure)."""
    counts = ((backlog["notes"], "in notes"), (backlog["said"], "in conversations"))
    counted = " and ".join(f"{number} {part}" for number, part in counts if number)
    seconds = backlog["seconds"]
    if seconds is None:
        return f"  without a vector: {counted}; conversations get no vectors (cpuPercent 0)"
    ready = duration(round(seconds) * 1000)
    return (
        f"  without a vector: {counted}; computed in about {ready}. Index now: skerry memory index"
    )
