"""`skerry memory forget`: shows the matches, asks for confirmation, erases, and reports."""

import sys
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import local_time, notice, one_line, show, show_json, styled
from skerry.features.memory.cli_access import memory
from skerry.model.errors import ClientError

_COUNTS: Final = (
    ("messages", "message", "messages"),
    ("summaries", "summary", "summaries"),
    ("runs", "run of the ledger", "runs of the ledger"),
    ("replies", "reply of the outbox", "replies of the outbox"),
    ("answers", "kept answer", "kept answers"),
    ("labels", "name of a conversation", "names of conversations"),
    ("records", "record of a job or a sender", "records of jobs and senders"),
    ("media", "copied file", "copied files"),
    ("documents", "document of the index", "documents of the index"),
)


def run(arguments: Namespace) -> int:
    """Runs `skerry memory forget`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    if arguments.dry_run or not arguments.yes:
        preview = await _ask(arguments, dryRun=True)
        if arguments.dry_run:
            return _report(preview, arguments, _matches(preview))
        _show(_matches(preview))
        if not _agrees():  # the state directory is not locked while the person decides
            notice("Nothing was changed.")
            return 1
    report = await _ask(arguments, extra=arguments.extra)
    return _report(report, arguments, _erased(report))


async def _ask(arguments: Namespace, **flags: bool) -> dict[str, Any]:
    async with memory(arguments, requires_slot=False) as (access, _):
        return await access.forget({"phrases": arguments.text, **flags})


def _agrees() -> bool:
    """Returns whether the person confirmed the erasure.

    Raises:
        ClientError: stdin is not a terminal.
    """
    if not sys.stdin.isatty():
        raise ClientError(
            "Refusing to erase without confirmation: stdin is not a terminal.",
            "Preview with --dry-run, then pass --yes.",
        )
    print("Erase this? It cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _report(report: dict[str, Any], arguments: Namespace, lines: list[str]) -> int:
    if arguments.json:
        show_json(report)
    else:
        _show(lines)
    return 0


def _show(lines: list[str]) -> None:
    for line in lines:
        show(line)


def _matches(report: dict[str, Any]) -> list[str]:
    """Describes the matches that would be erased (pure)."""
    lines = [
        f"{one_line(line['path'])}:{line['line']}  {one_line(line['text'])}"
        for line in report["lines"]
    ]
    counts = _counts(report)
    if not counts:
        return ["No text has these words. `skerry memory search` finds by meaning."]
    return [*lines, f"Would be erased: {counts}.", *_unchanged(report), *_backups(report)]


def _erased(report: dict[str, Any]) -> list[str]:
    """Describes the erased matches, and text that may remain (pure)."""
    counts = _counts(report)
    lines = [f"Forgotten: {counts}." if counts else "No text had these words."]
    if report["waits"]:
        lines.append(
            "1 run may still have it in memory: when it has ended, its output is searched again."
            if report["waits"] == 1
            else f"{report['waits']} runs may still have it in memory: when they have ended, their"
            " output is searched again."
        )
    elif not report["done"]:
        lines.append(
            "The files of the database are not rewritten yet: a gateway does so automatically, at"
            " its start at the latest."
        )
    lines += [*_unchanged(report), *_backups(report)]
    if report["near"]:
        lines.append(
            styled("Nearest remaining passages; check whether they still contain it:", "bold")
        )
        lines += [
            f"  {one_line(hit['path'])}:{hit['line']}  {one_line(hit['text'])[:160]}"
            for hit in report["near"]
        ]
    return lines


def _counts(report: dict[str, Any]) -> str:
    counts = [
        f"{report[name]} {single if report[name] == 1 else plural}"
        for name, single, plural in _COUNTS
        if report[name]
    ]
    if count := len(report["lines"]):
        counts.insert(0, f"{count} statement{'s' * (count > 1)} in files")
    return ", ".join(counts)


def _unchanged(report: dict[str, Any]) -> list[str]:
    return [
        f"Not changed: {one_line(file['path'])}: {one_line(file['reason'])}"
        for file in report["left"]
    ]


def _backups(report: dict[str, Any]) -> list[str]:
    lines = ["Backups that still contain it:"] if report["backups"] else []
    for backup in report["backups"]:
        until = f", until about {local_time(backup['until'])}" if backup["until"] else ""
        lines.append(f"  {one_line(backup['name'])}{until}. {one_line(backup['remedy'])}")
    return lines
