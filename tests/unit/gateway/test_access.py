"""Who may do what: the table, row by row, on a real socket."""

import pytest

from skerry.gateway.dispatch import KERNEL_METHODS, MethodTable
from skerry.policy import access
from skerry.policy.access import ADMIN, PAIRING, READ, WRITE, Need, Role, Verb
from skerry.policy.decide import Actor, Request, allows, decide
from skerry.sdk.features import registered
from tests.support.gateway import Rig
from tests.support.wire import connected


@pytest.mark.parametrize(
    ("held", "expected", "allowed"),
    [
        ([READ], READ, True),
        ([READ], WRITE, False),
        ([WRITE], READ, True),
        ([WRITE], ADMIN, False),
        ([ADMIN], WRITE, True),
        ([ADMIN], PAIRING, True),
        ([PAIRING], READ, False),
        ([], READ, False),
    ],
)
def test_which_scope_includes_which(*, held: list[str], expected: str, allowed: bool) -> None:
    assert allows(held, expected) is allowed


@pytest.mark.parametrize(
    ("need", "role", "scopes", "met"),
    [
        (access.UNRESTRICTED, Role.NODE, (), True),
        (access.NODES, Role.NODE, (), True),
        (access.NODES, Role.OPERATOR, (ADMIN,), False),
        (access.READERS, Role.OPERATOR, (WRITE,), True),
        (access.READERS, Role.OPERATOR, (), False),
        (access.READERS, Role.NODE, (ADMIN,), False),
    ],
)
def test_a_need_asks_for_the_role_and_the_scope(
    *, need: Need, role: Role, scopes: tuple[str, ...], met: bool
) -> None:
    actor = Actor(role=role, scopes=scopes)
    assert decide(Request(actor, Verb.RECEIVE, need=need)).allowed is met


def test_every_method_has_a_row_and_every_row_a_method() -> None:
    every = {method.name for method in KERNEL_METHODS}
    featured = registered().methods.keys()
    # Methods of features that a command of ours stands for have their rows beside the commands.
    assert access.METHODS.keys() - every == {*access.COMMANDS.values()} - every
    assert every <= access.METHODS.keys()
    assert sorted(every | featured | access.METHODS.keys()) == MethodTable().names


def test_a_method_without_a_row_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {name: need for name, need in access.METHODS.items() if name != "health"}
    monkeypatch.setattr(access, "METHODS", rows)
    with pytest.raises(RuntimeError, match="health"):
        MethodTable()


@pytest.mark.parametrize("scope", [*sorted(access.OPERATOR_SCOPES), None])
async def test_every_method_is_refused_or_not_by_its_row(rig: Rig, scope: str | None) -> None:
    """What is let through may still refuse its parameters; it is not asked for a scope."""
    scopes = [scope] if scope else []
    async with connected(rig.url, scopes=scopes) as wire:
        needs = MethodTable().needs
        for name in [*needs, "no.such.method"]:
            need = needs.get(name, access.UNLISTED)
            message = (await wire.ask(name, {"bogus": 1})).get("error", {}).get("message", "")
            if need.role not in {None, Role.OPERATOR}:
                assert message == "unauthorized role: operator", name
            elif need.scope is None or allows(scopes, need.scope):
                assert not message.startswith(("missing scope", "unauthorized")), name
            else:
                assert message == f"missing scope: {need.scope}", name
