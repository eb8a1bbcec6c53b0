"""Findings of `skerry doctor` about accounts on chat platforms."""

from typing import Any

from skerry.features.channels.checks import accounts
from skerry.ports.checks import Check, Level


def checks_of(**account: Any) -> list[Check]:
    row = {"channel": "matrix", "account": "default", "enabled": True, "name": "", "message": ""}
    return list(accounts({"channels": [row | {"remedy": ""} | account]}))


def test_a_connected_account_is_fine_and_one_that_cannot_decrypt_is_warned_about() -> None:
    (fine,) = checks_of(state="connected", name="@bot:local")
    assert (fine.level, fine.message) == (Level.OK, "matrix/default is connected as @bot:local.")
    (lacks,) = checks_of(state="connected", message="The extra is missing.", remedy="Install it.")
    assert (lacks.level, lacks.remedy) == (Level.WARNING, "Install it.")
    assert lacks.message == "matrix/default: The extra is missing."


def test_an_account_that_waits_is_warned_about_and_one_that_is_off_is_not() -> None:
    (waits,) = checks_of(state="retrying", remedy="Wait.")
    assert (waits.level, waits.message) == (Level.WARNING, "matrix/default: retrying")
    assert checks_of(state="stopped", enabled=False) == []
