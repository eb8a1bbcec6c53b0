"""Numbered messages of all conversations, which plugins read with a cursor."""

from collections.abc import Sequence
from typing import Final

import anyio
from msgspec.structs import replace

from skerry.model.errors import PluginError
from skerry.model.ids import SessionId
from skerry.runtime.foreign_entries import ForeignEntries
from skerry.store import Reader, Store, spoken_entries
from skerry.store.spoken_entries import SpokenRow

__all__ = ("MAX_MESSAGES", "SpokenRow", "Transcripts")

MAX_MESSAGES: Final = 1000
"""Limit of the messages that one call returns."""


class Transcripts:
    """Reads the messages of all conversations; `PluginApi.transcripts` returns it.

    A message gets its number, `serial`, when its run has ended. Numbers increase and are stable
    over restarts, summaries and erasures. An erased message has an empty text.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._dirty: set[str] | None = None
        """Sessions that changed; None before the first read, which numbers all sessions."""
        self._changed = anyio.Event()
        self._foreign = ForeignEntries()

    async def latest(self) -> int:
        """Returns the number of the newest message: the cursor for a plugin that starts now.

        The first call in an installation excludes all earlier messages from the numbering.

        Raises:
            PluginError: no gateway runs.
        """
        store = self._open()
        await store.write(spoken_entries.begin)
        await self._number(store)
        return await store.write(spoken_entries.begin)

    async def since(self, cursor: int, limit: int = MAX_MESSAGES) -> Sequence[SpokenRow]:
        """Returns the messages with numbers above `cursor` in order, at most `limit`.

        The number of the last message is the next cursor. The role is `user` or `assistant`. Role
        and text are empty for an entry of a tool, a command or a summary.

        Raises:
            PluginError: no gateway runs.
        """
        store = self._open()
        if self._dirty is None:
            await store.write(spoken_entries.begin)
        await self._number(store)

        def read(reader: Reader) -> list[SpokenRow]:
            rows = spoken_entries.since(reader, cursor, min(limit, MAX_MESSAGES))
            return [self._judged(reader, row) for row in rows]

        return await store.read(read)

    def _judged(self, reader: Reader, row: SpokenRow) -> SpokenRow:
        """Returns the row with `is_tainted`; each entry of a session is examined once."""
        session_id = SessionId(row.session_id)
        return replace(row, is_tainted=self._foreign.is_tainted(reader, session_id, row.seq))

    async def wait(self, cursor: int) -> None:
        """Waits until there is a message with a number above `cursor`.

        Raises:
            PluginError: no gateway runs.
        """
        while True:
            changed = self._changed
            if await self.since(cursor, 1):
                return
            await changed.wait()

    def _open(self) -> Store:
        if self._store is None:
            raise PluginError("Transcripts cannot be read: no gateway runs.")
        return self._store

    async def _number(self, store: Store) -> None:
        if self._dirty is None:
            store.follow(self._touch)
            self._dirty = set()
            sessions: set[str] | None = None
        else:
            sessions, self._dirty = self._dirty, set()
        try:
            while sessions is None or sessions:
                if not await store.write(lambda unit: spoken_entries.number(unit, sessions)):
                    break
        except BaseException:
            # The next call numbers them.
            self._dirty |= sessions or set()
            raise

    def _touch(self, sessions: list[str]) -> None:
        if self._dirty is not None and sessions:
            self._dirty.update(sessions)
            self._changed.set()
            self._changed = anyio.Event()
