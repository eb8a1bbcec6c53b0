"""Protocol through which the gateway reads and changes the configuration."""

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct, field

from skerry.config.backup import LAST_GOOD_REMEDY
from skerry.config.expand import Expanded
from skerry.config.load import Loaded
from skerry.config.paths import KeyPath
from skerry.config.remote_write_policy import Pattern
from skerry.config.root import Config
from skerry.config.source import Source
from skerry.gateway.frames import Json
from skerry.model.errors import ConfigInvalidError, ConfigIssue

WRITES: Final = 3
PERIOD_MS: Final = 60_000
_MAX_WRITERS: Final = 1000


class ConfigFile(Struct, frozen=True):
    """Present content of the file. For an invalid file `loaded` is None; `issues` has faults."""

    source: Source
    loaded: Loaded | None
    issues: tuple[ConfigIssue, ...]
    exists: bool = True

    @property
    def expanded(self) -> Expanded | None:
        """Returns the expanded file; None for an invalid file."""
        return self.loaded.expanded if self.loaded else None


class Applied(Struct, frozen=True):
    """The new configuration, and the paths at which it differs from the previous one."""

    source: Source
    expanded: Expanded
    changed: tuple[KeyPath, ...]


class Configuration(Protocol):
    """Protocol of the configuration: its file, and the effective values."""

    hash_key: bytes
    """Key of the hashes of protocol 4; random for each process."""

    @property
    def broken(self) -> ConfigInvalidError | None:
        """Error of the file, while the last good one is used."""
        ...

    @property
    def expanded(self) -> Expanded:
        """Returns the expanded file of the present configuration."""
        ...

    @property
    def revision(self) -> str:
        """Returns the hash of the present configuration, with the included files."""
        ...

    @property
    def pending(self) -> list[str]:
        """Returns the changed paths that take effect after a restart."""
        ...

    @property
    def restart(self) -> str:
        """Returns `none`, `automatic` for a due restart, or `needed` when a person must do it."""
        ...

    def on_change(self, listener: Callable[[Config], None]) -> None:
        """Calls `listener` with each new configuration."""
        ...

    def revision_of(self, expanded: Expanded) -> str:
        """Returns the hash of a file with its included files."""
        ...

    async def look(self) -> ConfigFile:
        """Reads and checks the file."""
        ...

    async def edit(
        self,
        edit: Callable[[Source, Expanded], dict[str, object]],
        by: str,
        *,
        also: tuple[Pattern, ...] = (),
    ) -> Applied:
        """Writes the tree that `edit` returns for the file, and applies it.

        `also` names keys that may be changed in addition to those open to clients; `edit` is code
        of the gateway, not a client's text.
        """
        ...

    async def reload(self) -> Applied:
        """Reads and applies the file."""
        ...


def condition(keeper: Configuration, path: Path) -> dict[str, Json]:
    """Returns the state of the configuration, and the paths that need a restart."""
    pending: list[Json] = list(keeper.pending)
    due: dict[str, Json] = {"restart": keeper.restart, "restartPaths": pending} if pending else {}
    if keeper.broken is None:
        return {"state": "ok", **due}
    remedy = LAST_GOOD_REMEDY.format(path=path)
    return {"state": "last-good", "message": str(keeper.broken), "remedy": remedy, **due}


class WriteRate(Struct):
    """Limits the writes of each client to three a minute (openclaw-behaviour 14.1)."""

    _writes: dict[str, deque[int]] = field(default_factory=dict)

    def wait_ms(self, client_id: str, now_ms: int) -> int:
        """Counts a write of `client_id`; returns 0, or the milliseconds to wait before it."""
        for name in [
            name for name, times in self._writes.items() if times[-1] <= now_ms - PERIOD_MS
        ]:
            del self._writes[name]
        times = self._writes.get(client_id)
        if times is None:
            if len(self._writes) >= _MAX_WRITERS:
                return PERIOD_MS
            times = self._writes[client_id] = deque(maxlen=WRITES)
        if len(times) == WRITES and times[0] > now_ms - PERIOD_MS:
            return times[0] + PERIOD_MS - now_ms
        times.append(now_ms)
        return 0
