"""Texts for the reasons of heartbeats that called no model."""

from types import MappingProxyType
from typing import Final

REASONS: Final = MappingProxyType(
    {
        "empty-heartbeat-file": "HEARTBEAT.md has no instructions",
        "no-heartbeat-file": "HEARTBEAT.md does not exist",
        "unusable-heartbeat-file": "HEARTBEAT.md contains text from others",
        "no-route": "no chat can receive findings: write to the agent in a direct chat",
        "quiet-hours": "the time is outside of activeHours",
        "daily-cost": "the checks of the day have cost dailyCost",
        "too-many-failures": "too many checks in a row failed",
    }
)
"""Texts for people; other reasons are printed unchanged."""
