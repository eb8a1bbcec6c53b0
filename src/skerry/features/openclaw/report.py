"""The report of `skerry import openclaw`: unsupported parts first, then the imported ones."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from skerry.cli.render import notice, one_line, show, show_json, styled, table
from skerry.cli.transcript_files import broken_lines
from skerry.features.openclaw.mapping import Unmapped
from skerry.features.openclaw.proposal import KeyOutcome, ProposedKey
from skerry.sessions.importing import ImportedSession

_NAMED: Final = 8
"""Maximum number of names in one line of the report; `--json` lists all."""
_WIDEST: Final = 48
"""Columns of a value."""


@dataclass(frozen=True, slots=True)
class NotImported:
    """A part of the installation that this gateway does not support."""

    name: str
    """Name for people, such as `Scheduled jobs`."""
    names: tuple[str, ...]
    reason: str


@dataclass(slots=True)
class Report:
    """Result of the import, or its preview."""

    source: str
    applied: bool
    not_imported: list[NotImported] = field(default_factory=list)
    lines: list[ProposedKey] = field(default_factory=list)
    """The keys of the configuration."""
    workspaces: list[dict[str, Any]] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    """Number of sessions by result."""
    owners: list[str] = field(default_factory=list)
    """Conversations whose user messages are imported as the owner's."""
    credentials: list[str] = field(default_factory=list)
    """Names of credentials."""
    jobs: list[str] = field(default_factory=list)
    """Names of scheduled jobs, which are switched off here."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Entries of sessions that are not imported, by their kind."""
    unmapped: list[Unmapped] = field(default_factory=list)

    def skip(self, name: str, reason: str) -> None:
        """Records a part that is not imported."""
        self.unmapped.append(Unmapped(name, reason))

    def leave_out(self, name: str, session: ImportedSession) -> None:
        """Counts the entries of a session that are not imported; reports its damaged lines."""
        if session.report.other_branch:
            self.left_out["entry of an abandoned branch"] += session.report.other_branch
        self.left_out.update(session.report.left_out)
        for reason in broken_lines(session.report):
            self.skip(name, reason)

    def count(self, outcome: str) -> None:
        """Counts a session."""
        self.sessions[outcome] = self.sessions.get(outcome, 0) + 1


def tell(report: Report, *, as_json: bool) -> None:
    """Prints the report."""
    if as_json:
        show_json(_plain(report))
        return
    _show_not_imported(report)
    _show_imported(report)
    _show_open_keys(report)
    _show_skipped(report)
    if not report.applied:
        notice("Nothing was written. Write the import: skerry import openclaw --apply")


def _plain(report: Report) -> dict[str, Any]:
    configuration = [
        {
            "key": line.key,
            "value": line.value,
            "outcome": line.outcome.value,
            "why": line.reason,
            "byHand": line.by_hand,
        }
        for line in report.lines
    ]
    fields = asdict(report)
    del fields["lines"], fields["not_imported"], fields["unmapped"]
    return {
        **fields,
        "missed": [
            {"what": part.name, "names": part.names, "why": part.reason}
            for part in report.not_imported
        ],
        "unmapped": [{"what": part.name, "why": part.reason} for part in report.unmapped],
        "configuration": configuration,
        "leftOut": fields.pop("left_out"),
    }


def _show_not_imported(report: Report) -> None:
    if not report.not_imported:
        return
    show(styled("Not supported here", "bold"))
    for session in report.not_imported:
        named = f": {_named(session.names)}" if session.names else ""
        show(f"  {session.name}{one_line(named)}. {one_line(session.reason)}")
    show()


def _named(names: Sequence[str]) -> str:
    suffix = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + suffix


def _show_imported(report: Report) -> None:
    show(styled("Imported" if report.applied else "Would be imported", "bold"))
    accepted = [line for line in report.lines if line.outcome is KeyOutcome.ACCEPTED]
    if accepted:
        show("  configuration")
        show(_table([(line.key, _short(line.value), line.reason) for line in accepted]))
    else:
        show("  configuration  nothing")
    for workspace in report.workspaces:
        copied = f"{workspace['copied']} files, {workspace['bytes']} bytes"
        numbers = f"{copied}; {workspace['same']} are present already"
        replaced = f"; {workspace['replaced']} templates replaced" if workspace["replaced"] else ""
        show(f"  workspace      {workspace['agent']}: {numbers}{replaced}")
        show(f"                 {one_line(workspace['from'])} -> {one_line(workspace['to'])}")
    counted = ", ".join(f"{number} {outcome}" for outcome, number in report.sessions.items())
    show(f"  sessions       {counted or 'none'}")
    if report.owners:
        show(f"  your words     {one_line(_named(report.owners))}: user messages count as yours")
    show(f"  credentials    {one_line(', '.join(report.credentials)) or 'none'}")
    if report.jobs:
        show(f"  jobs           {one_line(_named(report.jobs))}")
        show("                 They are switched off. To see them: skerry cron list --all")
        show("                 To switch one on, while the gateway runs: skerry cron enable JOB")


def _show_open_keys(report: Report) -> None:
    """Prints the keys that are not imported, and the command for each."""
    open_lines = [line for line in report.lines if line.outcome is KeyOutcome.NEEDS_CONSENT]
    if open_lines:
        show()
        show(styled("Not imported without your consent (--yes-to KEY)", "bold"))
        show(_table([(line.key, _short(line.value), line.reason) for line in open_lines]))
    hand = [line for line in report.lines if line.outcome is KeyOutcome.BY_HAND]
    if hand:
        show()
        show(styled("Not imported; to set a key: skerry config set KEY VALUE", "bold"))
        show(_table([(line.key, _short(line.value)) for line in hand]))
    refused = [
        line
        for line in report.lines
        if line.outcome in {KeyOutcome.REFUSED, KeyOutcome.CURRENT_KEPT}
    ]
    if refused:
        show()
        show(styled("Not imported", "bold"))
        rows = [
            (line.key, _short(line.value), line.reason or line.outcome.value) for line in refused
        ]
        show(_table(rows))


def _show_skipped(report: Report) -> None:
    """Prints the remaining parts that are not imported, one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for key in report.unmapped:
        by_reason.setdefault(key.reason, []).append(key.name)
    for reason, names in by_reason.items():
        notice(f"not imported: {one_line(_named(names))}: {one_line(reason)}")
    if report.left_out:
        counted = ", ".join(f"{number} {kind}" for kind, number in sorted(report.left_out.items()))
        notice(f"left out of the sessions: {one_line(counted)}")


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = table([[one_line(cell) for cell in row] for row in rows])
    return "\n".join(f"    {line}" for line in lines.splitlines())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def counted(path: Path, copied: Any, agent: str, target: Path) -> dict[str, Any]:
    """Returns the report's fields of a workspace."""
    return {
        "agent": agent,
        "from": str(path),
        "to": str(target),
        "copied": copied.copied,
        "replaced": len(copied.replaced),
        "same": copied.same,
        "bytes": copied.bytes,
    }
