"""Transcript lines that the database does not have: kept beside the mirror until a person decides.

An older database that was copied back, or one whose log was lost, lacks what the files still say.
Such a file is copied to `recovered/` before the mirror cuts it; one of a session that the database
does not have at all is moved there. A note beside each says what is in it.
"""

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model.session import entry_id
from skerry.store import rollback_check

FOLDER: Final = "recovered"
"""Folder in the state directory, with one folder per agent."""
REMEDY: Final = (
    "`skerry sessions recovered list` names them; with the gateway stopped, `import` takes them"
    " in and `discard` deletes them."
)
_NOTE: Final = ".note.json"
_HEAD: Final = re.compile(
    rb'\{"type":"(?:message|compaction)","id":"([0-9a-f]{8})","parentId":[^,]{1,64},'
    rb'"timestamp":"([^"]{1,40})"'
)
_BLOCK: Final = 1 << 20


class RecoveredFile(Struct, frozen=True, rename="camel"):
    """A transcript file with lines that the database did not have."""

    agent: str
    session_id: str
    key: str
    """Session key of the conversation; empty if unknown."""
    messages: int
    """Lines that the database did not have."""
    first: int
    """Number of the first of them, counted from 1."""
    written_at: int
    """Time of the file's last write, in milliseconds since 1970."""
    file: str = ""


def lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yields the whole lines of the file from byte `start` on; a torn last one is left out."""
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n"):
                yield line


def missing_lines(
    path: Path, start: int, after: int, known_entries: Mapping[str, tuple[int, str]]
) -> tuple[int, int]:
    """Returns how many lines from byte `start` on the database lacks, and the first's position.

    Args:
        path: The file.
        start: Where to begin.
        after: How many entries stand before that.
        known_entries: Number and time of the entries that the database has, by their ids.
    """
    count = first = 0
    position = after
    for line in lines(path, start):
        id_and_time = identity(line)
        if id_and_time is None:
            continue
        position += 1
        name, at = id_and_time
        if name in known_entries and known_entries[name][1] == at:
            continue
        count += 1
        first = first or position
    return count, first


def keep(state_dir: Path, path: Path, about: RecoveredFile, *, move: bool) -> Path:
    """Copies or moves a file to where it is kept, with its note; returns the new place. Blocks.

    A second copy of what is kept already is not made.

    Raises:
        OSError: there is no room, say; nothing of the old file was changed.
    """
    folder = state_dir / FOLDER / about.agent
    make_private(folder)
    target, number = folder / f"{about.session_id}.jsonl", 1
    while target.exists():
        if not move and _begins_with(target, path):
            return target
        number += 1
        target = folder / f"{about.session_id}.{number}.jsonl"
    note = target.with_name(target.name + _NOTE)
    write_atomic(note, msgspec.json.encode(about))
    if move:
        path.rename(target)
    else:
        _copy(path, target)
    _sync(folder)
    return target


def every(state_dir: Path) -> list[RecoveredFile]:
    """Returns the kept files, by agent and session. Blocks."""
    notes = []
    for note in sorted((state_dir / FOLDER).glob(f"*/*.jsonl{_NOTE}")):
        file = note.with_name(note.name.removesuffix(_NOTE))
        try:
            about = msgspec.json.decode(note.read_bytes(), type=RecoveredFile)
        except (OSError, *UNREADABLE):
            continue
        if file.is_file():  # else a kill came between the note and the file
            notes.append(msgspec.structs.replace(about, file=str(file)))
    return notes


class RecoveryNotice(Struct, frozen=True):
    """Notice for a person about kept files."""

    message: str
    remedy: str = REMEDY


def notice(state_dir: Path) -> RecoveryNotice | None:
    """Returns the notice; None if no file is kept. Blocks."""
    folder = state_dir / FOLDER
    if not folder.is_dir():
        return None
    kept_files, back = every(state_dir), rollback_check.read_note(folder)
    parts = [back.message] if back is not None else []
    if any(about.messages for about in kept_files):
        count = sum(about.messages for about in kept_files)
        number = len({about.session_id for about in kept_files if about.messages})
        parts.append(
            f"{count} messages of {number} sessions stand in"
            f" transcript files and not in the database; they are kept in {folder}."
        )
    return RecoveryNotice(" ".join(parts)) if parts else None


def drop(about: RecoveredFile) -> None:
    """Deletes the file and its note. Blocks."""
    file = Path(about.file)
    file.unlink(missing_ok=True)
    file.with_name(file.name + _NOTE).unlink(missing_ok=True)


def files(folder: Path) -> Iterator[Path]:
    """Yields the transcript files of a folder, those of archived sessions too."""
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if ".jsonl" in entry.name and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def mapped(folder: Path) -> dict[str, str]:
    """Returns the key of each session that the session map of the folder names."""
    try:
        session_map: Any = msgspec.json.decode((folder / "sessions.json").read_bytes())
    except (OSError, *UNREADABLE):
        return {}
    rows = session_map.items() if isinstance(session_map, dict) else ()
    return {
        session["sessionId"]: key
        for key, session in rows
        if isinstance(session, dict) and isinstance(session.get("sessionId"), str)
    }


def ids(entries: Iterable[tuple[Any, ...]]) -> dict[str, tuple[int, str]]:
    """Returns the number and the time of entries, given as rows of number and ms, by their ids.

    One whose row is damaged may have a time that is no number: then it is as none.
    """
    return {entry_id(seq): (seq, iso(at) if isinstance(at, int) else "") for seq, at in entries}


def iso(milliseconds: int) -> str:
    """Returns the time as a line has it."""
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def milliseconds(text: object) -> int | None:
    """Returns the time that a line has; None where that is none."""
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def identity(line: bytes) -> tuple[str, str] | None:
    """Returns id and time of the entry that a line is; None for a header or no JSON at all."""
    if (head := _HEAD.match(line)) is not None:
        return head[1].decode(), head[2].decode()
    try:
        entry = msgspec.json.decode(line)
    except UNREADABLE:
        return None
    if not isinstance(entry, dict) or entry.get("type") in {None, "session"}:
        return None
    return str(entry.get("id")), str(entry.get("timestamp"))


def _begins_with(target: Path, path: Path) -> bool:
    """Returns whether all of the file at `path` is kept in `target` already."""
    with target.open("rb") as old_copy, path.open("rb") as file:
        while block := file.read(_BLOCK):
            if old_copy.read(len(block)) != block:
                return False
    return True


def _copy(path: Path, target: Path) -> None:
    unfinished = target.with_name(f".{target.name}.new")
    try:
        with path.open("rb") as old, unfinished.open("wb") as new:
            os.fchmod(new.fileno(), 0o600)
            shutil.copyfileobj(old, new, _BLOCK)
            new.flush()
            os.fsync(new.fileno())
        unfinished.rename(target)
    finally:
        unfinished.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
