"""Detects tool calls that are repeated without progress in one run (pure).

A model may repeat the same call, or alternate between two calls, without progress. First the result
of a call has a warning; then further calls are denied.
"""

import hashlib
from collections import deque
from collections.abc import Mapping
from itertools import takewhile
from typing import Any, Final

import msgspec
from msgspec import Struct

_POLLS: Final = frozenset({"poll", "log"})
"""Actions of the tool `process` that read the state of a command."""


class LoopLimits(Struct, frozen=True):
    """Numbers of equal calls at which the model is warned or a call is denied."""

    enabled: bool = True
    history: int = 30
    """Number of the last calls that are compared."""
    warning: int = 10
    """Equal calls at which the model is warned, and at each multiple."""
    critical: int = 20
    """Equal polls or alternating calls from which they are denied if their results never
    changed."""
    breaker: int = 30
    """Equal calls of any tool from which they are denied if their results never changed."""


class Repetition(Struct, frozen=True):
    """Report on a repeated call before it is made."""

    rule: str
    count: int
    """Number of equal calls before it."""
    is_blocked: bool
    """True if the call is denied; otherwise the model is warned."""

    @property
    def text(self) -> str:
        """Returns the message for the model."""
        return (
            f"this call was made {self.count} times in this run without a new result; "
            "try another way, or tell the user what is in the way"
        )


class CallHistory:
    """The calls of one run and their results, as digests."""

    def __init__(self, limits: LoopLimits) -> None:
        self._limits = limits
        self._calls: deque[tuple[bytes, bytes]] = deque(maxlen=max(limits.history, limits.breaker))

    def judge(self, tool: str, arguments: Mapping[str, Any]) -> Repetition | None:
        """Returns the report on the next call; None if it is no repetition to report."""
        limits = self._limits
        if not limits.enabled:
            return None
        key = _key(tool, arguments)
        same = [outcome for call, outcome in reversed(self._calls) if call == key]
        unchanged = len(list(takewhile(lambda outcome: outcome == same[0], same)))
        if unchanged >= limits.breaker:
            return Repetition("loop-breaker", unchanged, is_blocked=True)
        is_poll = tool == "process" and arguments.get("action") in _POLLS
        if is_poll and unchanged >= limits.critical:
            return Repetition("loop-poll", unchanged, is_blocked=True)
        turns = self._alternations(key)
        if turns >= limits.critical:
            return Repetition("loop-in-turn", turns, is_blocked=True)
        count = max(turns, unchanged if is_poll else len(same))
        if count and count % limits.warning == 0:
            return Repetition("loop-warning", count, is_blocked=False)
        return None

    def record(self, tool: str, arguments: Mapping[str, Any], outcome: bytes) -> None:
        """Adds a call that was made, with its result."""
        self._calls.append((_key(tool, arguments), hashlib.sha256(outcome).digest()))

    def _alternations(self, key: bytes) -> int:
        """Returns the number of last calls that alternate between two, each with a constant result.

        The call with `key` would be the next of them; 0 if it would not.
        """
        calls = list(reversed(self._calls))
        if len(calls) < 2 or calls[0][0] == key or calls[1][0] != key:  # noqa: PLR2004 - a pair
            return 0
        pair = calls[:2]
        alike = (call == pair[index % 2] for index, call in enumerate(calls))
        return len(list(takewhile(bool, alike)))


def _key(tool: str, arguments: Mapping[str, Any]) -> bytes:
    encoded = msgspec.json.encode([tool, arguments], order="sorted", enc_hook=str)
    return hashlib.sha256(encoded).digest()
