"""Waiting times: known values, bounds, and a clock that was set back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skerry.infra.backoff import Backoff, Rest


@pytest.mark.parametrize(
    ("backoff", "waits"),
    [
        (Backoff(base=1.0, cap=60.0), [1, 2, 4, 8, 16, 32, 60, 60]),
        (Backoff(base=60.0, cap=3600.0, factor=5.0), [60, 300, 1500, 3600, 3600]),
        (Backoff(base=5.0, cap=5.0), [5, 5, 5]),
    ],
)
def test_waits_grow_by_the_factor_up_to_the_cap(backoff: Backoff, waits: list[float]) -> None:
    assert [backoff.delay(failures) for failures in range(1, len(waits) + 1)] == waits


@given(
    st.floats(0, 100),
    st.floats(0, 1e5),
    st.floats(1, 10),
    st.floats(0, 1),
    st.integers(0, 10**9),
    st.floats(0, 1),
)
def test_no_wait_is_longer_than_the_cap_or_shorter_than_its_share_without_jitter(
    base: float, cap: float, factor: float, jitter: float, failures: int, chance: float
) -> None:
    backoff = Backoff(base, cap, factor, jitter)
    wait, whole = backoff.delay(failures, chance), backoff.delay(failures)
    assert whole * (1 - jitter) * 0.999 <= wait <= whole <= cap


def test_jitter_takes_its_share_by_chance() -> None:
    assert Backoff(8.0, 60.0, jitter=1.0).delay(1, 0.25) == 2.0
    assert Backoff(8.0, 60.0, jitter=0.5).delay(2, 0.0) == 8.0
    assert Backoff(8.0, 60.0).delay(1, 0.0) == 8.0


def test_a_cooldown_grows_with_each_failure_and_ends() -> None:
    backoff = Backoff(60.0, 1500.0, 5.0)
    rest = Rest(backoff)
    assert rest.over(0)
    for seconds in (60, 300, 1500, 1500):
        rest = rest.after_failure(1_000_000_000)
        assert rest.until == 1_000_000_000 + seconds * 1000
        assert not rest.over(rest.until - 1)
        assert rest.over(rest.until)


def test_a_clock_that_was_set_back_ends_a_cooldown() -> None:
    rest = Rest(Backoff(60.0, 1500.0, 5.0)).after_failure(1_000_000_000)
    assert not rest.over(1_000_000_000)
    assert rest.over(1_000_000_000 - 1_500_001)
