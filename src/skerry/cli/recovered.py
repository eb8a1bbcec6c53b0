"""`skerry sessions recovered`: what transcript files have and the database does not."""

import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from skerry.cli.render import notice, show, show_json, table
from skerry.config.load import load
from skerry.infra import sqlite
from skerry.infra.clock import SystemClock
from skerry.model.errors import ClientError, InvalidSessionKeyError
from skerry.sessions.importing import FormatError
from skerry.store import DATABASE, Reader, Store, aside, legible, reached, sessions
from skerry.store.aside import Aside


@dataclass(frozen=True, slots=True)
class Bad:
    """An entry of the database that cannot be read."""

    session_id: str
    key: str
    seq: int
    why: str
    in_file: bool

    @property
    def name(self) -> str:
        """Returns its name in a command."""
        return f"{self.session_id}:{self.seq}"


def broken_entries(state_dir: Path) -> list[Bad]:
    """Returns the entries that cannot be read, and whether a transcript file has each whole."""
    if not (state_dir / DATABASE).exists():
        return []
    with closing(sqlite.connect(state_dir / DATABASE, read_only=True)) as connection:
        reader = Reader(connection)
        found = []
        for one in legible.scan(reader):
            session = sessions.get(reader, one.session_id)
            key = session.key if session else ""
            whole = any(one.seq in _whole(file) for file in _files(state_dir, one.session_id))
            found.append(Bad(one.session_id, key, one.seq, one.why, whole))
    return found


def _files(state_dir: Path, session_id: str) -> list[Path]:
    """Returns the transcript files of the session, and those that are kept aside."""
    there = [
        *state_dir.glob(f"agents/*/sessions/{session_id}.jsonl*"),
        *state_dir.glob(f"{aside.FOLDER}/*/{session_id}*.jsonl"),
    ]
    return [one for one in there if one.is_file()]


def _whole(file: Path) -> set[int]:
    """Returns the numbers of the entries that can be read in the file.

    A copy of a damaged entry, as the mirror makes it, is damaged too.
    """
    from skerry.sessions import recovering  # noqa: PLC0415 - few databases are damaged

    return {seq for seq, _, _ in recovering.entries_of(file)}


@dataclass(frozen=True, slots=True)
class _Done:
    """Result for one file."""

    session: str
    key: str
    messages: int
    outcome: str
    failed: bool = False


LOST: Final = "no transcript file has it; `skerry sessions recovered accept` gives it up"


def run(arguments: Namespace) -> int:
    """Lists, import, accept or discard; returns 1 when a file could not be taken in."""
    state_dir = load(os.environ, fetch=False).config.state_dir
    if arguments.action == "list":
        return _list(state_dir, arguments)
    if arguments.action == "discard":
        return _discard(state_dir, arguments)
    if arguments.action == "accept":
        # Imported here: few databases are damaged.
        from skerry.cli.accepting import accept  # noqa: PLC0415 - see above

        return anyio.run(accept, state_dir, arguments)
    return anyio.run(_import, state_dir, arguments)


def _list(state_dir: Path, arguments: Namespace) -> int:
    kept, back = aside.every(state_dir), reached.kept(state_dir / aside.FOLDER)
    broken = broken_entries(state_dir)
    if arguments.json:
        shown: dict[str, Any] = {
            "rolledBack": msgspec.to_builtins(back) if back else None,
            "recovered": msgspec.to_builtins(kept),
            "unreadable": [asdict(one) for one in broken],
        }
        show_json(shown)
        return 0
    if back is not None:
        show(back.message)
    for bad in broken:
        where = "its transcript file has it" if bad.in_file else "no file has it"
        show(f"{bad.name} (entry {bad.seq} of {bad.key}) cannot be read; {where}.")
    if not kept and not broken:
        show("No message is kept aside: the database has all that the transcript files have.")
        return 0
    if broken and not all(bad.in_file for bad in broken):
        notice("With the gateway stopped, what no file has: skerry sessions recovered accept --all")
    if not kept:
        if any(bad.in_file for bad in broken):
            notice("With the gateway stopped: skerry sessions recovered import")
        return 0
    rows = [
        (
            one.session_id,
            one.key or "unknown",
            str(one.messages),
            f"{datetime.fromtimestamp(one.written_at / 1000, UTC).astimezone():%Y-%m-%d %H:%M}",
            one.file,
        )
        for one in kept
    ]
    show(table([("SESSION", "KEY", "MESSAGES", "LAST WRITTEN", "FILE"), *rows]))
    notice("With the gateway stopped: skerry sessions recovered import")
    return 0


def _discard(state_dir: Path, arguments: Namespace) -> int:
    """Deletes what was named, or all of it and the note that the database went back."""
    chosen = _chosen(state_dir, arguments)
    for one in chosen:
        aside.drop(one)
    if arguments.all:
        (state_dir / aside.FOLDER / reached.NOTE).unlink(missing_ok=True)
    if arguments.json:
        show_json({"discarded": [one.file for one in chosen]})
    else:
        show(f"Files deleted: {len(chosen)}.")
    return 0


async def _mend(store: Store, state_dir: Path) -> list[_Done]:
    """Writes the entries that cannot be read as their transcript files have them."""
    from skerry.sessions import recovering  # noqa: PLC0415 - only the import needs it

    done = []
    for bad in await store.scan(legible.scan):
        files = _files(state_dir, bad.session_id)
        mended = await store.write(partial(recovering.mend, broken=bad, files=files))
        outcome = "mended from its transcript file" if mended else LOST
        name = f"entry {bad.seq}"
        done.append(_Done(bad.session_id, name, int(mended), outcome, failed=not mended))
    return done


async def _import(state_dir: Path, arguments: Namespace) -> int:
    # Heavy imports, which only this action needs.
    from skerry.app.build import open_state  # noqa: PLC0415 - see above
    from skerry.sessions import recovering  # noqa: PLC0415 - see above

    async with open_state(load(os.environ, fetch=False).config) as (store, mirror):
        done = await _mend(store, state_dir)
        chosen = _chosen(state_dir, arguments)  # the start may have found more
        for one in chosen:
            try:
                work = partial(recovering.take, about=one, now=SystemClock().now_ms())
                outcome = str(await store.write(work))
            except (FormatError, InvalidSessionKeyError, OSError) as error:
                done.append(
                    _Done(one.session_id, one.key, 0, f"not imported: {error}", failed=True)
                )
                continue
            await mirror.flush(store)
            aside.drop(one)
            done.append(_Done(one.session_id, one.key, one.messages, outcome))
    if not aside.every(state_dir):
        (state_dir / aside.FOLDER / reached.NOTE).unlink(missing_ok=True)
    if arguments.json:
        show_json({"recovered": [asdict(one) for one in done]})
    elif done:
        rows = [(one.session, one.key, str(one.messages), one.outcome) for one in done]
        show(table([("SESSION", "KEY", "MESSAGES", "OUTCOME"), *rows]))
    else:
        show("No message is kept aside: there is nothing to import.")
    return int(any(one.failed for one in done))


def _chosen(state_dir: Path, arguments: Namespace) -> Sequence[Aside]:
    """Returns the files that the arguments name: a session, its key or a file; all without a name.

    Raises:
        ClientError: nothing is kept by that name.
    """
    kept = aside.every(state_dir)
    if not arguments.name:
        return kept
    name = arguments.name
    found = [one for one in kept if name in {one.session_id, one.key, one.file}]
    if not found:
        error = ClientError(f"Nothing is kept aside of {name!r}.")
        error.remedy = "`skerry sessions recovered list` names what is."
        raise error
    return found
