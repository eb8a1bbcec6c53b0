"""The strictest of several effects."""

from hypothesis import given
from hypothesis import strategies as st

from skerry.policy.effect import ToolEffect, strictest

effects = st.sampled_from(ToolEffect)


def test_ask_is_stricter_than_allow_and_deny_than_both() -> None:
    assert strictest(ToolEffect.ALLOW, ToolEffect.ASK) is ToolEffect.ASK
    assert strictest(ToolEffect.ASK, ToolEffect.DENY, ToolEffect.ALLOW) is ToolEffect.DENY


def test_no_gate_at_all_is_a_deny() -> None:
    assert strictest() is ToolEffect.DENY


@given(st.lists(effects, min_size=1), effects)
def test_one_more_gate_never_widens(gates: list[ToolEffect], further: ToolEffect) -> None:
    order = list(ToolEffect)
    assert order.index(strictest(*gates, further)) >= order.index(strictest(*gates))
