"""Messages of persons and assistants, numbered, for plugins that read them by a cursor."""

from collections.abc import Sequence
from typing import Final

import anyio

from skerry.model.errors import PluginError
from skerry.store import Store, spoken_entries
from skerry.store.spoken_entries import SpokenRow

__all__ = ("MAX_MESSAGES", "SpokenRow", "Transcripts")

MAX_MESSAGES: Final = 1000
"""Messages that one call returns."""


class Transcripts:
    """The conversations of all agents; `PluginApi.transcripts` gives it.

    A message gets its number after its run has ended. Numbers grow, and a number stays with its
    message through restarts, summaries and erasures; an erased message has an empty text.
    """

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._dirty: set[str] | None = None
        """Sessions that changed; None before the first read, which looks at all."""
        self._changed = anyio.Event()

    async def latest(self) -> int:
        """Returns the present cursor. At the first call ever, what was said so far is passed over.

        Raises:
            PluginError: no gateway runs.
        """
        store = self._open()
        await store.write(spoken_entries.begin)
        await self._number(store)
        return await store.write(spoken_entries.begin)

    async def since(self, cursor: int, limit: int = MAX_MESSAGES) -> Sequence[SpokenRow]:
        """Returns the messages with numbers above the cursor, in order, at most `limit`.

        The last one's number is the next cursor. A role is `user` or `assistant`; it is empty, as
        the text is, where the entry is a tool's, a command or a summary.

        Raises:
            PluginError: no gateway runs.
        """
        store = self._open()
        if self._dirty is None:
            await store.write(spoken_entries.begin)
        await self._number(store)
        return await store.read(
            lambda reader: spoken_entries.since(reader, cursor, min(limit, MAX_MESSAGES))
        )

    async def wait(self, cursor: int) -> None:
        """Returns when there is a message with a number above the cursor.

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
            raise PluginError("There are no transcripts here: no gateway runs.")
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
            # They are looked at again.
            self._dirty |= sessions or set()
            raise

    def _touch(self, sessions: list[str]) -> None:
        if self._dirty is not None and sessions:
            self._dirty.update(sessions)
            self._changed.set()
            self._changed = anyio.Event()
