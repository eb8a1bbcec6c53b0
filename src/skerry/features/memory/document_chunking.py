"""Cuts documents into passages; long ones in a child process."""

from collections.abc import Sequence
from typing import Final

from skerry.features.memory.documents import (
    Document,
    DocumentPassage,
    passages_from_chunks,
    passages_of,
)
from skerry.features.memory.markdown_files import UnreadableError
from skerry.infra.expendable import Expendable, ExpendableError
from skerry_recall.chunk import Chunk

LONG: Final = 100_000
"""Size in characters above which the child process cuts: about 20 ms of CPU."""
CUT: Final = "skerry.features.memory.document_chunking_child:cut"


class Cutter:
    """Cuts documents. Thread-safe. `close` ends the child process, if there is one."""

    def __init__(self) -> None:
        self._process = Expendable(CUT)

    def __call__(self, document: Document, size: int, overlap: int) -> list[DocumentPassage]:
        """Returns the passages of a document in order; `size` and `overlap` in tokens.

        Raises:
            UnreadableError: cutting took too much CPU or memory.
        """
        if len(document.text) <= LONG:
            return passages_of(document, size, overlap)
        try:
            rows = self._process((document.text, size, overlap))
        except ExpendableError as error:
            raise UnreadableError(f"it cannot be cut into passages: {error}") from error
        return passages_from_chunks(document, _chunks(document.text, rows))

    def close(self) -> None:
        """Ends the process."""
        self._process.close()


def _chunks(text: str, rows: object) -> Sequence[Chunk]:
    if not isinstance(rows, list):
        raise UnreadableError("it cannot be cut into passages: its process sent an invalid answer")
    return [Chunk(text[begin:end], first, last, begin, end) for begin, end, first, last in rows]
