"""Applies edits of the configuration file, and requests a restart where a change needs one.

It polls with a few `stat` calls a second. A watcher (inotify, through watchfiles) costs 4.4 MB of a
gateway's 60, and misses changes on a network disk.
"""

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import anyio

from skerry.app.settings import Settings
from skerry.config.paths import show_key_path
from skerry.config.reload import ReloadMode
from skerry.gateway.broadcast import Broadcast
from skerry.gateway.configuration import Applied, condition
from skerry.gateway.health import Health
from skerry.model.errors import ConfigInvalidError

logger = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
AGAIN_SECONDS: Final = 10.0
"""Time between two reads of an invalid file: the fault may be in an included file or a secret."""
DEFER_SECONDS: Final = 300.0
"""Limit of the wait of a restart for running work, which is then stopped."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


class Reload:
    """Applies edits while `run` runs; sets `restart` when the gateway must restart."""

    def __init__(
        self,
        settings: Settings,
        broadcast: Broadcast,
        health: Health,
        busy: Callable[[], bool],
        poll: float = POLL_SECONDS,
    ) -> None:
        self.restart = anyio.Event()
        self._settings = settings
        self._broadcast = broadcast
        self._health = health
        self._busy = busy
        self._poll = poll
        self._waits_since: float | None = None
        settings.on_applied(self._applied)

    async def run(self) -> None:
        """Polls the file until cancelled, or until a restart is requested."""
        last_stamp = self._stamp()
        outdated = self._settings.outdated  # it was edited while the gateway started
        read_at = anyio.current_time()
        while not self.restart.is_set():
            mode = self._settings.config.gateway.reload.mode
            stamp = self._stamp()
            broken = self._settings.broken is not None
            is_retry = broken and anyio.current_time() - read_at >= AGAIN_SECONDS
            if mode is not ReloadMode.OFF and (outdated or is_retry or stamp != last_stamp):
                await self._at_rest(stamp)
                await self._take()
                last_stamp, outdated, read_at = self._stamp(), False, anyio.current_time()
            self._may_restart()
            await anyio.sleep(self._poll)

    def _stamp(self) -> _Stamp:
        return tuple(map(_stamp, self._settings.files))

    async def _at_rest(self, stamp: _Stamp) -> None:
        """Waits until the files were unchanged for `gateway.reload.debounceMs`."""
        while True:
            await anyio.sleep(self._settings.config.gateway.reload.debounce_ms / 1000)
            now = self._stamp()
            if now == stamp:
                return
            stamp = now

    async def _take(self) -> None:
        before = self._settings.broken
        try:
            applied = await self._settings.reload()
        except ConfigInvalidError as error:
            if before is None or before.issues != error.issues:
                logger.warning(
                    "the edit is rejected, the previous configuration stays in force: %s", error
                )
                self._tell([], str(error))
        except OSError:
            logger.exception("the edit is rejected")
        else:
            if before is not None:
                logger.info("the configuration file is valid again")
                if not applied.changed:
                    self._tell([], "")

    def _applied(self, applied: Applied) -> None:
        changed = [show_key_path(path) for path in applied.changed]
        logger.info("in force now: %s", ", ".join(changed))
        pending = self._settings.pending
        if pending and not self._settings.config.gateway.reload.mode.restarts:
            logger.warning("these need a restart: %s", ", ".join(pending))
        self._tell(changed, "")

    def _tell(self, changed: list[str], message: str) -> None:
        if self._health.report:  # `health` and the page show it until the next check
            state = condition(self._settings, self._settings.config.path)
            report = {**self._health.report, "configuration": state}
            self._health.update(report)
            self._broadcast.send("health", report)
        payload = {
            "valid": not message,
            "changedPaths": changed,
            "restartPaths": self._settings.pending,
            "restart": self._settings.restart,
        }
        self._broadcast.send("config.changed", payload | ({"message": message} if message else {}))

    def _may_restart(self) -> None:
        """Requests a due restart when no run is active, or after `DEFER_SECONDS`."""
        if self._settings.restart != "automatic" or self._settings.broken is not None:
            self._waits_since = None
            return
        now = anyio.current_time()
        if self._waits_since is None:
            self._waits_since = now
            logger.info("restarting for: %s", ", ".join(self._settings.pending))
        if not self._busy() or now - self._waits_since >= DEFER_SECONDS:
            self.restart.set()


def _stamp(path: os.PathLike[str]) -> tuple[int, int, int] | None:
    with suppress(OSError):
        status = os.stat(path)  # noqa: PTH116 - follows the link, as reading does
        return status.st_mtime_ns, status.st_size, status.st_ino
    return None
