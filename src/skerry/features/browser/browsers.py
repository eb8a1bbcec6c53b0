"""Browsers by agent: starts each at its first use, and ends it when it is idle or not allowed."""

import logging
import secrets
import shutil
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
from msgspec import Struct, field

from skerry.features.browser import chromium
from skerry.features.browser.browser import Browser
from skerry.features.browser.cdp import CdpError
from skerry.features.browser.config import BrowserConfig
from skerry.features.browser.traffic import Dialer, Traffic
from skerry.infra.process import NotStartedError
from skerry.infra.supervise import Idle, first_of, in_background
from skerry.model.ids import AgentId
from skerry.policy.network import NetworkRules
from skerry.sdk.tool_host import ToolHost

logger = logging.getLogger(__name__)

FOLDER: Final = "browser"
"""Folder of the profiles in the state directory."""
MAX_BROWSERS: Final = 4
"""Maximum number of browsers at the same time, one for each agent."""
START_SECONDS: Final = 60.0
"""Time limit from the start of Chromium to its first page."""
END_SECONDS: Final = 20.0
_MAX_REASON: Final = 300
_MINUTE: Final = 60.0


class BrowserDownError(Exception):
    """The browser cannot be used; the message has the reason and the remedy."""


class _Opened(Struct):
    """One start of a browser."""

    settings: BrowserConfig
    ready: anyio.Event = field(default_factory=anyio.Event)
    """Set when the browser can be used, or has failed."""
    stop: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)
    """Set when the process has ended and its profile is removed."""
    browser: Browser | None = None
    reason: str = ""


class Browsers:
    """The running browsers of a gateway."""

    def __init__(
        self,
        host: ToolHost,
        dialer: Dialer,
        rules: Callable[[], NetworkRules],
        settings: Callable[[], BrowserConfig],
        is_root: bool,  # noqa: FBT001 - a fact of the machine
    ) -> None:
        self._host = host
        self._dialer = dialer
        self._rules = rules
        self._settings = settings
        self._is_root = is_root
        self._opened: dict[AgentId, _Opened] = {}
        self._idle: dict[AgentId, Idle] = {}
        self._starting = anyio.Lock()
        host.on_config_change(lambda _: self.follow())

    def running(self, agent: AgentId) -> Browser | None:
        """Returns the browser of an agent; None if it does not run."""
        opened = self._opened.get(agent)
        return opened.browser if opened is not None else None

    @asynccontextmanager
    async def used(self, agent: AgentId) -> AsyncGenerator[Browser]:
        """Yields the browser of an agent, which is started if it does not run.

        Raises:
            BrowserDownError: the browser cannot be started.
        """
        async with self._starting:
            browser = self.running(agent) or await self._start(agent)
        with self._idle[agent].use():
            yield browser

    async def stop(self, agent: AgentId) -> bool:
        """Ends the browser of an agent; returns whether it ran."""
        opened = self._opened.get(agent)
        if opened is None:
            return False
        opened.stop.set()
        with anyio.move_on_after(END_SECONDS):
            await opened.ended.wait()
        return True

    def follow(self) -> None:
        """Ends the browsers whose settings have changed; the next call starts them again."""
        settings = self._settings()
        for opened in self._opened.values():
            if not settings.enabled or opened.settings != settings:
                opened.stop.set()

    async def _start(self, agent: AgentId) -> Browser:
        """Starts a browser and waits until it can be used."""
        if (earlier := self._opened.get(agent)) is not None:
            with anyio.move_on_after(END_SECONDS):
                await earlier.ended.wait()  # it uses the same profile
        if len(self._opened) >= MAX_BROWSERS:
            message = f"{MAX_BROWSERS} browsers of other agents run already. Try again later."
            raise BrowserDownError(message)
        opened = self._opened[agent] = _Opened(self._settings())
        name = f"browser {agent} {secrets.token_hex(4)}"
        self._host.start(partial(self._live, agent, opened), name)
        try:
            with anyio.move_on_after(START_SECONDS):
                await opened.ready.wait()
        finally:
            if opened.browser is None:
                opened.stop.set()
        if opened.browser is None:
            reason = opened.reason or f"it did not answer within {START_SECONDS:g} s"
            raise BrowserDownError(f"The browser cannot be started: {reason}")
        return opened.browser

    async def _live(self, agent: AgentId, opened: _Opened) -> None:
        """Keeps one browser until it ends, is idle or `stop` is set."""
        try:
            await first_of(partial(self._serve, agent, opened), opened.stop.wait)
        except Exception as error:  # noqa: BLE001 - Chromium fails in any way; the caller gets the reason
            opened.reason = reason_of(error)
            logger.warning("browser of %s: %s", agent, opened.reason)
        finally:
            opened.browser = None
            if self._opened.get(agent) is opened:
                del self._opened[agent]
            opened.ready.set()
            opened.ended.set()

    async def _serve(self, agent: AgentId, opened: _Opened) -> None:
        """Runs Chromium until it is idle.

        Raises:
            BrowserDownError: Chromium is missing, or ended.
        """
        settings = opened.settings
        program = chromium.found(settings.executable_path, self._host.environ)
        if program is None:
            missing = settings.executable_path or "Chromium"
            raise BrowserDownError(f"{missing} does not exist. {chromium.MISSING}")
        if self._is_root and not settings.no_sandbox:
            raise BrowserDownError(chromium.ROOT)
        folder = self._host.state_dir / FOLDER / str(agent)
        traffic = Traffic(self._dialer, self._rules)
        async with profile(folder, is_kept=settings.profile == "kept"), traffic.served():
            launch = chromium.Launch(
                program, folder, traffic.port, self._host.environ, settings.no_sandbox
            )
            await self._run(agent, opened, launch, traffic)

    async def _run(
        self, agent: AgentId, opened: _Opened, launch: chromium.Launch, traffic: Traffic
    ) -> None:
        tail = ""
        try:
            async with chromium.launched(launch) as (cdp, process):
                browser = Browser(cdp, traffic, opened.settings.max_tabs)
                try:
                    async with in_background(browser.run):
                        await browser.begin()
                        idle = Idle(opened.settings.idle_minutes * _MINUTE)
                        self._idle[agent], opened.browser = idle, browser
                        opened.ready.set()
                        logger.info("browser of %s: %s", agent, browser.version)
                        await first_of(partial(_withdraw, opened, idle), cdp.ended.wait)
                finally:
                    tail = process.tail
        except (CdpError, NotStartedError) as error:
            lines = [line for line in tail.splitlines() if line.strip()] or [str(error)]
            raise BrowserDownError(f"Chromium ended: {lines[-1][:_MAX_REASON]}") from error


async def _withdraw(opened: _Opened, idle: Idle) -> None:
    """Waits until the browser is idle; the next call then starts another one."""
    await idle.over()
    opened.browser = None


@asynccontextmanager
async def profile(folder: Path, *, is_kept: bool) -> AsyncGenerator[None]:
    """Prepares the folder of a profile for the block; an ephemeral one is removed before and after.

    A folder that a crash has left is removed before the next start.
    """
    await anyio.to_thread.run_sync(partial(_prepared, folder, is_kept=is_kept))
    try:
        yield
    finally:
        if not is_kept:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_remove, folder)


def _prepared(folder: Path, *, is_kept: bool) -> None:
    if not is_kept:
        _remove(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for lock in (folder / "profile").glob("Singleton*"):  # of a browser that was killed
        lock.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def reason_of(error: BaseException) -> str:
    """Returns the reason of a failure; of several errors the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return " ".join(str(error).split())[:_MAX_REASON] or type(error).__name__
