"""`skerry audit`: the log of what people and gates decided."""

import os
from argparse import Namespace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from skerry.cli.render import one_line, show, show_json, table
from skerry.config.load import locate
from skerry.features.audit.reading import read
from skerry.store import audit
from skerry.store.audit import FIRST, AuditEntry, AuditReport

_SHOWN = ("id", "tool", "command", "agent", "pattern", "by", "rule")


def run(arguments: Namespace) -> int:
    """Runs `skerry audit`; returns the exit code: 1 where the chain is broken."""
    state_dir, _ = locate(os.environ)
    if arguments.verify:
        return _verify(state_dir, arguments)
    entries = read(state_dir, partial(audit.last, limit=arguments.limit)) or []
    if arguments.json:
        show_json({"entries": [_entry(entry) for entry in entries]})
        return 0
    if not entries:
        show("Nothing was decided yet.")
        return 0
    lines: list[tuple[str, ...]] = [("NR", "TIME", "WHAT", "FACTS")]
    lines += [(str(entry.seq), _time(entry.at), entry.kind, _facts(entry)) for entry in entries]
    show(table(lines))
    return 0


def _verify(state_dir: Path, arguments: Namespace) -> int:
    report = read(state_dir, audit.verify) or AuditReport(0, FIRST)
    ok = report.broken is None
    if arguments.json:
        show_json(
            {
                "ok": ok,
                "entries": report.entries,
                "head": report.head,
                "erased": report.erased,
                "brokenAt": report.broken,
                "reason": report.why or None,
            }
        )
    elif ok:
        show(f"All {report.entries} entries fit. Head: {report.head}")
    else:
        show(f"Broken after {report.entries} entries: {report.why}. Compare it with a backup.")
    return 0 if ok else 1


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "atMs": entry.at,
        "kind": entry.kind,
        "body": entry.body,
        "hash": entry.hash,
    }


def _facts(entry: AuditEntry) -> str:
    if entry.body is None:
        return "(erased)"
    body = entry.body
    facts = (f"{key}={one_line(str(body[key]))}" for key in _SHOWN if body.get(key))
    return " ".join(facts)[:160]


def _time(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone():%Y-%m-%d %H:%M:%S}"
