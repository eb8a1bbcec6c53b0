"""`skerry sessions recovered`: messages that only transcript files have, and unreadable ones.

`accept` gives up single unreadable messages: a notice replaces each, and a line of
`recovered/accepted.jsonl` records its identity, the time and the reason. Afterwards the storage is
intact.
"""

import os
from argparse import Namespace
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import msgspec

from skerry.app.build import open_state
from skerry.cli.render import notice, show, show_json, table
from skerry.config.load import load
from skerry.infra import sqlite
from skerry.infra.atomic import make_private
from skerry.infra.clock import SystemClock
from skerry.model.errors import ClientError, InvalidSessionKeyError
from skerry.sessions import recovering
from skerry.sessions.importing import FormatError
from skerry.store import (
    DATABASE,
    Reader,
    Store,
    recovered_lines,
    rollback_check,
    sessions,
    unreadable_entries,
)
from skerry.store.recovered_lines import RecoveredFile
from skerry.store.unreadable_entries import BrokenEntry

AUDIT: Final = "accepted.jsonl"
"""File in the folder of recovered messages: one line for each given-up message."""
NO_COPY: Final = "no transcript file has it; give it up with `skerry sessions recovered accept`"


@dataclass(frozen=True, slots=True)
class UnreadableEntry:
    """An unreadable entry of the database."""

    session_id: str
    key: str
    seq: int
    why: str
    in_file: bool

    @property
    def name(self) -> str:
        """Returns its name in a command."""
        return f"{self.session_id}:{self.seq}"


@dataclass(frozen=True, slots=True)
class _Imported:
    """Result for one file."""

    session: str
    key: str
    messages: int
    outcome: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class _Accepted:
    """Result for one unreadable entry."""

    entry: str
    key: str
    outcome: str
    failed: bool = False


def run(arguments: Namespace) -> int:
    """Lists, imports, accepts or discards; returns 1 when an entry could not be processed."""
    state_dir = load(os.environ, fetch=False).config.state_dir
    match arguments.action:
        case "list":
            return _list(state_dir, arguments)
        case "discard":
            return _discard(state_dir, arguments)
        case "accept":
            return anyio.run(accept, state_dir, arguments)
        case _:
            return anyio.run(_import, state_dir, arguments)


def _unreadable(state_dir: Path) -> list[UnreadableEntry]:
    """Returns the unreadable entries, each with the existence of an intact copy."""
    if not (state_dir / DATABASE).exists():
        return []
    with closing(sqlite.connect(state_dir / DATABASE, read_only=True)) as connection:
        reader = Reader(connection)
        entries = []
        for broken in unreadable_entries.scan(reader):
            session = sessions.get(reader, broken.session_id)
            key = session.key if session else ""
            files = _files(state_dir, broken.session_id)
            in_file = any(broken.seq in _readable(file) for file in files)
            entries.append(
                UnreadableEntry(broken.session_id, key, broken.seq, broken.reason, in_file)
            )
    return entries


def _files(state_dir: Path, session_id: str) -> list[Path]:
    """Returns the transcript files of the session, including recovered ones."""
    paths = [
        *state_dir.glob(f"agents/*/sessions/{session_id}.jsonl*"),
        *state_dir.glob(f"{recovered_lines.FOLDER}/*/{session_id}*.jsonl"),
    ]
    return [path for path in paths if path.is_file()]


def _readable(file: Path) -> set[int]:
    """Returns the numbers of the readable entries of the file.

    The mirror's copy of a damaged entry is also damaged.
    """
    return {seq for seq, _, _ in recovering.entries_of(file)}


def _list(state_dir: Path, arguments: Namespace) -> int:
    files = recovered_lines.every(state_dir)
    rolled_back = rollback_check.read_note(state_dir / recovered_lines.FOLDER)
    unreadable = _unreadable(state_dir)
    if arguments.json:
        show_json(
            {
                "rolledBack": msgspec.to_builtins(rolled_back) if rolled_back else None,
                "recovered": msgspec.to_builtins(files),
                "unreadable": [asdict(entry) for entry in unreadable],
            }
        )
        return 0
    if rolled_back is not None:
        show(rolled_back.message)
    for entry in unreadable:
        copy_state = "a transcript file has it" if entry.in_file else "no file has it"
        show(f"{entry.name} (entry {entry.seq} of {entry.key}) cannot be read; {copy_state}.")
    if not files and not unreadable:
        show("No recovered messages: the database has all messages of the transcript files.")
        return 0
    if not all(entry.in_file for entry in unreadable):
        notice("Stop the gateway, then give up the rest: skerry sessions recovered accept --all")
    if files:
        rows = [
            (
                file.session_id,
                file.key or "unknown",
                str(file.messages),
                f"{_local(file.written_at):%Y-%m-%d %H:%M}",
                file.file,
            )
            for file in files
        ]
        show(table([("SESSION", "KEY", "MESSAGES", "LAST WRITTEN", "FILE"), *rows]))
    if files or any(entry.in_file for entry in unreadable):
        notice("Stop the gateway, then run: skerry sessions recovered import")
    return 0


def _discard(state_dir: Path, arguments: Namespace) -> int:
    """Deletes the named files, or all and the note that the database was rolled back."""
    chosen = _chosen(state_dir, arguments)
    for file in chosen:
        recovered_lines.drop(file)
    if arguments.all:
        (state_dir / recovered_lines.FOLDER / rollback_check.NOTE).unlink(missing_ok=True)
    if arguments.json:
        show_json({"discarded": [file.file for file in chosen]})
    else:
        show(f"Files deleted: {len(chosen)}.")
    return 0


async def _import(state_dir: Path, arguments: Namespace) -> int:
    async with open_state(load(os.environ, fetch=False).config) as (store, mirror):
        results = await _mend(store, state_dir)
        for file in _chosen(state_dir, arguments):  # the start may have recovered more
            try:
                work = partial(recovering.take, about=file, now=SystemClock().now_ms())
                outcome = str(await store.write(work))
            except (FormatError, InvalidSessionKeyError, OSError) as error:
                failure = f"not imported: {error}"
                results.append(_Imported(file.session_id, file.key, 0, failure, failed=True))
                continue
            await mirror.flush(store)
            recovered_lines.drop(file)
            results.append(_Imported(file.session_id, file.key, file.messages, outcome))
    if not recovered_lines.every(state_dir):
        (state_dir / recovered_lines.FOLDER / rollback_check.NOTE).unlink(missing_ok=True)
    if arguments.json:
        show_json({"recovered": [asdict(result) for result in results]})
    elif results:
        rows = [
            (result.session, result.key, str(result.messages), result.outcome) for result in results
        ]
        show(table([("SESSION", "KEY", "MESSAGES", "OUTCOME"), *rows]))
    else:
        show("No recovered messages, so nothing was imported.")
    return int(any(result.failed for result in results))


async def _mend(store: Store, state_dir: Path) -> list[_Imported]:
    """Replaces unreadable entries by those of their transcript files."""
    results = []
    for broken in await store.scan(unreadable_entries.scan):
        files = _files(state_dir, broken.session_id)
        mended = await store.write(partial(recovering.mend, broken=broken, files=files))
        outcome = "repaired from its transcript file" if mended else NO_COPY
        name = f"entry {broken.seq}"
        results.append(_Imported(broken.session_id, name, int(mended), outcome, failed=not mended))
    return results


def _chosen(state_dir: Path, arguments: Namespace) -> Sequence[RecoveredFile]:
    """Returns the files of the named session, key or file; all without a name.

    Raises:
        ClientError: no file has the name.
    """
    files = recovered_lines.every(state_dir)
    if not arguments.name:
        return files
    name = arguments.name
    chosen = [file for file in files if name in {file.session_id, file.key, file.file}]
    if not chosen:
        raise ClientError(
            f"No recovered messages of {name!r}.",
            "List them: skerry sessions recovered list",
        )
    return chosen


async def accept(state_dir: Path, arguments: Namespace) -> int:
    """Gives up the named entries, or all without a copy; returns 1 when one is kept.

    Raises:
        ClientError: a named entry is readable or unknown.
    """
    results: list[_Accepted] = []
    async with open_state(load(os.environ, fetch=False).config) as (store, mirror):
        for entry in _named(_unreadable(state_dir), arguments.entries):
            if entry.in_file:
                outcome = "kept: a transcript file has it; run `skerry sessions recovered import`"
                results.append(_Accepted(entry.name, entry.key, outcome, failed=True))
                continue
            now = SystemClock().now_ms()
            broken = BrokenEntry(entry.session_id, entry.seq, entry.why)
            _record(state_dir, entry, now)  # first, so that each given-up message is recorded
            work = partial(recovering.accept, broken=broken, text=_notice(now), now=now)
            await store.write(work)
            await mirror.rewrite(store, [entry.session_id])
            results.append(_Accepted(entry.name, entry.key, "given up; a notice replaces it"))
    if arguments.json:
        show_json({"accepted": [asdict(result) for result in results]})
    elif results:
        rows = [(result.entry, result.key, result.outcome) for result in results]
        show(table([("ENTRY", "KEY", "OUTCOME"), *rows]))
    else:
        show("Every message is readable, so none was given up.")
    return int(any(result.failed for result in results))


def _named(entries: Sequence[UnreadableEntry], names: Sequence[str]) -> list[UnreadableEntry]:
    """Returns the entries with these names, each once; all of them without a name."""
    if not names:
        return list(entries)
    by_name = {entry.name: entry for entry in entries}
    for name in names:
        if name not in by_name:
            raise ClientError(
                f"Unknown unreadable message {name!r}.",
                "List the unreadable messages: skerry sessions recovered list",
            )
    return [by_name[name] for name in dict.fromkeys(names)]


def _notice(now: int) -> str:
    when = f"{_local(now):%Y-%m-%d}"
    return f"⚠️ This message was unreadable. It was given up on {when}."


def _local(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone()


def _record(state_dir: Path, entry: UnreadableEntry, now: int) -> None:
    """Appends a durable line to the list of given-up messages."""
    folder = state_dir / recovered_lines.FOLDER
    make_private(folder)
    line = (
        msgspec.json.encode({"at": recovered_lines.iso(now), **asdict(entry), "by": "cli"}) + b"\n"
    )
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(folder / AUDIT, flags, 0o600)
    try:
        os.write(descriptor, line)  # a single write is atomic
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
