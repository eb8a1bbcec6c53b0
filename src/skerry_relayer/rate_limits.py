"""Limits the weighted requests of a key and of an owner, in sliding windows."""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

WEIGHTS: Final = {
    "/api/analyze": 5,
    "/api/remember": 5,
    "/api/remember/bulk": 10,
    "/api/remember/manual": 3,
    "/api/restore": 3,
    "/api/ask": 2,
}
"""Weight of a request by its path; any other weighs 1."""

MAX_WINDOWS: Final = 10_000
"""Maximum number of windows in memory; the least recently used are dropped first."""


@dataclass(frozen=True, slots=True)
class Layer:
    """One limit: `limit` weighted requests in `seconds`."""

    name: str
    limit: int
    seconds: int
    unit: str


LAYERS: Final = (
    Layer("delegate_key", 30, 60, "min"),
    Layer("account_burst", 60, 60, "min"),
    Layer("account_sustained", 500, 3600, "hour"),
)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A refused request: the layer that refused it."""

    layer: Layer

    @property
    def retry_after(self) -> int:
        """Returns the seconds after which the client may retry."""
        return 60 if self.layer.seconds == 60 else 300  # noqa: PLR2004 - a minute

    def body(self) -> dict[str, object]:
        """Returns the JSON object of the response 429."""
        return {
            "error": "Rate limit exceeded",
            "layer": self.layer.name,
            "limit": f"{self.layer.limit} weighted-requests/{self.layer.unit}",
            "retry_after_seconds": self.retry_after,
        }


@dataclass(slots=True)
class _Window:
    entries: deque[tuple[float, int]] = field(default_factory=deque)
    weight: int = 0

    def forget_before(self, time: float) -> None:
        while self.entries and self.entries[0][0] <= time:
            self.weight -= self.entries.popleft()[1]

    def add(self, now: float, weight: int) -> None:
        self.entries.append((now, weight))
        self.weight += weight


class RequestLimits:
    """Counts requests in memory. A refused request is charged to no layer."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self._windows: OrderedDict[tuple[str, str], _Window] = OrderedDict()

    def charge(self, key: str, owner: str, weight: int, now: float) -> Exceeded | None:
        """Counts one request of `key`; returns the exceeded limit, or None if it was counted."""
        if not self.on:
            return None
        windows = self._of(key, owner, now)
        for layer, window in zip(LAYERS, windows, strict=True):
            if window.weight + weight > layer.limit:
                return Exceeded(layer)
        for window in windows:
            window.add(now, weight)
        return None

    def add(self, key: str, owner: str, weight: int, now: float) -> None:
        """Counts further work that a request caused; this may exceed the limit."""
        if self.on and weight:
            for window in self._of(key, owner, now):
                window.add(now, weight)

    def _of(self, key: str, owner: str, now: float) -> list[_Window]:
        windows = []
        for layer, name in zip(LAYERS, (key, owner, owner), strict=True):
            window = self._windows.setdefault((layer.name, name), _Window())
            self._windows.move_to_end((layer.name, name))
            window.forget_before(now - layer.seconds)
            windows.append(window)
        while len(self._windows) > MAX_WINDOWS:
            self._windows.popitem(last=False)
        return windows


def weight_of(path: str) -> int:
    """Returns the weight of a path, which may be percent-encoded or end with a slash."""
    return WEIGHTS.get(unquote(path).rstrip("/"), 1)
