"""Candidates of a model call, in turn, and the result of each attempt.

The order and the cool-downs belong to the owner of the credentials; a run asks for the next
candidate until one answers.
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
"""Failures of what was asked, not of whom: nobody else is asked, and nothing cools down."""


class CallTarget(Struct, frozen=True):
    """Purpose of a call, as far as it decides the candidates and the account that is charged."""

    reference: str | None = None
    """`provider/model` or an alias, either with `@profile`; None is the configured model."""
    agent: AgentId = MAIN_AGENT
    session_id: str = ""
    """Its calls keep to one profile; empty belongs to none."""
    run_id: RunId | None = None
    purpose: Purpose = Purpose.MESSAGE
    channel: str = ""
    """Channel of the request; empty if it belongs to none."""
    fallbacks: tuple[str, ...] | None = None
    """Models to go on with, in order; None is what the agent has configured."""

    def of(self, reference: str | None) -> "CallTarget":
        """Returns the same for another model."""
        return replace(self, reference=reference)


class ModelCandidate(Struct, frozen=True):
    """One model and the credential with which it is asked."""

    provider: "ModelProvider"
    model: "ModelInfo"
    profile: str = ""
    """Name of the auth profile; empty where the model needs none."""


class FailedAttempt(Struct, frozen=True):
    """One candidate that did not answer: asked in vain, or passed over."""

    model: str
    """`provider/model`."""
    profile: str
    error: ModelError

    def __str__(self) -> str:
        candidate = f"{self.model}@{self.profile}" if self.profile else self.model
        return f"{candidate}: {self.error}"


class Candidates(Protocol):
    """The candidates of one call, in turn. Each that is given is `ended` before the next."""

    @property
    def attempts(self) -> Sequence[FailedAttempt]:
        """Returns who did not answer so far, and why, in order."""
        ...

    async def next(self) -> ModelCandidate | None:
        """Returns who is to be asked now; None when nobody is left.

        It may wait: for a token that is fetched anew, or for another call that finds out whether
        this candidate answers again.

        Raises:
            ModelUnavailableError: nothing could be asked at all.
        """
        ...

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        """Notes that a candidate answered, or how it failed."""
        ...

    def released(self, candidate: ModelCandidate) -> None:
        """Notes that a call was given up, by an abort: it says nothing of the candidate."""
        ...


ABORTED: Final = RunFailure("run.aborted", "The call was given up.")
"""The error of a call that was cancelled."""


class ModelCallEnded(Struct, frozen=True):
    """One call of a model, whatever it was for, and what became of it."""

    provider: str
    model: str
    profile: str
    usage: Usage
    """Usage with its price; zero if the provider did not report it. Failed tries on the way
    count."""
    priced: bool
    """True when the price of the model is known."""
    seconds: float
    error: RunFailure | None
    target: CallTarget
    call_id: str = ""
    """Id that the ledger returned when the call began; empty if the call was not recorded then."""

    @property
    def purpose(self) -> Purpose:
        """Returns the purpose of the call."""
        return self.target.purpose


class Accounts(Protocol):
    """Permits and books model calls."""

    def allow(self, target: CallTarget) -> None:
        """Returns if a run may ask its model.

        Raises:
            BudgetError: what may be used today is used up.
        """
        ...

    def begin(self, candidate: ModelCandidate, target: CallTarget) -> str:
        """Notes that a call begins, so that a kill leaves its trace; returns the call's id."""
        ...

    def book(self, call: ModelCallEnded) -> None:
        """Books a call that ended; must not block."""
        ...


class SingleCandidate:
    """The tries of a call for which there is one candidate; the same one at each call."""

    def __init__(
        self, choose: Callable[[], Awaitable[tuple["ModelProvider", "ModelInfo"]]]
    ) -> None:
        self._choose = choose
        self._candidate: ModelCandidate | None = None
        self._failed = False
        self.attempts: list[FailedAttempt] = []
        """Attempts that failed so far."""

    async def next(self) -> ModelCandidate | None:
        """Returns the candidate, but not twice in a call."""
        if self._failed:
            self._failed = False
            return None
        if self._candidate is None:
            self._candidate = ModelCandidate(*await self._choose())
        self.attempts.clear()
        return self._candidate

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        """Notes how it went."""
        self._failed = error is not None and not isinstance(error, OWN_FAULT)
        if error is not None:
            ref, profile = candidate.model.ref, candidate.profile
            self.attempts.append(FailedAttempt(ref, profile, error))

    def released(self, candidate: ModelCandidate) -> None:
        """Does nothing."""
