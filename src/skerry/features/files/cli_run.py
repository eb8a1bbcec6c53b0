"""`skerry undo`: lists and reverts the file changes of agents; needs no gateway."""

import os
from argparse import Namespace

from skerry.cli.failure import FailedError
from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.config.load import load
from skerry.features.files.journal import Change
from skerry.features.files.undoing import (
    ChangeSelection,
    chosen,
    journal_of,
    last_turn,
    row,
    undone,
)
from skerry.infra.clock import SystemClock


def run(arguments: Namespace) -> int:
    """Runs `skerry undo`; returns the exit code: 1 when a file was refused."""
    config = load(os.environ, fetch=False).config
    journal = journal_of(config, SystemClock())
    selection = ChangeSelection(arguments.agent, arguments.session, arguments.turn, arguments.file)
    changes = chosen(journal, selection)
    if arguments.list:
        _list(changes, as_json=arguments.json)
        return 0
    if not (arguments.turn or arguments.file):
        changes = last_turn(changes)
    if not changes:
        raise FailedError(
            "No change matches, so nothing was undone.",
            "List the stored changes: skerry undo --list",
        )
    result = undone(config, journal, changes)
    if arguments.json:
        show_json(result)
    else:
        for path in result["undone"]:
            show(f"Undone: {one_line(path)}")
        for refusal in result["refused"]:
            notice(f"Not undone: {one_line(refusal['path'])}: {one_line(refusal['reason'])}.")
    return 1 if result["refused"] else 0


def _list(changes: list[Change], *, as_json: bool) -> None:
    if as_json:
        show_json({"changes": [row(change) for change in changes]})
        return
    if not changes:
        show("No changes are stored.")
        return
    lines: list[tuple[str, ...]] = [("WHEN", "AGENT", "TURN", "KIND", "FILE")]
    lines += [
        (
            local_time(change.at),
            one_line(change.agent_id),
            one_line(change.turn) or "-",
            change.kind,
            one_line(change.path),
        )
        for change in changes
    ]
    show(table(lines))
