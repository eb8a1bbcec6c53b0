"""Which changes a running gateway uses at once, and which after a restart."""

from collections.abc import Iterable
from typing import Final

from skerry.config.paths import Place, show_place, within

LIVE: Final = tuple(
    tuple(pattern.split("."))
    for pattern in (
        "$schema",
        "agents.defaults",
        "agents.list",
        "bindings",
        "commands",
        "cron",
        "env",
        "gateway.control",
        "messages",
        "meta",
        "models",
        "session",
        "wizard",
    )
)
"""What is read anew at each use; a change of anything else needs a restart."""


def needs_restart(changed: Iterable[Place]) -> list[str]:
    """Return those of the places that count only after the next start."""
    return [
        show_place(place)
        for place in changed
        if not any(within(place, pattern) for pattern in LIVE)
    ]
