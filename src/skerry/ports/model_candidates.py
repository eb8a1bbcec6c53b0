"""Candidates of a model call, in order, and the result of each attempt.

The implementation, which has the credentials, decides the order and the cool-downs. A run requests
the next candidate until one answers.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from skerry.model.errors import ModelError, ModelOverflowError, ModelRequestError
from skerry.model.ids import MAIN_AGENT, AgentId, RunId
from skerry.model.message import Usage
from skerry.model.run import Purpose, RunFailure

if TYPE_CHECKING:
    from skerry.ports.model import ModelInfo, ModelProvider


OWN_FAULT: Final = (ModelOverflowError, ModelRequestError)
"""Failures that the request causes, not the model: no other candidate is called, and no credential
cools down."""


class CallTarget(Struct, frozen=True):
    """Properties of a call that decide its candidates and the agent and session it is booked to."""

    reference: str | None = None
    """`provider/model` or an alias, optionally with `@profile`; None is the configured model."""
    agent: AgentId = MAIN_AGENT
    session_id: str = ""
    """Session of the call; all calls of a session prefer the same profile. Empty without one."""
    run_id: RunId | None = None
    purpose: Purpose = Purpose.MESSAGE
    channel: str = ""
    """Channel of the request; empty without one."""
    fallbacks: tuple[str, ...] | None = None
    """Models to try after `reference`, in order; None takes those configured for the agent."""

    def of(self, reference: str | None) -> "CallTarget":
        """Returns the same target for another model."""
        return replace(self, reference=reference)


class ModelCandidate(Struct, frozen=True):
    """One model and the credential with which it is called."""

    provider: "ModelProvider"
    model: "ModelInfo"
    profile: str = ""
    """Name of the auth profile; empty if the model needs none."""


class FailedAttempt(Struct, frozen=True):
    """One candidate that did not answer: the call failed, or the candidate was skipped."""

    model: str
    """`provider/model`."""
    profile: str
    error: ModelError

    def __str__(self) -> str:
        candidate = f"{self.model}@{self.profile}" if self.profile else self.model
        return f"{candidate}: {self.error}"


class Candidates(Protocol):
    """The candidates of one call, in order.

    After each call of `next`, call `ended` or `released` before the next one.
    """

    @property
    def attempts(self) -> Sequence[FailedAttempt]:
        """Returns the candidates that did not answer so far with their errors, in order."""
        ...

    async def next(self) -> ModelCandidate | None:
        """Returns the next candidate to call; None after the last one.

        It may wait for a token that is refreshed, or for another call that tests whether this
        candidate answers again.

        Raises:
            ModelUnavailableError: no candidate can be called at all.
        """
        ...

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        """Records that a candidate answered, or the error with which it failed."""
        ...

    def released(self, candidate: ModelCandidate) -> None:
        """Records that a call was aborted; the candidate is neither good nor bad by it."""
        ...


ABORTED: Final = RunFailure("run.aborted", "The call was cancelled.")
"""The error of a call that was cancelled."""


class ModelCallEnded(Struct, frozen=True):
    """One model call that ended, for any purpose, with its usage and its result."""

    provider: str
    model: str
    profile: str
    usage: Usage
    """Usage with its cost, including failed attempts of the call; zero if the provider did not
    report it."""
    priced: bool
    """True if the price of the model is known."""
    seconds: float
    """Duration of the call."""
    error: RunFailure | None
    """Reason of the failure; None if the model answered."""
    target: CallTarget
    call_id: str = ""
    """Id that `Accounts.begin` returned; empty if the begin of the call was not recorded."""

    @property
    def purpose(self) -> Purpose:
        """Returns the purpose of the call."""
        return self.target.purpose


class Accounts(Protocol):
    """Checks model calls against the budgets and records their usage."""

    def allow(self, target: CallTarget) -> None:
        """Returns if a run may call its model.

        Raises:
            BudgetError: a budget of today is used up, or today's usage is unknown.
        """
        ...

    def begin(self, candidate: ModelCandidate, target: CallTarget) -> str:
        """Records that a call begins, so that a killed process leaves a record; returns its id."""
        ...

    def book(self, call: ModelCallEnded) -> None:
        """Records a call that ended; must not block."""
        ...


class SingleCandidate:
    """Candidates with a single member, which `choose` selects once; implements `Candidates`."""

    def __init__(
        self, choose: Callable[[], Awaitable[tuple["ModelProvider", "ModelInfo"]]]
    ) -> None:
        self._choose = choose
        self._candidate: ModelCandidate | None = None
        self._failed = False
        self.attempts: list[FailedAttempt] = []
        """Attempts that failed so far."""

    async def next(self) -> ModelCandidate | None:
        """Returns the candidate; None after it has failed in this call."""
        if self._failed:
            self._failed = False
            return None
        if self._candidate is None:
            self._candidate = ModelCandidate(*await self._choose())
        self.attempts.clear()
        return self._candidate

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        """Records that the candidate answered, or the error with which it failed."""
        self._failed = error is not None and not isinstance(error, OWN_FAULT)
        if error is not None:
            ref, profile = candidate.model.ref, candidate.profile
            self.attempts.append(FailedAttempt(ref, profile, error))

    def released(self, candidate: ModelCandidate) -> None:
        """Does nothing."""
