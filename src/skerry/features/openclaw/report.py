"""The report of `skerry import openclaw`: what will be missed first, then what arrives."""

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
"""Names in one line of the report; `--json` has them all."""
_WIDEST: Final = 48
"""Columns of a value."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Something that the person had there and will not have here."""

    what: str
    """Name for people, such as `Scheduled jobs`."""
    names: tuple[str, ...]
    why: str


@dataclass(slots=True)
class Report:
    """Result of the import, or its preview."""

    source: str
    applied: bool
    missed: list[Missed] = field(default_factory=list)
    lines: list[ProposedKey] = field(default_factory=list)
    """The keys of the configuration."""
    workspaces: list[dict[str, Any]] = field(default_factory=list)
    sessions: dict[str, int] = field(default_factory=dict)
    """Number of sessions by result."""
    owners: list[str] = field(default_factory=list)
    """Conversations whose user messages are taken as the owner's."""
    credentials: list[str] = field(default_factory=list)
    """Names of credentials."""
    jobs: list[str] = field(default_factory=list)
    """Names of scheduled jobs, which are switched off here."""
    left_out: Counter[str] = field(default_factory=Counter)
    """Parts of sessions that are not taken, by their kind."""
    unmapped: list[Unmapped] = field(default_factory=list)

    def leave(self, what: str, why: str) -> None:
        """Notes something that has no place here."""
        self.unmapped.append(Unmapped(what, why))

    def leave_out(self, what: str, made: ImportedSession) -> None:
        """Counts the entries of a session that are not taken; names the lines that are broken."""
        if made.report.other_branch:
            self.left_out["entry of a branch that was left"] += made.report.other_branch
        self.left_out.update(made.report.left_out)
        for why in broken_lines(made.report):
            self.leave(what, why)

    def count(self, outcome: str) -> None:
        """Counts a session."""
        self.sessions[outcome] = self.sessions.get(outcome, 0) + 1


def tell(report: Report, *, as_json: bool) -> None:
    """Prints the report."""
    if as_json:
        show_json(_plain(report))
        return
    _missed(report)
    _arrives(report)
    _asked(report)
    _rest(report)
    if not report.applied:
        notice("Nothing was written. To do it: skerry import openclaw --apply")


def _plain(report: Report) -> dict[str, Any]:
    configuration = [
        {
            "key": line.key,
            "value": line.value,
            "outcome": line.outcome.value,
            "why": line.why,
            "byHand": line.by_hand,
        }
        for line in report.lines
    ]
    fields = asdict(report)
    del fields["lines"]
    return {**fields, "configuration": configuration, "leftOut": fields.pop("left_out")}


def _missed(report: Report) -> None:
    if not report.missed:
        return
    show(styled("You will miss", "bold"))
    for session in report.missed:
        named = f": {_named(session.names)}" if session.names else ""
        show(f"  {session.what}{one_line(named)}. {one_line(session.why)}")
    show()


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _arrives(report: Report) -> None:
    show(styled("What arrived" if report.applied else "What would arrive", "bold"))
    taken = [line for line in report.lines if line.outcome is KeyOutcome.TAKEN]
    if taken:
        show("  configuration")
        show(_table([(line.key, _short(line.value), line.why) for line in taken]))
    else:
        show("  configuration  nothing")
    for workspace in report.workspaces:
        copied = f"{workspace['copied']} files, {workspace['bytes']} bytes"
        numbers = f"{copied}; {workspace['same']} are there already"
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


def _asked(report: Report) -> None:
    """Prints the keys that are not taken, and how each can be."""
    open_lines = [line for line in report.lines if line.outcome is KeyOutcome.ASKED]
    if open_lines:
        show()
        show(styled("Not taken without your yes (--yes-to KEY)", "bold"))
        show(_table([(line.key, _short(line.value), line.why) for line in open_lines]))
    hand = [line for line in report.lines if line.outcome is KeyOutcome.BY_HAND]
    if hand:
        show()
        show(styled("Not taken; to set one: skerry config set KEY VALUE", "bold"))
        show(_table([(line.key, _short(line.value)) for line in hand]))
    other = [line for line in report.lines if line.outcome in {KeyOutcome.REFUSED, KeyOutcome.KEPT}]
    if other:
        show()
        show(styled("Not taken", "bold"))
        rows = [(line.key, _short(line.value), line.why or line.outcome.value) for line in other]
        show(_table(rows))


def _rest(report: Report) -> None:
    """Prints what else stays behind: one line for each reason."""
    by_reason: dict[str, list[str]] = {}
    for key in report.unmapped:
        by_reason.setdefault(key.why, []).append(key.what)
    for why, names in by_reason.items():
        notice(f"not imported: {one_line(_named(names))}: {one_line(why)}")
    if report.left_out:
        counted = ", ".join(f"{number} {kind}" for kind, number in sorted(report.left_out.items()))
        notice(f"left out of the sessions: {one_line(counted)}")


def _table(rows: Sequence[Sequence[str]]) -> str:
    lines = table([[one_line(cell) for cell in row] for row in rows])
    return "\n".join(f"    {line}" for line in lines.splitlines())


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def counted(path: Path, done: Any, agent: str, target: Path) -> dict[str, Any]:
    """Returns the report's fields of a workspace."""
    return {
        "agent": agent,
        "from": str(path),
        "to": str(target),
        "copied": done.copied,
        "replaced": len(done.replaced),
        "same": done.same,
        "bytes": done.bytes,
    }
