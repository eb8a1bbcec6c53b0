"""Requests the vector of a query, with a longer time limit while the model is being loaded."""

from typing import Final

import anyio

from skerry_recall.embed import (
    Embedder,
    EmbeddingTimeoutError,
    Kind,
    checked,
    directed,
    is_loading,
)
from skerry_recall.numbers import Floats

_STEP: Final = 0.5
"""Seconds between two requests while the model is being loaded, if `seconds` is smaller."""


class LoadingError(Exception):
    """The model is still being loaded."""


async def ask(embedder: Embedder, text: str, seconds: float, patience: float) -> Floats:
    """Returns the vector of a query.

    The time limit is `seconds`, and up to `patience` more while the model is being loaded.

    Raises:
        LoadingError: the model is still being loaded.
        TimeoutError: it did not answer in time.
        EmbeddingError: it failed.
    """
    end = anyio.current_time() + seconds + patience
    was_loading = False
    while True:
        with anyio.move_on_after(min(max(seconds, _STEP), end - anyio.current_time())):
            try:
                answered = await embedder.embed([text], Kind.QUERY)
            except EmbeddingTimeoutError:  # the model's own limit may be shorter
                if not is_loading(embedder):
                    raise
            else:
                label = str(embedder.model)
                return directed(checked(answered, 1, None, label)[0], label)
        loading = is_loading(embedder)
        if anyio.current_time() >= end or not (loading or was_loading):
            raise LoadingError if loading else TimeoutError
        was_loading = loading
