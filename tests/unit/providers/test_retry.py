"""A model is asked again after what may pass, and only while it has said nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.model.errors import (
    ModelAuthError,
    ModelConnectionError,
    ModelError,
    ModelOverflowError,
    ModelOverloadedError,
    ModelRateLimitError,
)
from skerry.model.message import user
from skerry.ports.model import History, ModelInfo, ModelRequest, ReplyListener
from skerry.providers.retry import RetryingProvider, RetryPolicy
from skerry.testing.model import ScriptedModel

BUSY = ModelOverloadedError("busy")
REQUEST = ModelRequest(ModelInfo("p", "m", "M"), "", History([user("hi", 1)]))


class RecordedRequest:
    """A scripted model behind the wrapper; keeps how long was waited and what was said."""

    def __init__(self, *replies: list[str | ModelError], chance: float = 0.5) -> None:
        self.model = ScriptedModel(replies)
        self.waits: list[float] = []
        self.texts: list[str] = []
        self.provider = RetryingProvider(self.model, sleep=self.sleep, chance=lambda: chance)

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def text(self) -> str:
        return (await self.provider.complete(REQUEST, ReplyListener(self.texts.append))).text


async def test_a_failure_that_may_pass_is_tried_again() -> None:
    request = RecordedRequest([BUSY], [ModelConnectionError("gone")], ["hello"])
    assert await request.text() == "hello"
    assert request.waits == [0.25, 0.5]
    assert request.texts == ["hello"]


async def test_after_three_attempts_the_failure_is_the_callers() -> None:
    request = RecordedRequest([BUSY], [BUSY], [BUSY], ["late"])
    with pytest.raises(ModelOverloadedError):
        await request.text()
    assert len(request.model.requests) == 3


@pytest.mark.parametrize("error", [ModelAuthError("no"), ModelOverflowError("long")])
async def test_a_failure_that_stays_is_raised_at_once(error: ModelError) -> None:
    request = RecordedRequest([error], ["late"])
    with pytest.raises(type(error)):
        await request.text()
    assert request.waits == []


async def test_a_model_that_has_spoken_is_not_asked_again() -> None:
    request = RecordedRequest(["half", BUSY], ["late"])
    with pytest.raises(ModelOverloadedError):
        await request.text()
    assert (request.texts, request.waits) == (["half"], [])


async def test_the_providers_hint_is_waited_out() -> None:
    request = RecordedRequest([ModelRateLimitError("slow", retry_after=20.0)], ["hello"])
    assert await request.text() == "hello"
    assert request.waits == [20.25]


async def test_a_hint_over_a_minute_is_not_waited_for() -> None:
    request = RecordedRequest([ModelRateLimitError("slow", retry_after=61.0)], ["late"])
    with pytest.raises(ModelRateLimitError):
        await request.text()
    assert request.waits == []


def test_the_api_is_the_one_behind() -> None:
    assert RecordedRequest().provider.api == "script"


@given(st.integers(1, 2_000), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_over_the_cap(failed: int, chance: float) -> None:
    delay = RetryPolicy(attempts=10_000).delay(failed, None, chance)
    assert delay is not None
    assert 0 <= delay <= 8.0


@given(st.floats(0, 60), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_under_the_hint(hint: float, chance: float) -> None:
    delay = RetryPolicy().delay(1, hint, chance)
    assert delay is not None
    assert hint <= delay <= hint + 0.5


def test_the_range_of_the_wait_doubles() -> None:
    policy = RetryPolicy(attempts=7)
    waits = [policy.delay(failed, None, 1.0) for failed in range(1, 7)]
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0]
