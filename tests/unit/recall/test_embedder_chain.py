"""The order of embedding models, and the fallback after a failure."""

from collections.abc import Sequence
from typing import Any

import anyio
import numpy as np
import pytest

from skerry_recall.embed import (
    Embedder,
    EmbeddingError,
    EmbeddingModel,
    EmbeddingRefusedError,
    EmbeddingTimeoutError,
    EmbeddingUnavailableError,
    Kind,
)
from skerry_recall.embedder_chain import COOLDOWNS, Chain
from skerry_recall.passages import passages

A, B = EmbeddingModel("near", "a"), EmbeddingModel("far", "b")


class Fake:
    """A model that behaves as the test sets."""

    bulk = 8
    dims = 1

    def __init__(self, model: EmbeddingModel, *, local: bool = False) -> None:
        self.model = model
        self.local = local
        self.error: EmbeddingError | None = None
        self.silent = False
        self.bad = ""
        self.asked: list[list[str]] = []

    async def embed(self, texts: Sequence[str], kind: Kind) -> "np.ndarray[Any, Any]":  # noqa: ARG002 - the same for both
        self.asked.append(list(texts))
        if self.silent:
            await anyio.sleep_forever()
        if self.error is not None:
            raise self.error
        if self.bad in texts:
            raise EmbeddingRefusedError(f"not {self.bad}")
        return np.array([[float(len(text))] for text in texts], np.float32)


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def _passages(chain: Chain, *texts: str) -> "np.ndarray[Any, Any]":
    """Asks the model of the chain that is chosen now."""
    chosen = chain.chosen()
    assert chosen is not None
    return await chain.passages(texts, chosen.model)


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def a() -> Fake:
    return Fake(A)


@pytest.fixture
def b() -> Fake:
    return Fake(B)


@pytest.fixture
def chain(a: Fake, b: Fake, time: Time) -> Chain:
    return Chain([a, b], search_seconds=0.05, monotonic=time)


def _name(embedder: Embedder | None) -> EmbeddingModel | None:
    return embedder.model if embedder else None


@pytest.mark.requirement("embed-runtime-fallback")
async def test_when_the_first_fails_the_next_answers_and_says_so(chain: Chain, a: Fake) -> None:
    a.error = EmbeddingError("busy")
    with pytest.raises(EmbeddingError, match="busy"):
        await _passages(chain, "x", "yy")
    assert _name(chain.chosen()) == B
    assert (await _passages(chain, "x", "yy")).tolist() == [[1.0], [2.0]]
    a.error = None
    assert _name(chain.chosen()) == B, "the other rests"


async def test_one_that_failed_cools_down_longer_each_time_and_then_returns(
    chain: Chain, a: Fake, time: Time
) -> None:
    a.error = EmbeddingError("busy")
    for rest in (*COOLDOWNS, COOLDOWNS[-1]):
        with pytest.raises(EmbeddingError, match="busy"):
            await chain.passages(["x"], A)
        count = len(a.asked)
        time.now += rest - 1
        with pytest.raises(EmbeddingError, match="cools down: busy"):
            await chain.query("x", A)
        assert len(a.asked) == count
        time.now += 1
    a.error = None
    assert chain.trouble() is None
    assert (await chain.passages(["x"], A)).tolist() == [[1.0]]
    a.error = EmbeddingError("again")
    with pytest.raises(EmbeddingError):
        await chain.passages(["x"], A)
    trouble = chain.trouble(A)
    assert trouble is not None
    assert (trouble.failures, trouble.reason, trouble.until - time.now) == (
        1,
        "again",
        COOLDOWNS[0],
    )


async def test_an_index_waits_for_its_model_after_one_failure_and_changes_after_two(
    chain: Chain, a: Fake, time: Time
) -> None:
    a.error = EmbeddingError("busy")
    with pytest.raises(EmbeddingError):
        await chain.passages(["x"], A)
    assert _name(chain.chosen(A)) == A
    assert _name(chain.chosen()) == B
    time.now += COOLDOWNS[0]
    with pytest.raises(EmbeddingError):
        await chain.passages(["x"], A)
    assert _name(chain.chosen(A)) == B
    time.now += COOLDOWNS[1]
    assert _name(chain.chosen(B)) == A, "the wanted one is tried again"


async def test_a_question_is_asked_of_the_model_of_the_index_alone(
    chain: Chain, a: Fake, b: Fake
) -> None:
    a.error = EmbeddingError("busy")
    with pytest.raises(EmbeddingError, match="busy"):
        await chain.query("x", A)
    assert b.asked == []
    with pytest.raises(EmbeddingUnavailableError, match="other/c is not one of"):
        await chain.query("x", EmbeddingModel("other", "c"))


async def test_a_question_that_was_asked_before_costs_nothing(chain: Chain, a: Fake) -> None:
    first = await chain.query("x", A)
    assert (await chain.query("x", A)) is first
    await chain.query("x", B)
    assert a.asked == [["x"]]
    for number in range(300):
        await chain.query(str(number), A)
    await chain.query("x", A)
    assert len(a.asked) == 302


async def test_a_slow_model_costs_one_search_its_deadline_and_not_the_next(
    chain: Chain, a: Fake
) -> None:
    a.silent = True
    with pytest.raises(EmbeddingTimeoutError, match=r"within 0\.05 s"):
        await chain.query("x", A)
    with pytest.raises(EmbeddingError, match="cools down"):
        await chain.query("x", A)
    assert len(a.asked) == 1


async def test_a_local_model_that_loads_does_not_cool_down(time: Time) -> None:
    slow = Fake(A, local=True)
    slow.silent = True
    chain = Chain([slow], search_seconds=0.05, monotonic=time)
    for _ in range(2):
        with pytest.raises(EmbeddingTimeoutError):
            await chain.query("x", A)
    assert chain.trouble() is None


async def test_several_failures_at_once_are_one(chain: Chain, a: Fake) -> None:
    a.silent = True

    async def ask() -> None:
        with pytest.raises(EmbeddingError):
            await chain.query("x", A)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    trouble = chain.trouble(A)
    assert trouble is not None
    assert trouble.failures == 1


async def test_a_text_that_is_refused_is_named_and_the_others_get_their_vectors(
    chain: Chain, a: Fake
) -> None:
    a.bad = "bad"
    face = chain.embedder()
    assert face is not None
    answer = await passages(face, ["x", "yy", "bad", "zzz", "w"])
    assert sorted(answer.vectors) == [0, 1, 3, 4]
    assert answer.refused == {2: "not bad"}
    assert (answer.error, chain.trouble()) == (None, None)


@pytest.mark.requirement("embed-chain-auto")
async def test_without_a_model_there_is_none_and_nothing_breaks(a: Fake, time: Time) -> None:
    assert Chain([]).chosen() is None
    assert Chain([]).trouble() is None
    a.error = EmbeddingUnavailableError("no key", "Enter one.")
    chain = Chain([a], monotonic=time)
    with pytest.raises(EmbeddingUnavailableError, match="no key"):
        await chain.passages(["x"], A)
    assert chain.chosen() is None
    trouble = chain.trouble()
    assert trouble is not None
    assert trouble.remedy == "Enter one."


async def test_the_face_of_a_chain_is_one_model_with_all_that_the_chain_knows(
    chain: Chain, a: Fake, time: Time
) -> None:
    face = chain.embedder()
    assert face is not None
    a.bad = "bad"
    assert (await face.embed(["x", "yy"], Kind.PASSAGE)).tolist() == [[1.0], [2.0]]
    with pytest.raises(EmbeddingRefusedError):
        await face.embed(["x", "bad"], Kind.PASSAGE)
    await face.embed(["q"], Kind.QUERY)
    await face.embed(["q"], Kind.QUERY)
    assert a.asked.count(["q"]) == 1
    a.error = EmbeddingError("busy")
    for expected in (A, B):
        with pytest.raises(EmbeddingError, match="busy"):
            await face.embed(["y"], Kind.PASSAGE)
        assert _name(chain.embedder()) == expected
        time.now += COOLDOWNS[0]
    assert Chain([]).embedder() is None
