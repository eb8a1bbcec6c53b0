"""Lanes: order in a session, limits of the groups, and fairness."""

import anyio
import pytest

from skerry.lanes.lanes import Job, Lanes


class Bench:
    """Jobs that record their start, and end when the test releases them."""

    def __init__(self) -> None:
        self.began: list[str] = []
        self.running = 0
        self.most = 0
        self._gates: dict[str, anyio.Event] = {}

    def job(self, name: str, *, held: bool = False) -> Job:
        if held:
            self._gates[name] = anyio.Event()

        async def work() -> None:
            self.began.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                if name in self._gates:
                    await self._gates[name].wait()
                else:
                    await anyio.lowlevel.checkpoint()
            finally:
                self.running -= 1

        return work

    def end(self, name: str) -> None:
        self._gates.pop(name).set()


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def drained(lanes: Lanes) -> None:
    """Waits until no job waits or runs."""
    with anyio.fail_after(60):
        while not all(lanes.idle(key) for key in "abcdefghij"):
            await anyio.lowlevel.checkpoint()


@pytest.mark.requirement("lanes-serialise-per-session")
async def test_jobs_of_one_key_run_one_after_another_in_order(bench: Bench) -> None:
    async with Lanes(4) as lanes:
        for n in range(50):
            lanes.submit("a", bench.job(f"a{n}"))
        await drained(lanes)
    assert bench.began == [f"a{n}" for n in range(50)]
    assert bench.most == 1


@pytest.mark.requirement("lanes-global-optional")
async def test_no_more_run_at_a_time_than_the_limit(bench: Bench) -> None:
    async with Lanes(3) as lanes:
        for n in range(60):
            lanes.submit("abcdefghij"[n % 10], bench.job(f"{n}"))
        await drained(lanes)
    assert bench.most == 3
    assert len(bench.began) == 60


async def test_a_session_with_a_hundred_jobs_delays_another_by_one(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        for n in range(100):
            lanes.submit("a", bench.job(f"a{n}", held=n == 0))
        lanes.submit("b", bench.job("b0"))
        lanes.submit("b", bench.job("b1"))
        await anyio.wait_all_tasks_blocked()
        bench.end("a0")
        await drained(lanes)
    assert bench.began[:5] == ["a0", "b0", "a1", "b1", "a2"]


async def test_a_job_can_be_put_before_those_that_wait(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        lanes.submit("a", bench.job("running", held=True))
        lanes.submit("a", bench.job("waits"))
        lanes.submit("a", bench.job("first"), index=0)
        await anyio.wait_all_tasks_blocked()
        bench.end("running")
        await drained(lanes)
    assert bench.began == ["running", "first", "waits"]


async def test_a_failing_job_stops_neither_its_lane_nor_the_others(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise RuntimeError("broken")

    async with Lanes(1) as lanes:
        lanes.submit("a", broken)
        lanes.submit("a", bench.job("a"))
        lanes.submit("b", bench.job("b"))
        await drained(lanes)
    assert sorted(bench.began) == ["a", "b"]
    assert "a job in lane a failed" in caplog.text


async def test_idle_means_that_nothing_of_the_key_runs_or_waits(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        assert lanes.idle("a")
        lanes.submit("a", bench.job("a", held=True))
        lanes.submit("b", bench.job("b"))
        assert not lanes.idle("a")
        assert not lanes.idle("b")  # waits for the limit
        await anyio.wait_all_tasks_blocked()
        bench.end("a")
        await drained(lanes)


async def test_a_drain_lets_what_runs_end_and_starts_nothing_more(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        lanes.submit("a", bench.job("a0", held=True))
        lanes.submit("a", bench.job("a1"))
        outcome: list[bool] = []

        async def drain() -> None:
            outcome.append(await lanes.drain(10))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drain)
            await anyio.wait_all_tasks_blocked()
            lanes.submit("b", bench.job("b0"))
            bench.end("a0")
        assert outcome == [True]
    assert bench.began == ["a0"]


async def test_a_drain_that_takes_too_long_says_so(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        lanes.submit("a", bench.job("a", held=True))
        await anyio.wait_all_tasks_blocked()
        assert await lanes.drain(0) is False
        assert bench.running == 1
    assert bench.running == 0  # the end of the block cancelled it


async def test_an_idle_drain_is_over_at_once() -> None:
    async with Lanes(1) as lanes:
        assert await lanes.drain(10) is True


async def test_leaving_the_block_drops_what_waits(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        lanes.submit("a", bench.job("a", held=True))
        lanes.submit("b", bench.job("b"))
        await anyio.wait_all_tasks_blocked()
    assert bench.began == ["a"]
    assert bench.running == 0


async def test_subagents_have_a_limit_of_their_own(bench: Bench) -> None:
    async with Lanes(1, subagents=2) as lanes:
        lanes.submit("agent:main:main", bench.job("main", held=True))
        for name in ("one", "two", "three"):
            lanes.submit(f"agent:main:subagent:{name}", bench.job(name, held=True))
        lanes.submit("agent:main:other", bench.job("other"))
        await anyio.wait_all_tasks_blocked()
        assert bench.began == ["main", "one", "two"]
        bench.end("two")
        await anyio.wait_all_tasks_blocked()
        assert bench.began == ["main", "one", "two", "three"]
        for name in ("main", "one", "three"):
            bench.end(name)
        await anyio.wait_all_tasks_blocked()
        assert bench.began[-1] == "other"
        assert await lanes.drain(5)


async def test_a_job_that_is_not_counted_waits_for_its_lane_only(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        lanes.submit("a", bench.job("a1", held=True))
        lanes.submit("b", bench.job("b1"))
        lanes.submit("a", bench.job("a2"), counted=False)
        lanes.submit("c", bench.job("c1"), counted=False)
        await anyio.wait_all_tasks_blocked()
        assert bench.began == ["a1", "c1"]  # the slot is taken, the lane of c is not
        bench.end("a1")
        await anyio.wait_all_tasks_blocked()
        assert sorted(bench.began) == ["a1", "a2", "b1", "c1"]
        lanes.submit("a", bench.job("a3"))
        await anyio.wait_all_tasks_blocked()
        assert "a3" in bench.began  # an uncounted job released no slot, as it had none


async def test_jobs_that_are_not_counted_give_no_slots_away(bench: Bench) -> None:
    async with Lanes(1) as lanes:
        for number in range(3):
            lanes.submit("x", bench.job(f"x{number}"), counted=False)
        await anyio.wait_all_tasks_blocked()
        for key in ("a", "b"):
            lanes.submit(key, bench.job(key, held=True))
        await anyio.wait_all_tasks_blocked()
        assert bench.began[3:] == ["a"]
        bench.end("a")
        bench.end("b")


async def test_a_job_outside_its_slot_lets_others_run_and_waits_for_one_behind() -> None:
    began: list[str] = []
    outside, back, end = anyio.Event(), anyio.Event(), anyio.Event()

    async def asks() -> None:
        async with lanes.outside("a"):
            outside.set()
            await back.wait()
        began.append("a again")

    async def other() -> None:
        began.append("b")
        await end.wait()

    async with Lanes(1) as lanes:
        lanes.submit("a", asks)
        lanes.submit("b", other)
        lanes.submit("c", other)
        with anyio.fail_after(60):
            await outside.wait()
            while began != ["b"]:
                await anyio.lowlevel.checkpoint()
            back.set()
            await anyio.wait_all_tasks_blocked()
            assert began == ["b"], "the slot is in use"
            end.set()
            assert await lanes.drain(60)
    assert began[:2] == ["b", "a again"]


async def test_a_job_that_is_cancelled_outside_its_slot_leaves_the_count_right() -> None:
    scope, outside = anyio.CancelScope(), anyio.Event()

    async def asks() -> None:
        with scope:
            async with lanes.outside("a"):
                outside.set()
                await anyio.sleep_forever()

    async with Lanes(1) as lanes:
        lanes.submit("a", asks)
        with anyio.fail_after(60):
            await outside.wait()
            scope.cancel()
            while lanes.use()[0].running or not lanes.idle("a"):
                await anyio.lowlevel.checkpoint()
            done = anyio.Event()

            async def work() -> None:
                done.set()

            lanes.submit("b", work)
            await done.wait()
        assert lanes.use()[0].running in {0, 1}
