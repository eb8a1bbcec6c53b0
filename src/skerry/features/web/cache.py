"""Keeps results of fetches and searches for some minutes."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any, Final

MAX_ENTRIES: Final = 100
MAX_CHARS: Final = 8_000_000
"""Maximum total length of the texts, in characters."""


class Cache:
    """At most `MAX_ENTRIES` results; the oldest is dropped first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Hashable, tuple[int, int, dict[str, Any]]] = OrderedDict()
        self._chars = 0

    def get(self, key: Hashable, now_ms: int) -> dict[str, Any] | None:
        """Returns the result; None for a missing or expired one."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        until, _, result = entry
        if now_ms >= until:
            self._drop(key)
            return None
        return result

    def put(
        self, key: Hashable, result: dict[str, Any], chars: int, until_ms: int, now_ms: int
    ) -> None:
        """Stores a result of `chars` characters until a time; ignores an expired one."""
        if until_ms <= now_ms or chars > MAX_CHARS:
            return
        if key in self._entries:
            self._drop(key)
        self._entries[key] = until_ms, chars, result
        self._chars += chars
        while len(self._entries) > MAX_ENTRIES or self._chars > MAX_CHARS:
            self._drop(next(iter(self._entries)))

    def clear(self) -> None:
        """Removes all results."""
        self._entries.clear()
        self._chars = 0

    def _drop(self, key: Hashable) -> None:
        _, chars, _ = self._entries.pop(key)
        self._chars -= chars
