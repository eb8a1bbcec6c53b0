"""Transcript lines that the database does not have, kept until a person decides about them.

A database that was replaced by an older copy, or that lost its log, lacks lines that the mirror
files still have. Such a file is copied to `recovered/` before the mirror cuts it; the file of a
session that the database does not have is moved there. A note next to each describes its content.
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
    "`skerry sessions recovered list` lists them. Stop the gateway; then `import` adds them to the"
    " database, and `discard` deletes them."
)
_NOTE: Final = ".note.json"
_HEAD: Final = re.compile(
    rb'\{"type":"(?:message|compaction)","id":"([0-9a-f]{8})","parentId":[^,]{1,64},'
    rb'"timestamp":"([^"]{1,40})"'
)
_BLOCK: Final = 1 << 20


class RecoveredFile(Struct, frozen=True, rename="camel"):
    """A kept transcript file with lines that the database lacked."""

    agent: str
    session_id: str
    key: str
    """Session key of the conversation; empty if unknown."""
    messages: int
    """Number of lines that the database lacked."""
    first: int
    """Number of the first of them, counted from 1."""
    written_at: int
    """Time of the file's last write, in milliseconds since 1970."""
    file: str = ""


def lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """Yields the complete lines of the file from byte `start` on, without a torn last line."""
    with path.open("rb") as file:
        file.seek(start)
        for line in file:
            if line.endswith(b"\n"):
                yield line


def missing_lines(
    path: Path, start: int, after: int, known_entries: Mapping[str, tuple[int, str]]
) -> tuple[int, int]:
    """Returns the number of lines that the database lacks, and the position of the first of them.

    Args:
        path: The file.
        start: Byte at which to begin.
        after: Number of entries before that byte.
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
    """Copies or moves a file to `recovered/`, and writes its note; returns the new path. Blocks.

    A file whose content is already kept is not copied again.

    Raises:
        OSError: the file could not be kept, for example on a full disk; it is unchanged.
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
        if file.is_file():  # a kill between the note and the file leaves only the note
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
            f"{count} messages of {number} sessions are in transcript files but not in the"
            f" database; they are kept in {folder}."
        )
    return RecoveryNotice(" ".join(parts)) if parts else None


def drop(about: RecoveredFile) -> None:
    """Deletes the file and its note. Blocks."""
    file = Path(about.file)
    file.unlink(missing_ok=True)
    file.with_name(file.name + _NOTE).unlink(missing_ok=True)


def files(folder: Path) -> Iterator[Path]:
    """Yields the transcript files of a folder, including those of archived sessions."""
    if folder.is_dir():
        with os.scandir(folder) as entries:
            for entry in entries:
                if ".jsonl" in entry.name and entry.is_file(follow_symlinks=False):
                    yield Path(entry.path)


def mapped(folder: Path) -> dict[str, str]:
    """Returns the session keys by session id, from the session map of the folder."""
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
    """Returns number and ISO time of entries by their ids, from rows of number and ms.

    The time is empty if it is not a number in a damaged row.
    """
    return {entry_id(seq): (seq, iso(at) if isinstance(at, int) else "") for seq, at in entries}


def iso(milliseconds: int) -> str:
    """Returns the time in the ISO form of a line."""
    text = datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def milliseconds(text: object) -> int | None:
    """Parses the ISO time of a line; None if it is not valid."""
    try:
        return round(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


def identity(line: bytes) -> tuple[str, str] | None:
    """Returns id and time of the entry in a line; None for a header or invalid JSON."""
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
    """Returns whether `target` begins with the whole content of `path`."""
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
