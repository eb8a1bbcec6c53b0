"""The clock for tests."""

from skerry.testing.clock import FakeClock


def test_it_stands_still_until_it_is_moved() -> None:
    clock = FakeClock()
    first = clock.now_ms()
    assert clock.now_ms() == first
    clock.advance(1500)
    assert clock.now_ms() == first + 1500


def test_it_can_be_set_back() -> None:
    clock = FakeClock(1000)
    clock.advance(-1)
    assert clock.now_ms() == 999
