"""`skerry memory status` and `index`: with a gateway through it, else by themselves."""

import sys
from argparse import Namespace
from typing import Any

import anyio

from skerry.cli.gateway import duration
from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.features.memory.cli_access import Memory, memory, nothing
from skerry.features.memory.cli_progress import Bar
from skerry.infra.clock import iso


def run(arguments: Namespace) -> int:
    """Runs `skerry memory status` or `index`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    async with memory(arguments) as (place, workspace):
        if arguments.action == "index":
            return await _index(place, arguments, workspace)
        found = await place.ask("memory.status", {}, Bar())
    if arguments.json:
        show_json(found)
    else:
        _show(found, workspace)
    return 0


async def _index(place: Memory, arguments: Namespace, workspace: str) -> int:
    bar = Bar()
    try:
        report = await place.sync(force=arguments.force, progress=bar)
    finally:
        bar.end()
    if arguments.json:
        show_json(report)
        return 0
    fallback = report.get("fallback")
    if fallback:
        notice(f"{fallback['from']}: {one_line(fallback['reason'])}")
    if not any(value for name, value in report.items() if name not in {"backend", "fallback"}):
        show(nothing(workspace))
        return 0
    written = report["chunks"]
    show(
        f"{report['added']} new, {report['changed']} changed, {report['removed']} gone,"
        f" {report['unchanged']} as they were; {written} passage{'s' * (written != 1)} written,"
        f" {report['embedded']} embedded{_where(report)}."
    )
    for one in report["failed"]:
        notice(f"not indexed: {one_line(one['path'])}: {one_line(one['reason'])}")
    return 0


def _where(report: dict[str, Any]) -> str:
    """Returns which memory it was, where that is not ours."""
    backend = report.get("backend") or "builtin"
    fallback = report.get("fallback")
    return f", in the index of {backend}" if fallback or backend != "builtin" else ""


def _show(found: dict[str, Any], workspace: str) -> None:
    if not found["files"]:
        show(nothing(workspace))
    at = found["indexedAt"]
    rows = [
        ("agent", found["agentId"]),
        ("answers", found["backend"]),
        ("search", "words and meaning" if found["mode"] == "hybrid" else "words"),
        ("model", f"{found['provider']}/{found['model']}" if found["model"] else "none"),
        ("files", str(found["files"])),
        ("passages", f"{found['chunks']}, {found['vectors']} with a vector"),
        ("indexed", iso(at) if at else "never; now: skerry memory index"),
        ("index", one_line(found["database"])),
    ]
    show(table(rows))
    for one in found["sources"]:
        files, passages = one["files"], one["chunks"]
        meant = f", {one['vectors']} found by meaning too" if found["model"] else ""
        show(
            f"  {one['source']}: {files} file{'s' * (files != 1)},"
            f" {passages} passage{'s' * (passages != 1)}{meant}"
        )
    if found.get("backlog"):
        show(waiting(found["backlog"]))
    if found["fallback"]:
        notice(f"{found['fallback']['from']}: {one_line(found['fallback']['reason'])}")
    for note in found["notes"]:
        notice(styled(one_line(note), "yellow", sys.stderr))


def waiting(backlog: dict[str, Any]) -> str:
    """Describes the passages that still lack vectors, and the time until they have them (pure)."""
    counts = ((backlog["notes"], "of notes"), (backlog["said"], "of conversations"))
    told = " and ".join(f"{number} {of}" for number, of in counts if number)
    seconds = backlog["seconds"]
    if seconds is None:
        return f"  by words alone: {told}; conversations get no vectors (cpuPercent 0)"
    ready = duration(round(seconds) * 1000)
    return f"  by words alone: {told}; by meaning in about {ready}, or now: skerry memory index"
