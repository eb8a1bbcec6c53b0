"""`skerry audit`: shows and verifies the log of decisions of people and gates."""

import os
from argparse import Namespace
from functools import partial
from pathlib import Path
from typing import Any

from skerry.cli.failure import FailedError
from skerry.cli.render import local_time, one_line, show, show_json, table
from skerry.config.load import locate
from skerry.features.audit.reading import read
from skerry.store import audit
from skerry.store.audit import FIRST, Anchor, AuditLogEntry, AuditReport

MAX_BYTES = 1 << 20
"""Maximum size of a file of anchors, in bytes."""
_PRINTED_FIELDS = ("id", "server", "tool", "tools", "command", "agent", "pattern", "by", "rule")


def run(arguments: Namespace) -> int:
    """Runs `skerry audit`; returns the exit code: 1 when the chain is broken."""
    state_dir, _ = locate(os.environ)
    if arguments.verify:
        return _verify(state_dir, arguments)
    if arguments.anchor or arguments.anchor_file:
        raise FailedError("An anchor needs --verify.", "skerry audit --verify --anchor ...", 2)
    entries = read(state_dir, partial(audit.last, limit=arguments.limit)) or []
    if arguments.json:
        show_json({"entries": [_entry(entry) for entry in entries]})
        return 0
    if not entries:
        show("The log has no decisions yet.")
        return 0
    lines: list[tuple[str, ...]] = [("NR", "TIME", "WHAT", "FACTS")]
    lines += [(str(entry.seq), _time(entry.at), entry.kind, _facts(entry)) for entry in entries]
    show(table(lines))
    return 0


def _verify(state_dir: Path, arguments: Namespace) -> int:
    file = Path(arguments.anchor_file) if arguments.anchor_file else None
    anchors = _anchors(arguments.anchor, file)
    work = partial(audit.verify, anchors=anchors)
    report = read(state_dir, work) or _without_log(anchors)
    ok = report.broken is None
    if ok and file is not None and report.entries:
        _add(file, report.anchor, anchors)
    if arguments.json:
        show_json(
            {
                "ok": ok,
                "entries": report.entries,
                "head": report.head,
                "anchor": str(report.anchor),
                "anchors": len(anchors),
                "erased": report.erased,
                "brokenAt": report.broken,
                "reason": report.reason or None,
            }
        )
    elif ok:
        fit = f", and {len(anchors)} anchors" if anchors else ""
        show(f"All {report.entries} entries fit{fit}. Anchor: {report.anchor}")
    else:
        show(f"Broken after {report.entries} entries: {report.reason}. Compare it with a backup.")
    return 0 if ok else 1


def _without_log(anchors: list[Anchor]) -> AuditReport:
    """Returns the report on an installation without a log."""
    nonempty = [anchor for anchor in anchors if anchor.seq]
    if not nonempty:
        return AuditReport(0, FIRST)
    return AuditReport(
        0, FIRST, 1, f"the log is missing, but an anchor names entry {nonempty[0].seq}"
    )


def _anchors(texts: list[str], file: Path | None) -> list[Anchor]:
    """Returns the anchors of the command line and of a file, one for each line.

    Raises:
        FailedError: an anchor is not valid, or the file cannot be read.
    """
    try:
        if file is not None and file.exists():
            with file.open("rb") as opened:
                content = opened.read(MAX_BYTES + 1)
            if len(content) > MAX_BYTES:
                raise FailedError(f"{file} has more than {MAX_BYTES} bytes.", "Pass another file.")
            texts = [*texts, *filter(str.strip, content.decode().splitlines())]
        return [Anchor.parse(text) for text in texts]
    except (OSError, ValueError) as error:
        remedy = "skerry audit --verify prints the anchor of the last entry."
        raise FailedError(f"The anchors cannot be read: {one_line(str(error))}.", remedy) from error


def _add(file: Path, anchor: Anchor, present: list[Anchor]) -> None:
    """Adds an anchor to a file, unless it contains the anchor.

    Raises:
        FailedError: the file cannot be written.
    """
    if anchor in present:
        return
    try:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with os.fdopen(os.open(file, flags, 0o600), "a", encoding="ascii") as opened:
            opened.write(f"{anchor}\n")
    except OSError as error:
        reason = f"The anchor cannot be written to {file}: {error.strerror}."
        raise FailedError(reason, "Pass a file that you can write.") from error


def _entry(entry: AuditLogEntry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "atMs": entry.at,
        "kind": entry.kind,
        "body": entry.body,
        "hash": entry.hash,
    }


def _facts(entry: AuditLogEntry) -> str:
    if entry.body is None:
        return "(erased)"
    body = entry.body
    facts = (f"{key}={one_line(str(body[key]))}" for key in _PRINTED_FIELDS if body.get(key))
    return " ".join(facts)[:160]


def _time(milliseconds: int) -> str:
    return local_time(milliseconds, seconds=True)
