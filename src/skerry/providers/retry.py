"""Repeats a model call: after a failure that may pass, or with a weaker form of thinking."""

import logging
import random
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

import anyio
from msgspec import Struct

from skerry.infra.backoff import Backoff
from skerry.model.errors import ModelError, ModelRequestError
from skerry.model.thinking import ThinkingLevel
from skerry.model.unanswered import ModelSilentError
from skerry.ports.model import ModelProvider, ModelReply, ModelRequest, ReplyListener


class OutputWatch:
    """Passes on the output of a call; `begun` is True once there was any."""

    def __init__(self, listener: ReplyListener) -> None:
        self._hear = listener
        self.begun = False
        self.listener = ReplyListener(
            self._text, self._thinking, listener.on_note, listener.on_spent
        )

    def _text(self, text: str) -> None:
        self.begun = True
        self._hear.on_text(text)

    def _thinking(self, thinking: str) -> None:
        self.begun = True
        self._hear.on_thinking(thinking)


class RetryPolicy(Struct, frozen=True):
    """Number of attempts, and the waits between them.

    A provider's own hint is waited out when it is at most `hint_limit`; a longer one fails at once.
    """

    attempts: int = 3
    backoff: Backoff = Backoff(base=0.5, cap=8.0, jitter=1.0)
    hint_limit: float = 60.0

    def delay(self, failed: int, hint: float | None, chance: float) -> float | None:
        """Returns seconds to wait after failure number `failed`, from 1; None is to give up.

        `chance` is in [0, 1). With a hint the jitter comes on top, so that callers who were told
        the same do not come back together.
        """
        if failed >= self.attempts or (hint is not None and hint > self.hint_limit):
            return None
        jitter = self.backoff.delay(failed, chance)
        return jitter if hint is None else hint + min(jitter, self.backoff.base)


HASTY: Final = RetryPolicy(2, Backoff(base=0.5, cap=1.0, jitter=1.0), hint_limit=2.0)
"""Retry policy if another candidate can answer: trying that is better than waiting."""


class RetryingProvider:
    """Asks `inner` again while nothing was given on; after that a failure is the caller's."""

    def __init__(
        self,
        inner: ModelProvider,
        policy: RetryPolicy | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._chance = chance

    @property
    def api(self) -> str:
        """Returns the wire format of the model behind."""
        return self._inner.api

    async def complete(self, request: ModelRequest, listener: ReplyListener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        output = OutputWatch(listener)
        failed = 0
        while True:
            try:
                return await self._inner.complete(request, output.listener)
            except ModelError as error:
                failed += 1
                delay = self._policy.delay(failed, error.retry_after, self._chance())
                silent = isinstance(error, ModelSilentError)  # it has taken its whole limit
                if output.begun or silent or not error.retryable or delay is None:
                    raise
            await self._sleep(delay)


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
        listener: ReplyListener,
        forms: Sequence[F],
        ask: Callable[[F, ReplyListener], Awaitable[ModelReply]],
    ) -> ModelReply:
        """Returns the response to the first of `forms` that the model accepts.

        The last of them asks for nothing, and is tried whatever it said before.

        Raises:
            ModelError: what the last of them said, or what is not about thinking.
        """
        refused = self._refused.setdefault((request.model.id, request.thinking), [])
        output = OutputWatch(listener)
        for form in forms[:-1]:
            if form in refused:
                continue
            try:
                return await ask(form, output.listener)
            except ModelRequestError as error:
                if output.begun or not _is_about_thinking(str(error)):
                    raise
                logger.warning(
                    "%s does not think as asked (%s); asking it another way: %s",
                    request.model.ref,
                    request.thinking,
                    error,
                )
                refused.append(form)
                listener.on_note(
                    f"{request.model.ref} does not think as asked ({request.thinking})."
                )
        return await ask(forms[-1], listener)
