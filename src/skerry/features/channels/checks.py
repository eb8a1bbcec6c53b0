"""Checks of `skerry doctor` for accounts on chat platforms."""

from collections.abc import Iterator, Mapping
from typing import Any

from skerry.ports.checks import Check, Level


def accounts(status: Mapping[str, Any]) -> Iterator[Check]:
    """Yields a finding for each account: a warning for an account that is not connected."""
    for account in status.get("channels", ()):
        name = f"{account['channel']}/{account['account']}"
        if account["state"] == "connected" and not account["message"]:
            yield Check("channels", Level.OK, f"{name} is connected{_as(account)}.")
        elif account["enabled"]:
            message = f"{name}: {account['message'] or account['state']}"
            yield Check("channels", Level.WARNING, message, account["remedy"])


def _as(account: Mapping[str, Any]) -> str:
    return f" as {account['name']}" if account["name"] else ""
