"""A model that is asked again after a failure that may pass."""

import random
from collections.abc import Awaitable, Callable

import anyio
from msgspec import Struct

from skerry.model.errors import ModelError
from skerry.model.unanswered import ModelSilentError
from skerry.ports.model import Listener, ModelProvider, ModelReply, ModelRequest


class Spoken:
    """Passes on what it hears. `begun` says whether it heard anything yet."""

    def __init__(self, hear: Listener) -> None:
        self._hear = hear
        self.begun = False
        self.listener = Listener(self._text, self._thinking, hear.on_note, hear.on_spent)

    def _text(self, text: str) -> None:
        self.begun = True
        self._hear.on_text(text)

    def _thinking(self, thinking: str) -> None:
        self.begun = True
        self._hear.on_thinking(thinking)


class RetryPolicy(Struct, frozen=True):
    """Number of attempts, and delays in seconds, doubling from `base` to `cap`, with full jitter.

    A provider's own hint is waited out when it is at most `hint_limit`; a longer one fails at once.
    """

    attempts: int = 3
    base: float = 0.5
    cap: float = 8.0
    hint_limit: float = 60.0

    def delay(self, failed: int, hint: float | None, chance: float) -> float | None:
        """Returns seconds to wait after failure number `failed`, from 1; None is to give up.

        `chance` is in [0, 1). With a hint the jitter comes on top, so that callers who were told
        the same do not come back together.
        """
        if failed >= self.attempts or (hint is not None and hint > self.hint_limit):
            return None
        jitter = chance * min(self.cap, self.base * 2.0 ** min(failed - 1, 30))
        return jitter if hint is None else hint + min(jitter, self.base)


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

    async def complete(self, request: ModelRequest, hear: Listener) -> ModelReply:
        """Returns the response; see `ports.model.ModelProvider`."""
        spoken = Spoken(hear)
        failed = 0
        while True:
            try:
                return await self._inner.complete(request, spoken.listener)
            except ModelError as error:
                failed += 1
                delay = self._policy.delay(failed, error.retry_after, self._chance())
                silent = isinstance(error, ModelSilentError)  # it has taken its whole limit
                if spoken.begun or silent or not error.retryable or delay is None:
                    raise
            await self._sleep(delay)
