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
    """Forwards the output of a call; `begun` is True after the first output."""

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

    The wait that a provider requests is used up to `hint_limit` seconds; a longer one ends the
    attempts.
    """

    attempts: int = 3
    backoff: Backoff = Backoff(base=0.5, cap=8.0, jitter=1.0)
    hint_limit: float = 60.0

    def delay(self, failed: int, hint: float | None, chance: float) -> float | None:
        """Returns the seconds to wait after failure number `failed`, from 1; None to give up.

        `hint` is the wait that the provider requested, in seconds. The jitter is added to it, so
        that callers with the same hint do not repeat simultaneously. `chance` is a random number in
        [0, 1).
        """
        if failed >= self.attempts or (hint is not None and hint > self.hint_limit):
            return None
        jitter = self.backoff.delay(failed, chance)
        return jitter if hint is None else hint + min(jitter, self.backoff.base)


HASTY: Final = RetryPolicy(2, Backoff(base=0.5, cap=1.0, jitter=1.0), hint_limit=2.0)
"""Retry policy while another candidate is available: trying that is better than waiting."""


class RetryingProvider:
    """Repeats failed calls of `inner` that had no output yet; raises all other failures."""

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
        """Returns the wire format of the inner provider."""
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
                silent = isinstance(error, ModelSilentError)  # it has used its whole time limit
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
    """Returns True when a provider's refusal is about the requested thinking."""
    _, refused, reason = error.partition(_REFUSED)
    return bool(refused) and _ABOUT_THINKING.search(reason) is not None


def levels(level: ThinkingLevel) -> tuple[ThinkingLevel, ...]:
    """Returns the levels to try, best first: some models lack XHIGH or MINIMAL."""
    near = _WEAKER.get(level)
    return (level,) if near is None else (level, near)


def efforts(request: ModelRequest) -> Sequence[str]:
    """Returns the efforts to request from an OpenAI model, best first; empty is its default."""
    if not request.model.reasoning or request.thinking is ThinkingLevel.OFF:
        return ("",)
    return (*levels(request.thinking), "")


class Downgrades(Generic[F]):
    """Stores which forms of a request each model refused, by thinking level."""

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

        The last form requests no thinking, and is always tried.

        Raises:
            ModelError: the failure of the last form, or a failure that is not about thinking.
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
                    "%s does not support the thinking level %s; trying a weaker form: %s",
                    request.model.ref,
                    request.thinking,
                    error,
                )
                refused.append(form)
                listener.on_note(
                    f"{request.model.ref} does not think as asked ({request.thinking})."
                )
        return await ask(forms[-1], listener)
