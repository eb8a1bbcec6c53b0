"""Cooldowns and probes in random orders, compared with a simple model of the rules."""

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from skerry.auth import cooldowns
from skerry.auth.cooldowns import HOUR, MINUTE, Availability, Cooldown, Cooldowns, Key, Reason
from skerry.model.errors import (
    ModelAuthError,
    ModelBillingError,
    ModelConnectionError,
    ModelError,
    ModelOverloadedError,
    ModelRateLimitError,
)
from skerry.testing.clock import FakeClock
from tests.support.shown import examples, shown

KEYS = st.sampled_from([(p, m) for p in ("a", "b") for m in ("p/x", "p/y")])
ERRORS: dict[str, tuple[type[ModelError], Reason | None]] = {
    "429": (ModelRateLimitError, Reason.RATE_LIMIT),
    "529": (ModelOverloadedError, Reason.OVERLOADED),
    "401": (ModelAuthError, Reason.AUTH),
    "402": (ModelBillingError, Reason.BILLING),
    "hang": (ModelConnectionError, None),
}
MINUTES = {
    Reason.BILLING: [300, 600, 1200, 1440, 1440, 1440],
    None: [1, 5, 25, 60, 60, 60],
}


class Rotation(RuleBasedStateMachine):
    """Calls begin, answer, fail and are given up while the clock goes on."""

    tried: type[Cooldowns] = Cooldowns

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock(1_000)
        self.kept: dict[tuple[str, str, Reason], Cooldown] = {}
        self.subject = self.tried((), self._keep, self._drop)
        self.rests: dict[Key, dict[Reason, tuple[int, int]]] = {}
        """In plain words: for each reason how many failures, and until when."""
        self.probing: set[Key] = set()

    def _keep(self, row: Cooldown) -> None:
        self.kept[row.profile, row.model, row.reason] = row

    def _drop(self, key: Key) -> None:
        self.kept = {place: row for place, row in self.kept.items() if place[:2] != key}

    @property
    def now(self) -> int:
        return self.clock.now_ms()

    def until(self, key: Key) -> int:
        return max((until for _, until in self.rests.get(key, {}).values()), default=0)

    @rule(minutes=st.sampled_from([0.5, 1, 6, 30, 61, 301, 1441, 3000]))
    def time_passes(self, minutes: float) -> None:
        self.clock.advance(int(minutes * MINUTE))

    @rule(key=KEYS)
    def a_probe_begins(self, key: Key) -> None:
        if self.subject.verdict(key, "s", self.now) is Availability.PROBE:
            assert self.subject.begin(key)
            self.probing.add(key)

    @rule(key=KEYS)
    def a_call_answers(self, key: Key) -> None:
        self.subject.succeeded(key)
        self.rests.pop(key, None)
        self.probing.discard(key)

    @rule(key=KEYS)
    def a_call_is_given_up(self, key: Key) -> None:
        self.subject.released(key)
        self.probing.discard(key)

    @rule(key=KEYS, kind=st.sampled_from(sorted(ERRORS)))
    def a_call_fails(self, key: Key, kind: str) -> None:
        error, reason = ERRORS[kind]
        self.subject.failed(key, "s", error(kind), self.now)
        self.probing.discard(key)
        if reason is None:
            return
        failures, until = self.rests.get(key, {}).get(reason, (0, 0))
        if self.now < until:
            return  # calls that fail together count once
        failures = failures + 1 if failures and self.now - until <= 24 * HOUR else 1
        steps = MINUTES.get(reason) or MINUTES[None]
        minutes = steps[min(failures, 6) - 1]
        self.rests.setdefault(key, {})[reason] = failures, self.now + minutes * MINUTE

    @rule()
    def the_gateway_starts_again(self) -> None:
        self.subject = self.tried(tuple(self.kept.values()), self._keep, self._drop)
        self.probing.clear()

    @invariant()
    def the_verdicts_are_those_of_the_rules(self) -> None:
        for key in ((p, m) for p in ("a", "b") for m in ("p/x", "p/y")):
            if key not in self.rests:
                expected = Availability.READY
            elif self.now < self.until(key):
                expected = Availability.COOLING
            else:
                expected = Availability.BUSY if key in self.probing else Availability.PROBE
            assert self.subject.verdict(key, "s", self.now) is expected, key


RUNS = settings(
    max_examples=examples(30),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_cooldowns_follow_the_rules_in_every_order() -> None:
    run_state_machine_as_test(Rotation, settings=RUNS)


class ByProfile(Cooldowns):
    """The defect of a peer: one model's failure takes the whole profile down."""

    def verdict(self, key: Key, stamp: str, now: int) -> Availability:
        del stamp
        rows = [row for row in self.rows(now) if row.profile == key[0]]
        return Availability.COOLING if rows else super().verdict(key, "s", now)


class Eager(Cooldowns):
    """The defect of a thundering herd: everybody probes at once."""

    def begin(self, key: Key) -> bool:
        del key
        return True


class Escalating(Cooldowns):
    """The defect of a burst: calls that fail together each lengthen the rest."""

    def failed(self, key: Key, stamp: str, error: ModelError, now: int) -> Cooldown | None:
        row = self.longest(key)
        return super().failed(key, stamp, error, max(now, row.until if row else 0))


@pytest.mark.parametrize("defect", [ByProfile, Eager, Escalating], ids=lambda one: one.__name__)
def test_the_machine_catches_a_defect(defect: type[Cooldowns]) -> None:
    class Broken(Rotation):
        tried = defect

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=shown(RUNS))


@pytest.mark.parametrize(
    ("reason", "minutes"),
    [(Reason.RATE_LIMIT, [1, 5, 25, 60, 60]), (Reason.BILLING, [300, 600, 1200, 1440, 1440])],
    ids=["rate limit", "billing"],
)
def test_the_steps_are_those_of_the_rules(reason: Reason, minutes: list[Any]) -> None:
    assert [cooldowns.pause(reason, n) / MINUTE for n in range(1, 6)] == minutes
