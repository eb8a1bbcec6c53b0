"""A call of a model, as the ledger has it."""

from skerry.model.message import Cost, Usage
from skerry.model.run import Purpose
from skerry.ports.model_candidates import CallTarget, ModelCallEnded, ModelCandidate
from skerry.store.usage import BookedCall, CallOutcome


def call(  # noqa: PLR0913 - each has a default; a test names what it needs
    tokens: int = 10,
    *,
    day: str = "2026-11-22",
    agent: str = "main",
    model: str = "m",
    session: str = "s",
    at: int = 0,
    priced: bool = True,
    outcome: CallOutcome = CallOutcome.OK,
) -> BookedCall:
    cost = Cost(input=tokens / 10, total=tokens / 10) if priced else Cost()
    return BookedCall(
        at=at,
        day=day,
        run_id="r",
        session_id=session,
        agent=agent,
        channel="webchat",
        purpose=Purpose.MESSAGE,
        provider="p",
        model=model,
        profile="",
        usage=Usage(input=tokens, total_tokens=tokens, cost=cost),
        priced=priced,
        outcome=outcome,
        counted=True,
        seconds=0.5,
    )


class Books:
    """Permits every call and keeps what became of each."""

    def __init__(self) -> None:
        self.calls: list[ModelCallEnded] = []

    def allow(self, target: CallTarget) -> None:
        """Permits it."""

    def begin(self, candidate: ModelCandidate, target: CallTarget) -> str:
        """Notes nothing."""
        del candidate, target
        return ""

    def book(self, call: ModelCallEnded) -> None:
        """Keeps it."""
        self.calls.append(call)
