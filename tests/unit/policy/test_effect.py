"""The strictest of several effects."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.policy.effect import Effect, strictest

effects = st.sampled_from(Effect)


def test_ask_is_stricter_than_allow_and_deny_than_both() -> None:
    assert strictest(Effect.ALLOW, Effect.ASK) is Effect.ASK
    assert strictest(Effect.ASK, Effect.DENY, Effect.ALLOW) is Effect.DENY


def test_no_gate_at_all_is_a_deny() -> None:
    assert strictest() is Effect.DENY


@given(st.lists(effects, min_size=1), effects)
def test_one_more_gate_never_widens(gates: list[Effect], further: Effect) -> None:
    order = list(Effect)
    assert order.index(strictest(*gates, further)) >= order.index(strictest(*gates))
