"""Positions in the Mac's database: the last row that was read, and the row before each part."""

from typing import Final

import msgspec

from skerry.sdk.channel_host import Cursor

OVERLAP: Final = 20
"""Rows before the last that are read again: a row may become visible after a later one."""
_READ: Final = "read"
_BEGUN: Final = "begun"
MAX_ACCEPTED: Final = 100
"""Stored ids of accepted messages, which distinguish them from late rows between them."""
_MAX_BEGUN: Final = 100
_begun = msgspec.json.Decoder(dict[str, tuple[int, int]])


class Journal:
    """The position up to which messages were read, with the ids of the last ones."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self.most_taken = MAX_ACCEPTED
        self.row = 0
        """Highest row that was read; 0 before the first connection."""
        self._accepted: dict[str, None] = {}
        self._is_changed = False

    async def load(self) -> None:
        """Reads the position that an earlier process stored."""
        row, *guids = (await self._cursor.read(_READ)).split() or ["0"]
        self.row = int(row) if row.isdecimal() else 0
        self._accepted = dict.fromkeys(guids)

    def has(self, guid: str) -> bool:
        """Returns whether a message was accepted."""
        return guid in self._accepted

    def take(self, row: int, guid: str) -> None:
        """Records a message as accepted."""
        self.row = max(self.row, row)
        self._accepted[guid] = None
        if len(self._accepted) > self.most_taken:
            del self._accepted[next(iter(self._accepted))]
        self._is_changed = True

    def skip(self, row: int) -> None:
        """Records that all rows up to `row` were read."""
        if row > self.row:
            self.row, self._is_changed = row, True

    async def store(self) -> None:
        """Writes the position if it changed; returns after the COMMIT."""
        if self._is_changed:
            self._is_changed = False
            await self._cursor.write(_READ, " ".join((str(self.row), *self._accepted)))

    async def begin(self, nonce: str, row: int, now: int) -> None:
        """Stores the last row of the chat before a part is sent, and the time."""
        begun = await self._begun()
        begun.pop(nonce, None)
        begun[nonce] = (row, now)
        newest = dict(list(begun.items())[-_MAX_BEGUN:])
        await self._cursor.write(_BEGUN, msgspec.json.encode(newest).decode())

    async def begun(self, nonce: str) -> tuple[int, int] | None:
        """Returns the last row before a part was sent, and the time; None for an unknown part."""
        return (await self._begun()).get(nonce)

    async def _begun(self) -> dict[str, tuple[int, int]]:
        text = await self._cursor.read(_BEGUN)
        return _begun.decode(text.encode()) if text else {}
