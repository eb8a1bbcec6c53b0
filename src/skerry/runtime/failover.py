"""Asks one candidate after another until a model answers, and tells of every call once.

A failure of the conversation itself (too long, a request that was refused as such) is nobody's
fault whom another candidate could stand in for: it ends the call at once and cools nothing.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from skerry.model.errors import (
    ModelAuthError,
    ModelEmptyReplyError,
    ModelError,
    ModelNotFoundError,
    ModelOverflowError,
    ModelsFailedError,
    ModelUnavailableError,
)
from skerry.model.message import Usage
from skerry.model.run import RunFailure
from skerry.ports.model import ModelInfo, ModelReply, Models
from skerry.ports.tries import ABORTED, OWN_FAULT, Attempt, Candidate, ModelCallEnded, Tries, Wanted

logger = logging.getLogger(__name__)

Ask = Callable[[Candidate], Awaitable[ModelReply]]


class Accounts(Protocol):
    """Permits and books model calls."""

    def allow(self, wanted: Wanted) -> None:
        """Returns if a run may ask its model.

        Raises:
            BudgetError: what may be used today is used up.
        """
        ...

    def begin(self, candidate: Candidate, wanted: Wanted) -> str:
        """Notes that a call begins, so that a kill leaves its trace; returns the call's id."""
        ...

    def book(self, call: ModelCallEnded) -> None:
        """Books a call that ended; must not block."""
        ...


class NoAccounts:
    """Permits every call and books none."""

    def allow(self, wanted: Wanted) -> None:
        """Permits it."""

    def begin(self, candidate: Candidate, wanted: Wanted) -> str:
        """Notes nothing."""
        del candidate, wanted
        return ""

    def book(self, call: ModelCallEnded) -> None:
        """Books nothing."""


class Failover:
    """Finds who answers the calls of one run; who answered last is asked first again."""

    def __init__(self, models: Models, wanted: Wanted, accounts: Accounts | None = None) -> None:
        self._models = models
        self._accounts = accounts or NoAccounts()
        self.wanted = wanted
        """Request for the first call."""
        self._tries: Tries | None = None
        self.current: Candidate | None = None
        """Candidate that was called last."""
        self.gone: Attempt | None = None
        """Requested model that is not available, if another answered in its place."""
        self._spent = Usage()

    @property
    def provider(self) -> str:
        """Returns the provider that was asked, or nothing when none could be."""
        return self.current.model.provider if self.current else ""

    @property
    def model(self) -> str:
        """Returns the model that was asked, or nothing when none could be."""
        return self.current.model.id if self.current else ""

    def spend(self, usage: Usage) -> None:
        """Counts tokens of the present call that stand in no reply."""
        self._spent += usage

    async def call(self, ask: Ask, withdraw: Callable[[], None]) -> ModelReply:
        """Returns the first whole answer to `ask`, with its price.

        Args:
            ask: Asks one candidate.
            withdraw: Takes back what a candidate said before it failed, when another is asked.

        Raises:
            ModelError: of the only candidate, or of a conversation that nobody can take.
            ModelsFailedError: several were tried, and all failed.
            BudgetError: what may be used today is used up; only the first call is refused.
        """
        if self._tries is None:
            self._accounts.allow(self.wanted)
            self._tries = self._models.tries(self.wanted)
        asked = False
        while True:
            candidate = await self._tries.next()
            if candidate is None:
                raise _failed(self._tries)
            if asked:
                withdraw()
            asked = True
            self.current = candidate
            try:
                reply = await self._one(self._tries, candidate, ask)
            except OWN_FAULT:
                raise
            except ModelError as error:
                logger.warning("%s failed: %s", _named(candidate), error)
            else:
                self.gone = self.gone or _gone(self._tries, self.wanted.reference)
                return reply

    async def _one(self, tries: Tries, candidate: Candidate, ask: Ask) -> ModelReply:
        """Returns the answer of one candidate. Its end is noted and booked, however it comes."""
        clock, model = asyncio.get_running_loop().time, candidate.model
        call_id = self._accounts.begin(candidate, self.wanted)
        begin = clock()
        self._spent = Usage()
        failure: RunFailure | None = ABORTED
        try:
            reply = await ask(candidate)
            self._spent += reply.usage
            if not reply.tool_calls and not reply.text.strip():
                raise _silent(model, reply.usage)
        except ModelError as error:
            failure = RunFailure(error.code, str(error), error.retryable)
            tries.ended(candidate, error)
            raise
        else:
            failure = None
            tries.ended(candidate, None)
            return replace(reply, usage=model.cost.of(reply.usage))
        finally:
            if failure is ABORTED:
                tries.released(candidate)
            self._accounts.book(
                ModelCallEnded(
                    model.provider,
                    model.id,
                    candidate.profile,
                    usage=model.cost.of(self._spent),
                    priced=model.cost.known,
                    seconds=clock() - begin,
                    error=failure,
                    wanted=self.wanted,
                    call_id=call_id,
                )
            )


def _failed(tries: Tries) -> ModelError:
    """Returns the error of a call that nobody answered."""
    attempts = tries.attempts
    if len(attempts) == 1:
        return attempts[0].error
    if not attempts:
        return ModelUnavailableError("No model can be called.")
    failed = ModelsFailedError([str(attempt) for attempt in attempts])
    errors = [attempt.error for attempt in attempts]
    own = [error.remedy for error in errors if isinstance(error, ModelAuthError) and error.remedy]
    failed.remedy = " ".join(dict.fromkeys(own)) or failed.remedy
    failed.retry_after = min(
        (error.retry_after for error in errors if error.retry_after is not None), default=None
    )
    return failed


def _gone(tries: Tries, wanted: str | None) -> Attempt | None:
    """Returns the attempt at the wanted model, where nobody has that model (any more)."""
    for attempt in tries.attempts:
        missing = isinstance(attempt.error, (ModelUnavailableError, ModelNotFoundError))
        if missing and wanted in {attempt.model, f"{attempt.model}@{attempt.profile}"}:
            return attempt
    return None


def _named(candidate: Candidate) -> str:
    ref = candidate.model.ref
    return f"{ref}@{candidate.profile}" if candidate.profile else ref


def _silent(model: ModelInfo, usage: Usage) -> ModelError:
    """Returns why a response is empty: z.ai tells a full window by its count of tokens alone."""
    if usage.input + usage.cache_read + usage.cache_write > model.context_window:
        return ModelOverflowError(f"The conversation is too long for {model.ref}.")
    return ModelEmptyReplyError(f"{model.ref} answered nothing.")
