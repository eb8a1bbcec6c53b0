"""The process of a local embedding model: reads frames of texts, writes frames of vectors.

`python -m skerry_recall.worker`; `skerry_recall.local` starts it. It works in one thread and ends
when its input does.
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
    Told,
    asked,
    checked_length,
    frame,
)
from skerry_recall.models import LocalModel, load
from skerry_recall.numbers import np


def main() -> int:
    """Serves until the owner is gone."""
    source = sys.stdin.buffer
    # What a library prints must not get between the frames.
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


def _answer(model: LocalModel, request: Texts) -> Told:
    try:
        rows = np.asarray(model.embed(request.texts, Kind(request.kind)), np.dtype("<f4"))
        count, dims = rows.shape
        return EmbeddedVectors(count, dims, rows.tobytes())
    except Exception as error:  # noqa: BLE001 - a text that it cannot take must not end it
        return Failed(f"{type(error).__name__}: {error}")


def _read(source: BinaryIO) -> Load | Texts | None:
    """Reads the owner's next message; None at the end."""
    head = source.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    body = source.read(checked_length(*HEAD.unpack(head)))
    return asked(body)


def _write(target: BinaryIO, message: Told) -> None:
    remaining = memoryview(frame(message))
    while remaining:
        remaining = remaining[target.write(remaining) :]


if __name__ == "__main__":
    sys.exit(main())
