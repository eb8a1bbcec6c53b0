"""Holds the parts of a running relayer that the routes share."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from .extract import Extractor
from .nonces import NonceStore
from .ports import KeyServer, MemoryService
from .rate_limits import RequestLimits

VERSION = "0.1.0"
"""Version of the relayer, x.y.z."""


@dataclass(slots=True)
class Relayer:
    """The parts of one relayer."""

    memory: MemoryService
    keys: KeyServer
    nonces: NonceStore
    limits: RequestLimits
    extractor: Extractor
    clock: Callable[[], float]
    """Unix seconds."""
    origins: tuple[str, ...] = ()
    """Origins of other sites whose pages may send requests (CORS)."""
    public_url: str = ""
    """Address for clients that do not reach this server directly; it has no path."""
    counts: Counter[tuple[str, int]] = field(default_factory=Counter[tuple[str, int]])
    """Numbers of answers by route and status, for `/metrics`."""
    started: float = 0.0
    mcp: bool = True
    """True when `/api/mcp` is open, whose clients send private keys."""
