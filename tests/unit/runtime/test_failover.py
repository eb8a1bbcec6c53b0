"""A model call with several candidates: their order, the emitted events, the booked calls."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import anyio
import pytest

from skerry.model.errors import (
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRequestError,
)
from skerry.model.event import LoopEvent, MessageUpdate, MessageWithdrawn
from skerry.model.run import Purpose
from skerry.ports.model import History, ModelCost, ModelInfo, ModelProvider, ModelRequest
from skerry.ports.model_candidates import CallTarget, Candidates, FailedAttempt, ModelCandidate
from skerry.runtime.model_call import Failover, ModelCall
from skerry.testing.clock import FakeClock
from skerry.testing.model import ReplyGate, ScriptedModel, ScriptedModels, Step
from tests.support.ledger import Books


@dataclass
class CandidateRow(ScriptedModels):
    """Candidates in a row, each asked once a call; also the tries of the one call."""

    candidates: Sequence[ModelCandidate] = ()
    attempts: list[FailedAttempt] = field(default_factory=list)
    released_candidates: list[ModelCandidate] = field(default_factory=list)

    def tries(self, target: CallTarget) -> Candidates:
        del target
        self._remaining = list(self.candidates)
        return self

    async def next(self) -> ModelCandidate | None:
        return self._remaining.pop(0) if self._remaining else None

    def ended(self, candidate: ModelCandidate, error: ModelError | None) -> None:
        if error is not None:
            self.attempts.append(FailedAttempt(candidate.model.ref, candidate.profile, error))

    def released(self, candidate: ModelCandidate) -> None:
        self.released_candidates.append(candidate)


async def ask(model: ModelInfo) -> ModelRequest:
    return ModelRequest(model, "system", History())


def candidate(name: str, *steps: Step, profile: str = "") -> ModelCandidate:
    provider: ModelProvider = ScriptedModel([list(steps)])
    cost = ModelCost(output=1_000_000)
    return ModelCandidate(provider, ModelInfo("p", name, name, cost=cost), profile)


class Rig:
    """A model call over candidates, with its emitted events and its booked calls."""

    def __init__(self, *candidates: ModelCandidate) -> None:
        self.models = CandidateRow(None, candidates=candidates)
        self.events: list[LoopEvent] = []
        books = Books()
        self.booked = books.calls
        failover = Failover(self.models, CallTarget(purpose=Purpose.CRON), books)
        self.speaker = ModelCall(failover, self.events.append, FakeClock(7).now_ms)


DOWN = ModelOverloadedError("down")


async def test_the_next_candidate_answers_in_the_place_of_one_that_failed() -> None:
    rig = Rig(candidate("a", DOWN), candidate("b", "hello"))
    response = await rig.speaker.respond(ask)
    assert (response.text, response.model, rig.speaker.failure) == ("hello", "b", None)


async def test_what_a_failed_model_said_is_withdrawn_before_another_speaks() -> None:
    rig = Rig(candidate("a", "Hel", DOWN), candidate("b", "Good day"))
    response = await rig.speaker.respond(ask)
    assert rig.events == [MessageUpdate("Hel"), MessageWithdrawn(), MessageUpdate("Good day")]
    assert response.text == "Good day"


async def test_a_failure_of_all_is_one_sentence_and_its_details_name_each() -> None:
    rig = Rig(candidate("a", DOWN, profile="p:one"), candidate("b", "Hel", DOWN))
    response = await rig.speaker.respond(ask)
    assert (response.text, response.stop_reason) == ("Hel", "error")
    one_sentence = "No model answered: p/a@p:one: down; 1 more failed, see /status."
    assert response.error_message == one_sentence
    assert rig.speaker.failure is not None
    assert rig.speaker.failure.attempts == ("p/a@p:one: down", "p/b: down")
    assert rig.speaker.failure.code == "model.all_failed"


@pytest.mark.parametrize(
    "fault",
    [ModelOverflowError("too long"), ModelRequestError("bad")],
    ids=lambda error: error.code,
)
async def test_a_fault_of_the_conversation_is_reported_as_such_and_asks_nobody_else(
    fault: ModelError,
) -> None:
    rig = Rig(candidate("a", fault), candidate("b", "hello"))
    response = await rig.speaker.respond(ask)
    assert (response.stop_reason, response.error_message) == ("error", str(fault))
    assert rig.speaker.failure is not None
    assert rig.speaker.failure.code == fault.code


async def test_every_call_is_booked_once_with_its_price_and_its_purpose() -> None:
    rig = Rig(candidate("a", DOWN), candidate("b", "hel", "lo", profile="p:one"))
    await rig.speaker.respond(ask)
    failed, succeeded = rig.booked
    assert failed.error is not None
    assert (failed.model, failed.error.code, failed.usage.output) == ("a", "model.overloaded", 0)
    assert (succeeded.model, succeeded.profile, succeeded.error) == ("b", "p:one", None)
    assert (succeeded.usage.output, succeeded.usage.cost.total) == (2, 2.0)
    assert {failed.purpose, succeeded.purpose} == {Purpose.CRON}


async def test_an_empty_answer_is_a_failure_whose_tokens_are_booked() -> None:
    rig = Rig(candidate("a", " "), candidate("b", "hello"))
    assert (await rig.speaker.respond(ask)).text == "hello"
    assert (rig.booked[0].usage.output, rig.booked[0].error is None) == (1, False)


async def test_an_abort_is_booked_and_says_nothing_of_the_candidate() -> None:
    gate = ReplyGate()
    rig = Rig(candidate("a", "so ", gate), candidate("b", "hello"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(rig.speaker.respond, ask)
        await gate.reached.wait()
        tasks.cancel_scope.cancel()
    (booked,) = rig.booked
    assert booked.error is not None
    assert booked.error.code == "run.aborted"
    assert [entry.model.id for entry in rig.models.released_candidates] == ["a"]
    assert rig.models.attempts == []


@pytest.mark.requirement("agent-run-resolves-auth-profile")
async def test_the_model_and_its_profile_are_known_before_the_request_is_built() -> None:
    rig = Rig(candidate("a", "hello", profile="p:one"))
    ids: list[tuple[str, str]] = []

    async def build(model: ModelInfo) -> ModelRequest:
        current = rig.speaker._failover.current
        assert current is not None
        ids.append((model.ref, current.profile))
        return await ask(model)

    await rig.speaker.respond(build)
    assert ids == [("p/a", "p:one")]
