"""Stores vectors in a folder, so that a second run of the benchmark embeds nothing."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from skerry_recall.numbers import Floats, np

_DIGEST: Final = 32
_BATCH: Final = 32

Embed = Callable[[Sequence[str]], Awaitable["Floats"]]


class VectorCache:
    """The vectors of one model and kind of text: a file of records, a SHA-256 and float32 each."""

    def __init__(self, folder: Path, model: str, kind: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._path = folder / f"{re.sub('[^A-Za-z0-9.-]+', '-', model)}.{kind}.vectors"

    async def of(
        self, texts: Sequence[str], embed: Embed, report: Callable[[int, int], None]
    ) -> dict[str, "Floats"]:
        """Returns the vector of each text; embeds and stores those that are missing."""
        cached = self._load()
        keys = {text: hashlib.sha256(text.encode()).digest() for text in texts}
        missing = [text for text in texts if keys[text] not in cached]
        with self._path.open("ab") as file:
            for at in range(0, len(missing), _BATCH):
                some = missing[at : at + _BATCH]
                vectors = np.asarray(await embed(some), np.float32)
                for text, vector in zip(some, vectors, strict=True):
                    file.write(keys[text] + len(vector).to_bytes(4, "little") + vector.tobytes())
                    cached[keys[text]] = vector
                file.flush()
                report(at + len(some), len(missing))
        return {text: cached[key] for text, key in keys.items()}

    def _load(self) -> dict[bytes, "Floats"]:
        """Loads the stored vectors; truncates a record that was not written completely."""
        if not self._path.exists():
            return {}
        data, at, vectors = self._path.read_bytes(), 0, dict[bytes, "Floats"]()
        while at + _DIGEST + 4 <= len(data):
            count = int.from_bytes(data[at + _DIGEST : at + _DIGEST + 4], "little")
            end = at + _DIGEST + 4 + 4 * count
            if end > len(data):
                break
            vectors[data[at : at + _DIGEST]] = np.frombuffer(
                data[at + _DIGEST + 4 : end], np.float32
            )
            at = end
        if at < len(data):
            with self._path.open("r+b") as file:
                file.truncate(at)
        return vectors
