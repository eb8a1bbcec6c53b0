"""`skerry undo`: lists and reverts the file changes of agents; needs no gateway.

A running gateway reverts them itself, because it records who wrote the files.
"""

import os
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, Final

import anyio

from skerry.cli.failure import FailedError
from skerry.cli.render import local_time, notice, one_line, show, show_json, table
from skerry.client.client import GatewayClient
from skerry.client.discover import find
from skerry.config.gateway import LOCK
from skerry.config.load import load
from skerry.config.root import Config
from skerry.features.files.journal import Change, Journal
from skerry.features.files.undoing import (
    ChangeSelection,
    chosen,
    journal_of,
    last_turn,
    row,
    undone,
)
from skerry.infra.clock import SystemClock
from skerry.infra.lock import owner

_ADMIN: Final = ("operator.admin",)


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
    result = _undone(config, journal, changes)
    if arguments.json:
        show_json(result)
    else:
        _tell(result)
    return 1 if result["refused"] else 0


def _undone(config: Config, journal: Journal, changes: Sequence[Change]) -> dict[str, Any]:
    """Reverts changes, in the running gateway if there is one."""
    if owner(config.state_dir / LOCK) is not None:
        return anyio.run(_by_gateway, changes)
    return undone(config, journal, changes, None)


def _tell(result: dict[str, Any]) -> None:
    for path in result["undone"]:
        show(f"Undone: {one_line(path)}")
    for refusal in result["refused"]:
        notice(f"Not undone: {one_line(refusal['path'])}: {one_line(refusal['reason'])}.")


async def _by_gateway(changes: Sequence[Change]) -> dict[str, Any]:
    """Reverts changes in the running gateway; returns the undone and the refused ones."""
    params = {"ids": [change.id for change in changes]}
    async with GatewayClient(find(os.environ), scopes=_ADMIN) as client:
        result: dict[str, Any] = await client.request("files.undo", params)
    return result


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
