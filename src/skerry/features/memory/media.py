"""Erases copies of files that people sent or received over a platform.

A copy that contains the phrases as text is found directly. A copy in another format, such as a
picture or a recording, is deleted if its message contains the phrases.
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
    """The folders of copied files of a state directory. File names are unique in all of them."""

    state_dir: Path

    def holding(self, redaction: Redaction) -> list[Path]:
        """Returns the copies with a phrase in their name or text. Blocks."""
        return [path for path in self._every() if _holds(path, redaction)]

    def clean(self, redaction: Redaction) -> int:
        """Deletes the copies with a phrase; returns their number. Blocks."""
        paths = self.holding(redaction)
        for path in paths:
            path.unlink(missing_ok=True)
        return len(paths)

    async def discard(self, names: Collection[str]) -> int:
        """Deletes the copies with these names; returns their number."""
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
    except OSError:  # it was deleted meanwhile, or is not a file
        return False
    text = data.decode(_MARKS.get(data[:2], "utf-8"), "replace")
    return redaction.may_be_in(text) and redaction.holds(text)
