"""Rules of heartbeats: active hours, files with nothing to do, and acknowledgements (pure)."""

import re
from collections.abc import Mapping
from datetime import datetime, tzinfo
from typing import Final, Literal

import msgspec
from msgspec import Struct

from skerry.config.heartbeat import ActiveHours, HeartbeatConfig
from skerry.config.root import Config
from skerry.model.ids import AgentId

TOKEN: Final = "HEARTBEAT_OK"  # noqa: S105 - a word of the model's reply
PROMPT: Final = (
    "This is a heartbeat: nobody wrote. Do what HEARTBEAT.md asks, and nothing from earlier"
    " conversations. If nothing needs the attention of your owner, your whole reply is"
    " HEARTBEAT_OK."
)
ALL: Final = "*"
"""Key of the row with the switch of all agents."""
REPEAT_MS: Final = 86_400_000
"""Time for which the same alert is not repeated."""
_EDGE: Final = r"(?:[\s*_`~\"'“”]|</?[a-z]{1,10}>){0,20}"
"""Bounded, so that its time grows linearly with the text."""
_HEAD: Final = re.compile(rf"\A{_EDGE}{TOKEN}{_EDGE}[.!,;:…-]{{0,4}}{_EDGE}")
_TAIL: Final = re.compile(rf"{_EDGE}{TOKEN}{_EDGE}[.!,;:…-]{{0,4}}{_EDGE}\Z")
_MIDNIGHT: Final = 24 * 60

Outcome = Literal["sent", "ok-empty", "ok-token", "duplicate"]


class HeartbeatState(Struct, frozen=True, omit_defaults=True):
    """State of an agent's heartbeats. Times are milliseconds since 1970."""

    ticked_at: int = 0
    """Time of the last check, with or without a model call."""
    failures: int = 0
    stopped: bool = False
    """True after too many failures in a row."""
    digest: str = ""
    """Hash of the last alert that was sent."""
    sent_at: int = 0
    last: dict[str, object] | None = None
    """The last event."""
    enabled: bool = True
    """False in the row of all agents while heartbeats are off."""


def decoded(body: bytes | None) -> HeartbeatState:
    """Returns a stored state, or that of an agent without one."""
    return HeartbeatState() if body is None else msgspec.json.decode(body, type=HeartbeatState)


def settings(config: Config) -> Mapping[AgentId, HeartbeatConfig]:
    """Returns the heartbeat settings of each agent with heartbeats.

    When at least one agent has such a section, only agents with a section have heartbeats.
    """
    agent_sections = {agent.id: agent.heartbeat for agent in config.agents.list if agent.heartbeat}
    chosen = agent_sections or dict.fromkeys(config.agents.ids, config.agents.defaults.heartbeat)
    return {
        agent: config_ for agent, config_ in chosen.items() if config_.enabled and config_.every > 0
    }


def is_active(hours: ActiveHours, now: int, zone: tzinfo | None) -> bool:
    """Returns true when the time is within the active hours; equal start and end mean never."""
    if hours.start is None or hours.end is None:
        return True
    start, end = _minutes(hours.start), _minutes(hours.end)
    local = datetime.fromtimestamp(now / 1000, zone)
    minute = local.hour * 60 + local.minute
    if start <= end:
        return start <= minute < end
    return minute >= start or minute < end


def judged(reply: str, max_extra: int) -> tuple[Outcome, str]:
    """Returns the kind of a reply, and its text without the token at its edges.

    Args:
        reply: Text of the model.
        max_extra: Characters besides the token with which it is still an acknowledgement.

    """
    text = _TAIL.sub("", _HEAD.sub("", reply.strip(), count=1), count=1).strip()
    if not reply.strip():
        return "ok-empty", ""
    if text != reply.strip() and len(text) <= max_extra:
        return "ok-token", text
    return "sent", text


def _minutes(text: str) -> int:
    hour, _, minute = text.partition(":")
    return min(int(hour) * 60 + int(minute), _MIDNIGHT)
