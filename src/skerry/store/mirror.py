"""Writes the files `<id>.jsonl` (pi v3) and `sessions.json` after the database, for other tools.

The gateway does not read them. After a commit the mirror reads the new entries of its sessions from
the database and appends them. The database stores a mark (entries and bytes) of the position up to
which each file is written: data after the mark, from a crash, is cut off and written again, so no
line is lost or doubled. A file that is shorter than its mark is rewritten. A file with lines that
the database does not have is kept before it is cut (see `recovered_lines`).

The file of an archived session is renamed to `<sessionId>.jsonl.<reason>.<time>`, and renamed back
when the session is restored. The database determines the name, so a crash in between is repaired.
"""

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field

from skerry.infra.atomic import make_private, write_atomic
from skerry.infra.untrusted_json import UNREADABLE
from skerry.model import message
from skerry.model.errors import StateError
from skerry.model.ids import AgentId
from skerry.model.session import Archived, SessionEntry, entry_id
from skerry.store import (
    compactions,
    recovered_lines,
    rollback_check,
    session_map,
    sessions,
    unreadable_entries,
)
from skerry.store.session_listing import SessionFilter, recent
from skerry.store.store import Store, TouchedSessions, no_fault
from skerry.store.unit import Reader, Unit

logger = logging.getLogger(__name__)

COLLECT_SECONDS = 0.1
INDEX_SECONDS = 5.0
BATCH_BYTES = 4 * 1024 * 1024
"""Approximate bytes of one write: the missing entries may have gigabytes of images."""
INDEX_SHARE = 50
"""Factor on the time that writing the session maps takes, for the pause after it: each map is
written as a whole."""
_encode = msgspec.json.encode


class _Mark(Struct):
    """Position up to which a file is written, in entries and bytes."""

    seq: int
    size: int


class Mirror(Struct):
    """Writes the files: pass changed sessions to `touched`, run `run`, and `flush` at the end."""

    agents_dir: Path
    cwd: Path
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    touched: TouchedSessions = field(default_factory=lambda: TouchedSessions(COLLECT_SECONDS))
    """Sessions with entries that are not in their files."""
    _stale: set[AgentId] = field(default_factory=set)
    _marks: dict[str, _Mark] = field(default_factory=dict)
    _unsaved: set[str] = field(default_factory=set)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while marks and files change, so that no mark is saved while its file is restarted."""

    async def run(self, store: Store) -> None:
        """Appends new entries, at most every 100 ms; writes the session maps at most every 5 s.

        Maps that take longer than 0.1 s to write are written less often, so that writing them takes
        at most a fiftieth of the time.
        """
        next_index = anyio.current_time() + INDEX_SECONDS
        while True:
            behind = self._stale or self._unsaved or self.touched.waiting
            with anyio.move_on_after(next_index - anyio.current_time() if behind else None):
                await self.touched.due()
            await self._append(store)
            if anyio.current_time() >= next_index:
                began = anyio.current_time()
                await self._index(store)
                now = anyio.current_time()
                next_index = now + max(INDEX_SECONDS, INDEX_SHARE * (now - began))

    async def repair(self, store: Store) -> None:
        """Brings every file up to date; called at the start, before `run`.

        Lines that only the files have are kept in `recovered/`, and the store gets a notice.
        """
        try:
            await anyio.to_thread.run_sync(self._look_back, store)
        except OSError as error:
            # A full disk, for example, must not stop the start. The files stay as they are.
            logger.warning("lost messages were not copied, retrying at the next start: %s", error)
        self.touched.waiting.update(await store.read(self._behind))
        await self.flush(store)
        await anyio.to_thread.run_sync(self._update_notice, store)

    def _look_back(self, store: Store) -> None:
        """Detects a rolled back database, and keeps files of sessions that it does not have."""
        state_dir = self.agents_dir.parent
        now = store.read_now(rollback_check.read)
        rollback = rollback_check.compare(rollback_check.noted(state_dir), now)
        if rollback is not None:
            logger.error("%s %s", rollback.message, recovered_lines.REMEDY)
            rollback_check.keep(state_dir / recovered_lines.FOLDER, rollback)
            rollback_check.write(state_dir, now)
        rows = store.read_now(lambda reader: reader.all("SELECT session_id FROM session"))
        session_ids = {session_id for (session_id,) in rows}
        for folder in sorted(self.agents_dir.glob("*/sessions")):
            keys: dict[str, str] | None = None
            for path in sorted(recovered_lines.files(folder)):
                session_id = path.name.partition(".jsonl")[0]
                if session_id in session_ids:
                    continue
                keys = recovered_lines.mapped(folder) if keys is None else keys
                agent, key = folder.parent.name, keys.get(session_id, "")
                self._keep(path, (agent, session_id, key), 0, 0, {})

    def _keep(
        self,
        path: Path,
        owner: tuple[str, str, str],
        start: int,
        after: int,
        entries: dict[str, tuple[int, str]],
    ) -> None:
        """Copies or moves the file to `recovered/` if it has lines that the database lacks.

        Raises:
            OSError: the file could not be kept; the caller must not cut it.
        """
        count, first = recovered_lines.missing_lines(path, start, after, entries)
        if not count:
            return
        about = recovered_lines.RecoveredFile(
            *owner, count, first, path.stat().st_mtime_ns // 1_000_000
        )
        copy = recovered_lines.keep(self.agents_dir.parent, path, about, move=not entries)
        logger.error(
            "%s has %d messages that are missing in the database; they are kept in %s. %s",
            path,
            count,
            copy,
            recovered_lines.REMEDY,
        )

    def _update_notice(self, store: Store) -> None:
        """Updates the store's notice about files in `recovered/`."""
        store.condition.aside = recovered_lines.notice(self.agents_dir.parent)

    async def rebuild(self, store: Store) -> int:
        """Rewrites every file from the database; returns the number of transcripts."""
        rows = await store.read(lambda reader: reader.all("SELECT session_id FROM session"))
        await self.rewrite(store, [session_id for (session_id,) in rows])
        return len(rows)

    async def rewrite(self, store: Store, session_ids: Sequence[str]) -> None:
        """Rewrites the files of sessions whose stored entries were changed."""
        async with self._writing:  # a write in progress has read the entries before the change
            for session_id in session_ids:
                self._marks[session_id] = _Mark(0, 0)
            self.touched.waiting.update(session_ids)
        await self.flush(store)

    async def flush(self, store: Store) -> None:
        """Writes all pending entries, the session maps and the marks."""
        await self._append(store)
        await self._index(store)

    async def _append(self, store: Store) -> None:
        async with self._writing:
            await self._append_dirty(store)

    async def _append_dirty(self, store: Store) -> None:
        dirty = self.touched.take()
        if not dirty:
            return
        try:
            await anyio.to_thread.run_sync(self._append_files, store, dirty)
        finally:
            self.touched.waiting |= dirty  # the sessions that were not written

    def _append_files(self, store: Store, dirty: set[str]) -> None:
        """Brings the files of the sessions up to date; removes each written one from `dirty`."""
        for session_id in tuple(dirty):
            try:
                while self._append_some(store, session_id):
                    pass
            except (OSError, StateError) as error:
                # One file that cannot be written must not delay the others.
                logger.warning("a transcript file was not written, retrying: %s", error)
            else:
                dirty.remove(session_id)

    def _append_some(self, store: Store, session_id: str) -> bool:
        """Writes some of the session's missing entries; returns whether more are missing."""
        behind = store.read_now(partial(self._behind_by, session_id=session_id))
        if behind is None:
            return False
        session, mark, data, entries = behind
        self._stale.add(session.agent_id)
        file = transcript_file(self.agents_dir, session)
        if not mark.size and _size(file):
            self._spare_broken(store, session, file)
        # The reader is free here, so that no other read waits for the disk.
        if _size(file) > mark.size:
            self._spare(store, session, file, mark)
        if not (entries or mark.size):
            return False  # a session without entries has no file
        mark.size = _extend(file, mark.size, data)
        mark.seq += entries
        self._marks[session_id] = mark
        self._unsaved.add(session_id)
        return entries > 0 and mark.seq < session.tail

    def _spare_broken(self, store: Store, session: SessionEntry, file: Path) -> None:
        """Copies a file before it is rewritten if the database has unreadable entries of it."""
        broken = store.read_now(
            partial(unreadable_entries.scan_session, session_id=session.session_id)
        )
        for entry in broken:
            store.condition.broken(entry.session_id, entry.seq, entry.reason)
        if broken:
            owner = session.agent_id, session.session_id, session.key
            about = recovered_lines.RecoveredFile(
                *owner, 0, 0, file.stat().st_mtime_ns // 1_000_000
            )
            recovered_lines.keep(self.agents_dir.parent, file, about, move=False)

    def _spare(self, store: Store, session: SessionEntry, file: Path, mark: _Mark) -> None:
        """Copies the file if the lines that are cut off are missing in the database."""
        rows = store.read_now(lambda reader: sessions.times(reader, session.session_id, mark.seq))
        owner = (session.agent_id, session.session_id, session.key)
        entries = recovered_lines.ids(rows) | {
            "": (0, "")
        }  # not empty, so that the file is copied, not moved
        self._keep(file, owner, mark.size, mark.seq, entries)
        self._update_notice(store)

    def _behind_by(
        self, reader: Reader, session_id: str
    ) -> tuple[SessionEntry, _Mark, bytes, int] | None:
        """Returns the session, the mark, the missing data after it, and its number of entries.

        The data is only the first part if it is large: entries may have images.
        """
        session = sessions.get(reader, session_id)
        if session is None:
            return None
        file = transcript_file(self.agents_dir, session)
        mark = self._marks.get(session_id) or _read_mark(reader, session_id)
        if mark.size or session.archived:  # a new file has no other name, so skip the listing
            self._rename(file, session_id)
        if _size(file) < mark.size:
            mark = _Mark(0, 0)
        rows = sessions.bodies_after(reader, session_id, mark.seq, BATCH_BYTES)
        lines = []
        for seq, parent, at, kind, body in rows:
            try:
                lines.append(_line(seq, parent, at, body, compaction=kind is not None))
            except (TypeError, *UNREADABLE) as error:
                reader.broken(session_id, seq, str(error))
        head = b"" if mark.size else self._header(session_id, session.created_at)
        return session, mark, head + b"".join(lines), rows[-1][0] - mark.seq if rows else 0

    def _rename(self, file: Path, session_id: str) -> None:
        """Renames the file if it still has the name of another state of the session."""
        if file.exists():
            return
        plain = f"{session_id}.jsonl"
        archived = tuple(f"{plain}.{reason}." for reason in Archived)
        names = os.listdir(file.parent) if file.parent.is_dir() else []  # noqa: PTH208 - only names
        for name in names:
            if name == plain or name.startswith(archived):
                self.reach("mirror.before-rename")
                (file.parent / name).rename(file)
                self.reach("mirror.after-rename")
                return

    def _behind(self, reader: Reader) -> list[str]:
        """Returns the sessions whose file differs from the database in name or size."""
        rows = reader.all("SELECT session_id, seq, size FROM mirror")
        marks = {session_id: (seq, size) for session_id, seq, size in rows}
        behind: list[str] = []
        for session in recent(reader, SessionFilter(archived=None), limit=-1):
            seq, size = marks.get(session.session_id, (0, 0))
            if session.tail != seq or _size(transcript_file(self.agents_dir, session)) != size:
                behind.append(session.session_id)
        return behind

    def _header(self, session_id: str, created_at: int) -> bytes:
        header = {
            "type": "session",
            "version": 3,
            "id": session_id,
            "timestamp": recovered_lines.iso(created_at),
            "cwd": str(self.cwd),
        }
        return _encode(header) + b"\n"

    async def _index(self, store: Store) -> None:
        async with self._writing:
            await self._save(store)

    async def _save(self, store: Store) -> None:
        stale, self._stale = self._stale, set()
        unsaved, self._unsaved = self._unsaved, set()
        marks = [
            (dirty_id, self._marks[dirty_id].seq, self._marks[dirty_id].size)
            for dirty_id in unsaved
        ]
        if not (stale or marks):
            return
        try:
            maps = await store.read(lambda reader: session_map.built(reader, stale))
            await anyio.to_thread.run_sync(self._write_maps, maps)
            now = await store.write(lambda unit: _save_marks(unit, marks))
            await anyio.to_thread.run_sync(rollback_check.write, self.agents_dir.parent, now)
        except BaseException as error:
            self._stale |= stale
            self._unsaved |= unsaved
            if not isinstance(error, OSError | StateError):
                raise
            logger.warning("a session map was not written, retrying: %s", error)
            return
        for session_id in unsaved - self.touched.waiting:
            del self._marks[session_id]  # bounds memory; the mark is read again when needed

    def _write_maps(self, maps: dict[AgentId, dict[str, Any]]) -> None:
        for agent, sessions_map in maps.items():
            target = self.agents_dir / agent / "sessions" / "sessions.json"
            write_atomic(target, msgspec.json.format(_encode(sessions_map), indent=2))


def transcript_file(agents_dir: Path, session: SessionEntry) -> Path:
    """Returns the path of the session's transcript file."""
    name = f"{session.session_id}.jsonl"
    if session.archived is not None:
        name += f".{session.archived}.{recovered_lines.iso(session.archived_at).replace(':', '-')}"
    return agents_dir / session.agent_id / "sessions" / name


def _read_mark(reader: Reader, session_id: str) -> _Mark:
    row = reader.one("SELECT seq, size FROM mirror WHERE session_id = ?", (session_id,))
    return _Mark(*row) if row else _Mark(0, 0)


def _save_marks(unit: Unit, marks: list[tuple[str, int, int]]) -> rollback_check.DatabaseProgress:
    unit.executemany(
        "INSERT INTO mirror (session_id, seq, size) VALUES (?, ?, ?)"
        " ON CONFLICT (session_id) DO UPDATE SET seq = excluded.seq, size = excluded.size",
        marks,
    )
    return rollback_check.advance(unit)


def _size(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return 0


def _extend(path: Path, size: int, data: bytes) -> int:
    """Truncates the file to `size` bytes and appends `data`; returns the new size."""
    make_private(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        os.ftruncate(descriptor, size)
        os.lseek(descriptor, size, os.SEEK_SET)
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
    finally:
        os.close(descriptor)
    return size + len(data)


def _line(seq: int, parent: int, at: int, body: bytes, *, compaction: bool) -> bytes:
    parent_id = f'"{entry_id(parent)}"' if parent else "null"
    kind = "compaction" if compaction else "message"
    head = (
        f'{{"type":"{kind}","id":"{entry_id(seq)}","parentId":{parent_id},"timestamp":"{recovered_lines.iso(at)}",'
    ).encode()
    if not compaction:
        return head + b'"message":' + body + b"}\n"
    return head + _encode(compactions.pi_fields(message.decode_compaction(body)))[1:] + b"\n"
