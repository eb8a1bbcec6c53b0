"""Table of the changes that a running gateway applies at once or after a restart (pure)."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from skerry.config.paths import KeyPath, show_key_path, within


class Effect(StrEnum):
    """Effect of a change."""

    LIVE = "live"
    """Takes effect with the next message, because the value is read at each use."""
    RESTART = "restart"
    """Takes effect at the next start."""


RULES: Final = tuple(
    (tuple(pattern.split(".")), effect)
    for pattern, effect in (
        ("$schema", Effect.LIVE),
        ("agent", Effect.LIVE),
        ("agents", Effect.LIVE),
        ("auth", Effect.LIVE),
        ("bindings", Effect.LIVE),
        ("broadcast", Effect.LIVE),
        ("browser", Effect.LIVE),
        ("canvasHost", Effect.LIVE),
        ("channels", Effect.LIVE),
        ("commands", Effect.LIVE),
        ("cron", Effect.LIVE),
        ("env", Effect.LIVE),
        ("gateway.control", Effect.LIVE),
        ("gateway.drainSeconds", Effect.LIVE),
        ("gateway.http", Effect.LIVE),
        ("gateway.nodes", Effect.LIVE),
        ("gateway.reload", Effect.LIVE),
        ("gateway.tools", Effect.LIVE),
        ("gateway", Effect.RESTART),
        ("hooks.internal", Effect.RESTART),
        ("hooks", Effect.LIVE),
        ("mcp", Effect.LIVE),
        ("memory.backend", Effect.RESTART),
        ("memory.citations", Effect.LIVE),
        ("memory.qmd.command", Effect.RESTART),
        ("memory.qmd.daemon", Effect.RESTART),
        ("memory.qmd", Effect.LIVE),
        ("memory", Effect.RESTART),
        ("messages", Effect.LIVE),
        ("meta", Effect.LIVE),
        ("models", Effect.LIVE),
        ("plugins.slots", Effect.RESTART),
        ("plugins", Effect.LIVE),
        ("secrets", Effect.LIVE),
        ("session", Effect.LIVE),
        ("skills", Effect.LIVE),
        ("tools", Effect.LIVE),
        ("usage", Effect.LIVE),
        ("wizard", Effect.LIVE),
    )
)
"""Rules in order; the first that matches applies. Source: openclaw-behaviour 1.6."""


def effect(key_path: KeyPath) -> Effect:
    """Returns the effect of a change at the key path; `restart` if no rule matches."""
    return next(
        (rule_effect for pattern, rule_effect in RULES if within(key_path, pattern)), Effect.RESTART
    )


def needs_restart(changed: Iterable[KeyPath]) -> list[str]:
    """Returns the changed keys that take effect only after the next start."""
    return [show_key_path(key_path) for key_path in changed if effect(key_path) is Effect.RESTART]
