"""`skerry sessions recovered accept`: single messages that cannot be read are given up.

In the place of each stands a notice that says so, and a line of `recovered/accepted.jsonl` says
which it was, when it was given up and why. Then the storage is sound again.
"""

import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from skerry.app.build import open_state
from skerry.cli.recovered import Bad, broken_entries
from skerry.cli.render import show, show_json, table
from skerry.config.load import load
from skerry.infra.atomic import make_private
from skerry.infra.clock import SystemClock
from skerry.model.errors import ClientError
from skerry.sessions import recovering
from skerry.store import aside
from skerry.store.legible import Broken

AUDIT: Final = "accepted.jsonl"
"""File in the folder of recovered messages: one line for each message that was given up."""


@dataclass(frozen=True, slots=True)
class _Done:
    """Result for one entry."""

    entry: str
    key: str
    outcome: str
    failed: bool = False


async def accept(state_dir: Path, arguments: Namespace) -> int:
    """Gives up the entries that are named, or all that no file has; returns 1 if one stays.

    Raises:
        ClientError: one that is named can be read, or there is none.
    """
    done: list[_Done] = []
    async with open_state(load(os.environ, fetch=False).config) as (store, mirror):
        for bad in _chosen(broken_entries(state_dir), arguments.entries):
            if bad.in_file:
                outcome = "kept: a transcript file has it, `skerry sessions recovered import`"
                done.append(_Done(bad.name, bad.key, outcome, failed=True))
                continue
            now = SystemClock().now_ms()
            broken = Broken(bad.session_id, bad.seq, bad.why)
            _note(state_dir, bad, now)  # before it is done: what is given up is always told
            work = partial(recovering.accept, broken=broken, text=_notice(now), now=now)
            await store.write(work)
            await mirror.rewrite(store, [bad.session_id])
            done.append(_Done(bad.name, bad.key, "given up; a notice replaces it"))
    if arguments.json:
        show_json({"accepted": [asdict(entry) for entry in done]})
    elif done:
        rows = [(entry.entry, entry.key, entry.outcome) for entry in done]
        show(table([("ENTRY", "KEY", "OUTCOME"), *rows]))
    else:
        show("Every message can be read: there is nothing to give up.")
    return int(any(entry.failed for entry in done))


def _chosen(broken: Sequence[Bad], names: Sequence[str]) -> list[Bad]:
    """Returns the entries with these names, each once; all of them without a name."""
    if not names:
        return list(broken)
    by_name = {entry.name: entry for entry in broken}
    for name in names:
        if name not in by_name:
            error = ClientError(f"No unreadable message is named {name!r}.")
            error.remedy = "`skerry sessions recovered list` names the unreadable ones."
            raise error
    return [by_name[name] for name in dict.fromkeys(names)]


def _notice(now: int) -> str:
    day = f"{datetime.fromtimestamp(now / 1000, UTC).astimezone():%Y-%m-%d}"
    return f"⚠️ The message that stood here could not be read any more. It was given up on {day}."


def _note(state_dir: Path, bad: Bad, now: int) -> None:
    """Adds a durable line to the list of what was given up."""
    folder = state_dir / aside.FOLDER
    make_private(folder)
    line = msgspec.json.encode({"at": aside.iso(now), **asdict(bad), "by": "cli"}) + b"\n"
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / AUDIT, flags, 0o600)
    try:
        os.write(descriptor, line)  # one write: whole or not at all
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
