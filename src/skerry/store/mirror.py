"""The files of the seeds, written behind the database: `<id>.jsonl` (pi v3), `sessions.json`.

The gateway never reads them back. A commit only says which sessions it touched; the mirror then
reads what is new from the database and appends it, so a file can be repaired from any point. How
far each file is written (entries and bytes) is kept in the database: what a crash wrote beyond that
mark is cut off and written again, so no line is lost or doubled. A file that is shorter than its
mark is written anew. Lines that the database does not have are never cut: the file is kept aside
first (see `recovered_lines`), also of a session that the database does not have at all.

The file of an archived session is renamed to `<sessionId>.jsonl.<reason>.<time>`, and back when it
is restored. Which name is right follows from the database, so a crash between the two is repaired.
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
"""Written to one file at a time: what is missing may be gigabytes of images."""
INDEX_SHARE = 50
"""Factor on the time of writing the session maps, for the pause after it: each is written whole."""
_encode = msgspec.json.encode


class _Mark(Struct):
    """Position up to which a file is written."""

    seq: int
    size: int


class Mirror(Struct):
    """Writes the files. Tell `touched` of commits and keep `run` going; `flush` at the end."""

    agents_dir: Path
    cwd: Path
    reach: Callable[[str], None] = no_fault
    """Called at each named fault point."""
    touched: TouchedSessions = field(default_factory=lambda: TouchedSessions(COLLECT_SECONDS))
    """Sessions whose files are behind."""
    _stale: set[AgentId] = field(default_factory=set)
    _marks: dict[str, _Mark] = field(default_factory=dict)
    _unsaved: set[str] = field(default_factory=set)
    _writing: anyio.Lock = field(default_factory=anyio.Lock)
    """Marks and files change together: who saves a mark must not meet one that begins anew."""

    async def run(self, store: Store) -> None:
        """Appends what is new, at most every 100 ms; writes the session maps at most every 5 s.

        Where they are so large that writing them takes longer than a tenth of a second, they are
        written less often, so that they take a fiftieth of the time at most.
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
        """Brings every file up to the database; for the start, before `run`.

        What the files have and the database does not is kept aside, and told.
        """
        try:
            await anyio.to_thread.run_sync(self._look_back, store)
        except OSError as error:
            # No room, say: a start must not fail of it. What it would keep stays where it is.
            logger.warning("lost messages could not be kept aside; the next start tries: %s", error)
        self.touched.waiting.update(await store.read(self._behind))
        await self.flush(store)
        await anyio.to_thread.run_sync(self._update_notice, store)

    def _look_back(self, store: Store) -> None:
        """Notes where the database went back, and keeps files of sessions that it does not have."""
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
        """Keeps the file aside if it has lines that the database does not have.

        Raises:
            OSError: it could not be kept; then it must not be cut.
        """
        count, first = recovered_lines.missing_lines(path, start, after, entries)
        if not count:
            return
        about = recovered_lines.RecoveredFile(
            *owner, count, first, path.stat().st_mtime_ns // 1_000_000
        )
        copy = recovered_lines.keep(self.agents_dir.parent, path, about, move=not entries)
        logger.error(
            "%s has %d messages that the database does not have; they are kept in %s. %s",
            path,
            count,
            copy,
            recovered_lines.REMEDY,
        )

    def _update_notice(self, store: Store) -> None:
        """Lets the store say what is kept aside."""
        store.condition.aside = recovered_lines.notice(self.agents_dir.parent)

    async def rebuild(self, store: Store) -> int:
        """Writes every file anew from the database; returns how many transcripts there are."""
        rows = await store.read(lambda reader: reader.all("SELECT session_id FROM session"))
        await self.rewrite(store, [session_id for (session_id,) in rows])
        return len(rows)

    async def rewrite(self, store: Store, session_ids: Sequence[str]) -> None:
        """Writes the files of these sessions anew: what stands in the database has changed."""
        async with self._writing:  # whoever writes has read what stood there before
            for session_id in session_ids:
                self._marks[session_id] = _Mark(0, 0)
            self.touched.waiting.update(session_ids)
        await self.flush(store)

    async def flush(self, store: Store) -> None:
        """Writes all that is known to be behind, and saves how far the files are written."""
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
            self.touched.waiting |= dirty  # what is left

    def _append_files(self, store: Store, dirty: set[str]) -> None:
        """Brings the files of the sessions up to date, and takes those that are out of `dirty`."""
        for session_id in tuple(dirty):
            try:
                while self._append_some(store, session_id):
                    pass
            except (OSError, StateError) as error:
                # One file that cannot be written must not keep the others behind.
                logger.warning("the transcript mirror is behind; it is tried again: %s", error)
            else:
                dirty.remove(session_id)

    def _append_some(self, store: Store, session_id: str) -> bool:
        """Writes some of what the session's file lacks; returns whether there is more."""
        behind = store.read_now(partial(self._behind_by, session_id=session_id))
        if behind is None:
            return False
        session, mark, data, entries = behind
        self._stale.add(session.agent_id)
        file = transcript_file(self.agents_dir, session)
        if not mark.size and _size(file):
            self._spare_broken(store, session, file)
        # The reader is free again: nobody who reads waits for the disk of a file.
        if _size(file) > mark.size:
            self._spare(store, session, file, mark)
        if not (entries or mark.size):
            return False  # nothing was said: there is no file
        mark.size = _extend(file, mark.size, data)
        mark.seq += entries
        self._marks[session_id] = mark
        self._unsaved.add(session_id)
        return entries > 0 and mark.seq < session.tail

    def _spare_broken(self, store: Store, session: SessionEntry, file: Path) -> None:
        """Keeps a file that is to be rewritten if it may have what the database has broken."""
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
        """Keeps the file aside where what is cut off it does not stand in the database."""
        rows = store.read_now(lambda reader: sessions.times(reader, session.session_id, mark.seq))
        owner = (session.agent_id, session.session_id, session.key)
        entries = recovered_lines.ids(rows) | {
            "": (0, "")
        }  # the session is known, also without entries
        self._keep(file, owner, mark.size, mark.seq, entries)
        self._update_notice(store)

    def _behind_by(
        self, reader: Reader, session_id: str
    ) -> tuple[SessionEntry, _Mark, bytes, int] | None:
        """Returns which data the session's file lacks, with how many entries, from which mark on.

        With much to write it is the first part of it: entries may have images.
        """
        session = sessions.get(reader, session_id)
        if session is None:
            return None
        file = transcript_file(self.agents_dir, session)
        mark = self._marks.get(session_id) or _read_mark(reader, session_id)
        if mark.size or session.archived:  # a new one has no other name: spare it the listing
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
        """Gives the file the name that the database wants, where it still has another."""
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
        """Returns the sessions whose file is not where and as long as the database says."""
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
            logger.warning("the session map is behind; it is tried again: %s", error)
            return
        for session_id in unsaved - self.touched.waiting:
            del self._marks[session_id]  # bounds memory; it is read again when needed

    def _write_maps(self, maps: dict[AgentId, dict[str, Any]]) -> None:
        for agent, sessions_map in maps.items():
            target = self.agents_dir / agent / "sessions" / "sessions.json"
            write_atomic(target, msgspec.json.format(_encode(sessions_map), indent=2))


def transcript_file(agents_dir: Path, session: SessionEntry) -> Path:
    """Returns where the mirror of the session's transcript is."""
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
    """Cuts the file to `size` bytes, add `data`, return the new size."""
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
