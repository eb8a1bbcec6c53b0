"""`skerry memory forget`: shows what would go, asks, and says what went and what still holds it."""

import sys
from argparse import Namespace
from typing import Any, Final

import anyio

from skerry.cli.render import notice, one_line, show, show_json, styled
from skerry.features.memory.cli_access import memory
from skerry.infra.clock import iso
from skerry.model.errors import ClientError

_PLACES: Final = (
    ("messages", "message", "messages"),
    ("summaries", "summary", "summaries"),
    ("runs", "run of the ledger", "runs of the ledger"),
    ("replies", "reply of the outbox", "replies of the outbox"),
    ("answers", "kept answer", "kept answers"),
    ("labels", "name of a conversation", "names of conversations"),
    ("documents", "document of the index", "documents of the index"),
)


def run(arguments: Namespace) -> int:
    """Runs `skerry memory forget`; returns the exit code."""
    return anyio.run(_run, arguments)


async def _run(arguments: Namespace) -> int:
    if arguments.dry_run or not arguments.yes:
        there = await _ask(arguments, dryRun=True)
        if arguments.dry_run:
            return _told(there, arguments, _would(there))
        _show(_would(there))
        if not _agrees():  # nobody has the state directory while a person thinks
            notice("Nothing was changed.")
            return 1
    return _told(done := await _ask(arguments, extra=arguments.extra), arguments, _done(done))


async def _ask(arguments: Namespace, **more: bool) -> dict[str, Any]:
    async with memory(arguments, ours=False) as (place, _):
        return await place.forget({"phrases": arguments.text, **more})


def _agrees() -> bool:
    """Returns whether the person wants it.

    Raises:
        ClientError: nobody is there to be asked.
    """
    if not sys.stdin.isatty():
        raise ClientError(
            "Refusing to erase without confirmation: stdin is not a terminal.",
            "Preview with --dry-run, then pass --yes.",
        )
    print("Forget this? It cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _told(found: dict[str, Any], arguments: Namespace, lines: list[str]) -> int:
    if arguments.json:
        show_json(found)
    else:
        _show(lines)
    return 0


def _show(lines: list[str]) -> None:
    for line in lines:
        show(line)


def _would(found: dict[str, Any]) -> list[str]:
    """Describes the matches that would be erased (pure)."""
    lines = [
        f"{one_line(one['path'])}:{one['line']}  {one_line(one['text'])}" for one in found["lines"]
    ]
    counts = _counts(found)
    if not counts:
        return ["No text has these words. `skerry memory search` finds by meaning."]
    return [*lines, f"Would go: {counts}.", *_left(found), *_backups(found)]


def _done(found: dict[str, Any]) -> list[str]:
    """Describes the erased matches, and the rest (pure)."""
    counts = _counts(found)
    lines = [f"Forgotten: {counts}." if counts else "No text had these words."]
    if found["waits"]:
        lines.append(
            "1 run may still have it in memory: when it has ended, what it wrote is looked through"
            " once more."
            if found["waits"] == 1
            else f"{found['waits']} runs may still have it in memory: when they have ended, what"
            " they wrote is looked through once more."
        )
    elif not found["done"]:
        lines.append(
            "The files of the database are still to be written anew: a gateway does so by itself,"
            " at its start at the latest."
        )
    lines += [*_left(found), *_backups(found)]
    if found["near"]:
        lines.append(
            styled("Nearest remaining passages; check whether they still contain it:", "bold")
        )
        lines += [
            f"  {one_line(one['path'])}:{one['line']}  {one_line(one['text'])[:160]}"
            for one in found["near"]
        ]
    return lines


def _counts(found: dict[str, Any]) -> str:
    told = [
        f"{found[name]} {single if found[name] == 1 else several}"
        for name, single, several in _PLACES
        if found[name]
    ]
    if count := len(found["lines"]):
        told.insert(0, f"{count} statement{'s' * (count > 1)} in files")
    return ", ".join(told)


def _left(found: dict[str, Any]) -> list[str]:
    return [
        f"Not changed: {one_line(one['path'])}: {one_line(one['reason'])}" for one in found["left"]
    ]


def _backups(found: dict[str, Any]) -> list[str]:
    lines = ["Backups that still have it:"] if found["backups"] else []
    for one in found["backups"]:
        until = f", until about {iso(one['until'])}" if one["until"] else ""
        lines.append(f"  {one_line(one['name'])}{until}. {one_line(one['remedy'])}")
    return lines
