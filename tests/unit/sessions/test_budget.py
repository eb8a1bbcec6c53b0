"""Token budgets of windows: OpenClaw's numbers for large windows, shares for small ones."""

import pytest

from skerry.config.context_limits import Compaction
from skerry.model import message
from skerry.sessions.window import budget, tokens, weight


@pytest.mark.requirement("compaction-config-defaults")
@pytest.mark.requirement("compaction-reserve-floor")
def test_the_defaults_are_those_of_the_seeds() -> None:
    settings = Compaction()
    assert settings.enabled
    assert (settings.reserve_tokens, settings.keep_recent_tokens) == (16_384, 20_000)
    assert settings.reserve_tokens_floor == 20_000
    large = budget(200_000, 3000, settings)
    assert (large.reserve, large.room, large.keep) == (20_000, 177_000, 20_000)


@pytest.mark.requirement("compaction-reserve-floor")
@pytest.mark.parametrize(
    ("reserve", "floor", "kept"),
    [(30_000, 20_000, 30_000), (9000, 20_000, 20_000), (9000, 0, 9000)],
)
def test_the_larger_of_reserve_and_floor_is_kept_free(reserve: int, floor: int, kept: int) -> None:
    settings = Compaction(reserve_tokens=reserve, reserve_tokens_floor=floor)
    assert budget(200_000, 0, settings).reserve == kept


@pytest.mark.parametrize("window", [2048, 4096, 8192, 32_768, 60_000])
def test_of_a_small_window_a_third_is_kept_free_and_the_rest_has_room(window: int) -> None:
    limits = budget(window, window // 8, Compaction())
    assert limits.reserve == window // 3 or limits.reserve == 20_000
    assert limits.keep + limits.summary < limits.room * 0.6
    assert limits.tighter(1).keep < limits.keep
    assert limits.tighter(0).keep == limits.keep


def test_a_prompt_that_fills_the_window_leaves_some_room_all_the_same() -> None:
    assert budget(4096, 10_000, Compaction()).room > 0


def test_outside_ascii_a_character_counts_as_a_token() -> None:
    assert tokens("x" * 400) == 101
    assert tokens("漢" * 400) == 401
    assert weight(message.user("漢" * 400, 1)) > 400
