"""Which way of asking for thinking a model takes: the best first, then what it did not refuse."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from skerry.model.errors import ModelRequestError
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import ModelReply, ModelRequest

logger = logging.getLogger(__name__)

F = TypeVar("F")

_ABOUT_THINKING: Final = re.compile(
    r"refused the request \(4.*(?:thinking|reasoning|effort|budget)", re.IGNORECASE | re.DOTALL
)
_WEAKER: Final = {
    ThinkingLevel.XHIGH: ThinkingLevel.HIGH,
    ThinkingLevel.MINIMAL: ThinkingLevel.LOW,
}


def levels(asked: ThinkingLevel) -> tuple[ThinkingLevel, ...]:
    """Return the levels to try, best first: not every model has the first and the last."""
    near = _WEAKER.get(asked)
    return (asked,) if near is None else (asked, near)


class Downgrades:
    """Remembers for each model and level the first form that it did not refuse."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ThinkingLevel], int] = {}

    async def ask(
        self, request: ModelRequest, forms: Sequence[F], ask: Callable[[F], Awaitable[ModelReply]]
    ) -> ModelReply:
        """Return the response to the first of `forms` that the model accepts.

        Raises:
            ModelError: what the last of them said, or what is not about thinking.
        """
        key = request.model.id, request.thinking
        for index in range(self._first.get(key, 0), len(forms)):
            try:
                return await ask(forms[index])
            except ModelRequestError as error:
                if index + 1 == len(forms) or not _ABOUT_THINKING.search(str(error)):
                    raise
                logger.warning(
                    "%s does not think as asked (%s); asking it another way: %s",
                    request.model.ref,
                    request.thinking,
                    error,
                )
                self._first[key] = index + 1
        raise AssertionError("there is always a form")
