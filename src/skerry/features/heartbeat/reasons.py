"""Words for the reasons of heartbeats that did not ask a model."""

from types import MappingProxyType
from typing import Final

REASONS: Final = MappingProxyType(
    {
        "empty-heartbeat-file": "HEARTBEAT.md names nothing to do",
        "no-heartbeat-file": "there is no HEARTBEAT.md",
        "unusable-heartbeat-file": "HEARTBEAT.md has words of others",
        "no-route": "nobody can be told yet: write to the agent in a direct chat of a platform",
        "quiet-hours": "it is outside of activeHours",
        "daily-cost": "the checks of the day have cost dailyCost",
        "too-many-failures": "too many checks in a row failed",
    }
)
"""Reasons for people; another one is shown as it is."""
