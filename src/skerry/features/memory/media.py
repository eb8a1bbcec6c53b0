"""Copies of files that people sent or got over a platform, as far as an erasure is about them.

A copy whose bytes have the words as text is found by itself. One of another form, such as a picture
or a recording, goes where the message that it came with has the words.
"""

from collections.abc import Collection
from functools import partial
from pathlib import Path

import anyio.to_thread
from msgspec import Struct

from skerry.model.redaction import Redaction
from skerry.runtime.media_in import INBOUND, MAX_BYTES
from skerry.runtime.media_out import OUTBOUND
from skerry.runtime.run_context import MEDIA

_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


class MediaCopies(Struct, frozen=True):
    """The folders of copied files of a state directory. A name is in one of them only."""

    state_dir: Path

    def holding(self, redaction: Redaction) -> list[Path]:
        """Returns the copies that have the words in their names or as text. Blocks."""
        return [path for path in self._every() if _holds(path, redaction)]

    def clean(self, redaction: Redaction) -> int:
        """Deletes the copies that have the words; returns how many. Blocks."""
        paths = self.holding(redaction)
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    async def discard(self, names: Collection[str]) -> int:
        """Deletes the copies with these names; returns how many there were."""
        return await anyio.to_thread.run_sync(partial(self._discard, names))

    def _discard(self, names: Collection[str]) -> int:
        named = [path for path in self._every() if path.name in names]
        for path in named:
            path.unlink(missing_ok=True)
        return len(named)

    def _every(self) -> list[Path]:
        folders = (self.state_dir / MEDIA / name for name in (INBOUND, OUTBOUND))
        return [path for folder in folders if folder.is_dir() for path in folder.iterdir()]


def _holds(path: Path, redaction: Redaction) -> bool:
    if redaction.holds(path.name):
        return True
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:  # it went meanwhile, or is no file
        return False
    text = data.decode(_MARKS.get(data[:2], "utf-8"), "replace")
    return redaction.may_be_in(text) and redaction.holds(text)
