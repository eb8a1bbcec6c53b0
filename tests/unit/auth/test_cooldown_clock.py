"""A credential that cools down while the clock of the machine is set."""

import pytest

from skerry.auth.cooldowns import HOUR, MINUTE, NEVER, Availability, Cooldowns
from skerry.model.errors import ModelError, ModelRateLimitError, ModelSignInError

KEY = ("den:one", "den/large")
NOW = 1_800_000_000_000
DAY = 24 * HOUR


def rested(error: ModelError) -> Cooldowns:
    cooldowns = Cooldowns()
    cooldowns.begin(KEY)
    assert cooldowns.failed(KEY, "stamp", error, NOW) is not None
    return cooldowns


@pytest.mark.parametrize("back", [2 * HOUR, DAY, 30 * DAY])
def test_it_does_not_cool_down_longer_when_the_clock_is_set_before_the_failure(back: int) -> None:
    cooldowns = rested(ModelRateLimitError("slow down"))
    assert cooldowns.verdict(KEY, "stamp", NOW - back) is Availability.PROBE
    assert cooldowns.rows(NOW - back) == []
    cooldowns.begin(KEY)
    again = cooldowns.failed(KEY, "stamp", ModelRateLimitError("slow down"), NOW - back)
    assert again is not None
    assert again.until - (NOW - back) == 5 * MINUTE
    assert cooldowns.verdict(KEY, "stamp", NOW - back) is Availability.COOLING


def test_a_clock_that_is_put_right_by_a_little_changes_nothing() -> None:
    cooldowns = rested(ModelRateLimitError("slow down"))
    assert cooldowns.verdict(KEY, "stamp", NOW - 5000) is Availability.COOLING
    assert cooldowns.verdict(KEY, "stamp", NOW + DAY) is Availability.PROBE


def test_a_sign_in_that_has_ended_waits_for_a_person_whatever_the_clock_says() -> None:
    cooldowns = rested(ModelSignInError("ended"))
    for now in (NOW - DAY, NOW, NOW + DAY):
        assert cooldowns.verdict(KEY, "stamp", now) is Availability.COOLING
        assert [row.until for row in cooldowns.rows(now)] == [NEVER]
