"""Chooses the strictest of several security settings and ask modes of commands."""

from collections.abc import Iterable
from typing import Final, TypeVar

from skerry.config.exec import Ask, Security

SECURITIES: Final[tuple[Security, ...]] = ("deny", "allowlist", "full")
"""Values, strictest first."""
ASKS: Final[tuple[Ask, ...]] = ("always", "on-miss", "off")
"""Values, most cautious first."""
T = TypeVar("T", bound=str)


def strictest_security(settings: Iterable[Security | None], default: Security) -> Security:
    """Returns the strictest setting that is not None; `default` without any."""
    return _first(SECURITIES, settings, default)


def most_cautious_ask(settings: Iterable[Ask | None], default: Ask = "on-miss") -> Ask:
    """Returns the most cautious setting that is not None; `default` without any."""
    return _first(ASKS, settings, default)


def _first(order: tuple[T, ...], settings: Iterable[T | None], default: T) -> T:
    values = set(settings)
    return next((value for value in order if value in values), default)
