"""The process of a local embedding model: reads frames of texts, writes frames of vectors.

`skerry_recall.local` starts it as `python -m skerry_recall.worker`. It runs one thread and ends at
the end of its input.
"""

import os
import sys
from typing import BinaryIO

from skerry_recall.embed import EmbeddingUnavailableError, Kind
from skerry_recall.frames import (
    HEAD,
    EmbeddedVectors,
    Failed,
    Load,
    Loaded,
    Texts,
    WorkerMessage,
    checked_length,
    decode_owner_message,
    frame,
)
from skerry_recall.models import LocalModel, load
from skerry_recall.numbers import np


def main() -> int:
    """Serves requests until the end of the input."""
    source = sys.stdin.buffer
    # Libraries print to standard output; their text must not be mixed with the frames.
    target = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)
    first = _read(source)
    if not isinstance(first, Load):
        return 1
    try:
        model = load(first.path or first.model)
    except EmbeddingUnavailableError as error:
        _write(target, Failed(str(error), error.remedy))
        return 0
    _write(target, Loaded(model.dims, model.text_tokens))
    while isinstance(request := _read(source), Texts):
        _write(target, _answer(model, request))
    return 0


def _answer(model: LocalModel, request: Texts) -> WorkerMessage:
    try:
        rows = np.asarray(model.embed(request.texts, Kind(request.kind)), np.dtype("<f4"))
        count, dims = rows.shape
        return EmbeddedVectors(count, dims, rows.tobytes())
    except Exception as error:  # noqa: BLE001 - a text that the model refuses must not end the process
        return Failed(f"{type(error).__name__}: {error}")


def _read(source: BinaryIO) -> Load | Texts | None:
    """Reads the owner's next message; None at the end."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    body = source.read(checked_length(*HEAD.unpack(head)))
    return decode_owner_message(body)


def _write(target: BinaryIO, message: WorkerMessage) -> None:
    remaining = memoryview(frame(message))
    while remaining:
        remaining = remaining[target.write(remaining) :]


if __name__ == "__main__":
    sys.exit(main())
