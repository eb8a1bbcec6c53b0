"""Lanes as a state machine: whatever is submitted and ended in whatever order."""

from collections import defaultdict
from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skerry.lanes.lanes import Job, Lanes
from tests.support.shown import examples, shown

KEYS = "abcd"
steps = st.lists(
    st.tuples(st.just("submit"), st.sampled_from(KEYS))
    | st.tuples(st.just("first"), st.sampled_from(KEYS))
    | st.tuples(st.sampled_from(["end", "fail"]), st.integers(0, 3)),
    max_size=40,
)


class Model:
    """What must be true, kept apart from the lanes."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[int]] = defaultdict(list)
        self.running: dict[int, str] = {}
        self.ends: dict[int, anyio.Event] = {}
        self.failing: set[int] = set()

    async def job(self, number: int, key: str) -> None:
        assert key not in self.running.values(), "two of one key at a time"
        assert self.waiting[key][0] == number, "out of order"
        self.waiting[key].pop(0)
        self.running[number] = key
        await self.ends[number].wait()
        del self.running[number]
        if number in self.failing:
            raise RuntimeError("as planned")

    def end(self, position: int, *, fail: bool) -> None:
        if not self.running:
            return
        number = sorted(self.running)[position % len(self.running)]
        if fail:
            self.failing.add(number)
        self.ends[number].set()


async def _settled() -> None:
    """Waits until nothing goes on by itself."""
    for _ in range(20):  # else each wait that finds a task awake takes a tenth of a second
        await anyio.lowlevel.checkpoint()
    await anyio.wait_all_tasks_blocked()


async def play(plan: list[tuple[str, object]], limit: int, kind: type[Lanes] = Lanes) -> None:
    model = Model()
    async with kind(limit) as lanes:
        for number, (action, target) in enumerate(plan):
            if action in {"submit", "first"}:
                key = str(target)
                position = 0 if action == "first" else len(model.waiting[key])
                model.waiting[key].insert(position, number)
                model.ends[number] = anyio.Event()
                lanes.submit(key, partial(model.job, number, key), index=position)
            else:
                model.end(int(str(target)), fail=action == "fail")
            await _settled()
            busy = {key for key in KEYS if model.waiting[key]} | set(model.running.values())
            assert len(model.running) == min(limit, len(busy)), "a free slot was left empty"
            assert all(lanes.idle(key) == (key not in busy) for key in KEYS)
        while model.running:
            model.end(0, fail=False)
            await _settled()
        assert not any(model.waiting.values()), "somebody starved"


RUNS = settings(max_examples=examples(60))
ASKED = given(plan=steps, limit=st.integers(1, 3))


def played(kind: type[Lanes], plan: list[tuple[str, object]], limit: int) -> None:
    anyio.run(play, plan, limit, kind)


def test_order_limit_and_progress_hold_in_every_sequence() -> None:
    RUNS(ASKED(played))(Lanes)


class _Unlimited(Lanes):
    def __init__(self, limit: int) -> None:
        super().__init__(limit + 1)


class _Forgetful(Lanes):
    def submit(self, key: str, job: Job, *, position: int | None = None, **_: object) -> None:
        super().submit(key, job, index=0 if position else None)


@pytest.mark.parametrize("kind", [_Unlimited, _Forgetful], ids=["one too many", "wrong order"])
def test_a_defect_would_be_found(kind: type[Lanes]) -> None:
    with pytest.raises((AssertionError, ExceptionGroup)):
        shown(RUNS)(ASKED(played))(kind)
