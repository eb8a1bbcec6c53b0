"""Asks an embedding model for the vector of a question: not for long, unless it is being loaded."""

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
"""Seconds between two looks at a model that is being loaded, where there is patience alone."""


class LoadingError(Exception):
    """The model is still being loaded."""


async def ask(embedder: Embedder, text: str, seconds: float, patience: float) -> Floats:
    """Returns the vector of a question.

    It is waited for `seconds`, and for up to `patience` more while the model is being loaded.

    Raises:
        LoadingError: it is still being loaded.
        TimeoutError: it does not answer.
        EmbeddingError: it fails.
    """
    end = anyio.current_time() + seconds + patience
    was_loading = False
    while True:
        with anyio.move_on_after(min(max(seconds, _STEP), end - anyio.current_time())):
            try:
                answered = await embedder.embed([text], Kind.QUERY)
            except EmbeddingTimeoutError:  # a limit of its own, which may be shorter
                if not is_loading(embedder):
                    raise
            else:
                who = str(embedder.model)
                return directed(checked(answered, 1, None, who)[0], who)
        loading = is_loading(embedder)
        if anyio.current_time() >= end or not (loading or was_loading):
            raise LoadingError if loading else TimeoutError
        was_loading = loading
