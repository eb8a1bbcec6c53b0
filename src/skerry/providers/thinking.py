"""Forms of the request for thinking, by model: the best first, without those it refused."""

import logging
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from skerry.model.errors import ModelRequestError
from skerry.model.thinking import ThinkingLevel
from skerry.ports.model import Listener, ModelReply, ModelRequest
from skerry.providers.retry import Spoken

logger = logging.getLogger(__name__)

F = TypeVar("F")

_REFUSED: Final = "refused the request (4"
_ABOUT_THINKING: Final = re.compile(r"thinking|reasoning|effort|budget", re.IGNORECASE)
_WEAKER: Final = {
    ThinkingLevel.XHIGH: ThinkingLevel.HIGH,
    ThinkingLevel.MINIMAL: ThinkingLevel.LOW,
}


def _is_about_thinking(error: str) -> bool:
    """Checks whether a provider's refusal names what was asked of its thinking."""
    _, refused, why = error.partition(_REFUSED)
    return bool(refused) and _ABOUT_THINKING.search(why) is not None


def levels(level: ThinkingLevel) -> tuple[ThinkingLevel, ...]:
    """Returns the levels to try, best first: not every model has the first and the last."""
    near = _WEAKER.get(level)
    return (level,) if near is None else (level, near)


def efforts(request: ModelRequest) -> Sequence[str]:
    """Returns the efforts to ask an OpenAI model for, best first; empty is the model's own."""
    if not request.model.reasoning or request.thinking is ThinkingLevel.OFF:
        return ("",)
    return (*levels(request.thinking), "")


class Downgrades(Generic[F]):
    """Remembers for each model and level the forms that it refused."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, ThinkingLevel], list[F]] = {}

    async def ask(
        self,
        request: ModelRequest,
        hear: Listener,
        forms: Sequence[F],
        ask: Callable[[F, Listener], Awaitable[ModelReply]],
    ) -> ModelReply:
        """Returns the response to the first of `forms` that the model accepts.

        The last of them asks for nothing, and is tried whatever it said before.

        Raises:
            ModelError: what the last of them said, or what is not about thinking.
        """
        refused = self._refused.setdefault((request.model.id, request.thinking), [])
        spoken = Spoken(hear)
        for form in forms[:-1]:
            if form in refused:
                continue
            try:
                return await ask(form, spoken.listener)
            except ModelRequestError as error:
                if spoken.begun or not _is_about_thinking(str(error)):
                    raise
                logger.warning(
                    "%s does not think as asked (%s); asking it another way: %s",
                    request.model.ref,
                    request.thinking,
                    error,
                )
                refused.append(form)
                hear.on_note(f"{request.model.ref} does not think as asked ({request.thinking}).")
        return await ask(forms[-1], hear)
