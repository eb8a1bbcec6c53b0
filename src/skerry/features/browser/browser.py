"""A running browser: its tabs, the requests that it may make, and its answers to the proxy."""

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio

from skerry.features.browser.cdp import Cdp, CdpError
from skerry.features.browser.tab import Tab
from skerry.features.browser.traffic import Refused, Traffic
from skerry.policy.urls import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

logger = logging.getLogger(__name__)

_NETWORK: Final = frozenset({"http", "https"})
_INNER: Final = frozenset({"about", "blob", "data"})
"""Schemes of content that a page makes itself; every other one is refused."""
_PAGES: Final = [{"type": "page"}, {"exclude": True}]
_FIRST: Final = "t1"
_MAX_HOST: Final = 253
_MAX_NEW: Final = 256
"""Tabs that are not prepared yet; a page may open and close many."""
OPEN_SECONDS: Final = 20.0
"""Time limit in which a new tab answers."""


class Browser:
    """Tabs of one agent. `run` must run meanwhile."""

    def __init__(self, cdp: Cdp, traffic: Traffic, max_tabs: int) -> None:
        self._cdp = cdp
        self.traffic = traffic
        self._max_tabs = max_tabs
        self._last = 0
        self._tabs: dict[str, Tab] = {}
        self.current: Tab | None = None
        """Tab of calls that name none."""
        self.version = ""
        self.lock = anyio.Lock()
        """Held during a call: actions of two conversations must not mix."""
        self._new = asyncio.Queue[Tab](_MAX_NEW)
        self._changed = anyio.Event()
        self._handlers: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "Fetch.authRequired": self._authenticate,
            "Fetch.requestPaused": self._check,
            "Target.attachedToTarget": self._attached,
            "Target.detachedFromTarget": self._detached,
        }

    @property
    def tabs(self) -> list[Tab]:
        """Returns the open tabs, oldest first."""
        return [tab for tab in self._tabs.values() if tab.is_open]

    async def begin(self) -> None:
        """Prepares the browser before its first page.

        Raises:
            CdpError: the browser ended, or does not support a command.
        """
        self._cdp.on_event = self._take
        version = await self._cdp.call("Browser.getVersion")
        self.version = str(version.get("product", ""))
        answers = {"resourceType": "Document", "requestStage": "Response"}
        patterns = [{"urlPattern": "*"}, {"urlPattern": "*", **answers}]
        # On the session of the browser: also for workers, and for frames of other sites.
        await self._cdp.call("Fetch.enable", {"patterns": patterns, "handleAuthRequests": True})
        await self._cdp.call("Browser.setDownloadBehavior", {"behavior": "deny"})
        attach = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
        await self._cdp.call("Target.setAutoAttach", {**attach, "filter": _PAGES})
        while not (self.tabs or self._cdp.ended.is_set()):
            await self._changed.wait()

    async def run(self) -> None:
        """Prepares new tabs until it is cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                tasks.start_soon(self._prepare, await self._new.get())

    async def _prepare(self, tab: Tab) -> None:
        """Opens a tab for calls; closes it if its page does not answer."""
        try:
            with anyio.fail_after(OPEN_SECONDS):
                await tab.open()
        except (CdpError, TimeoutError) as error:
            logger.info("browser tab %s cannot be used: %s", tab.id, error)
            self._cdp.tell("Target.closeTarget", {"targetId": tab.target})
            return
        tab.is_open = True
        self.current = self.current or tab
        self._note()

    def tab(self, name: str | None) -> Tab | None:
        """Returns a tab by its name, or the current tab; None if there is none."""
        if name is None:
            return self.current
        return next((tab for tab in self.tabs if tab.id == name), None)

    async def open_tab(self) -> Tab | None:
        """Returns an empty tab, which becomes the current one; None at the limit of tabs.

        Raises:
            CdpError: the browser has ended.
        """
        if (first := self._first()) is not None:
            self.current = first
            return first
        if len(self._tabs) >= self._max_tabs:
            return None
        answer = await self._cdp.call("Target.createTarget", {"url": "about:blank"})
        target = answer["targetId"]
        while not (opened := [tab for tab in self.tabs if tab.target == target]):
            await self._changed.wait()
        self.current = opened[0]
        return self.current

    def _first(self) -> Tab | None:
        """Returns the tab that Chromium opens at its start, while nothing has used it."""
        unused = [tab for tab in self.tabs if tab.id == _FIRST and tab.url in {"", "about:blank"}]
        return unused[0] if unused else None

    async def close_tab(self, tab: Tab) -> None:
        """Closes a tab, and waits until it is closed.

        Raises:
            CdpError: the browser has ended.
        """
        await self._cdp.call("Target.closeTarget", {"targetId": tab.target})
        await tab.until(lambda: tab.session not in self._tabs)

    def _note(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _take(self, session: str, method: str, params: dict[str, Any]) -> None:
        """Handles an event of the browser or of a tab."""
        if session:
            if (tab := self._tabs.get(session)) is not None:
                tab.take(method, params)
        elif (handler := self._handlers.get(method)) is not None:
            handler(params)

    def _attached(self, params: dict[str, Any]) -> None:
        """Adds a tab, also one that a page opened; closes it above the limit."""
        info, session = params.get("targetInfo") or {}, str(params.get("sessionId", ""))
        target = str(info.get("targetId", ""))
        self._last += 1
        tab = Tab(self._cdp, session, target, self._last)
        if len(self._tabs) >= self._max_tabs or not self._is_accepted(tab):
            self._cdp.tell("Target.closeTarget", {"targetId": target})
            return
        self._tabs[session] = tab

    def _is_accepted(self, tab: Tab) -> bool:
        """Queues a tab for `run`; returns False when too many wait already."""
        try:
            self._new.put_nowait(tab)
        except asyncio.QueueFull:
            return False
        return True

    def _detached(self, params: dict[str, Any]) -> None:
        session = str(params.get("sessionId", ""))
        self._cdp.forget(session)
        if (tab := self._tabs.pop(session, None)) is None:
            return
        tab.is_closed = True
        tab.note()
        if self.current is tab:
            self.current = next(reversed(self.tabs), None)
        self._note()

    def _check(self, params: dict[str, Any]) -> None:
        """Lets a request continue, or fails it; the proxy decides again when it connects.

        A page that is the answer of the proxy fails too: its address names another host.
        """
        if "responseStatusCode" in params or "responseErrorReason" in params:
            headers = params.get("responseHeaders") or ()
            self._decide(params, is_refused=any(_is_of_proxy(header) for header in headers))
            return
        url = str((params.get("request") or {}).get("url", ""))
        refusal = self._refusal(url)
        if refusal is not None:
            host = (urlsplit(url).netloc or url)[:_MAX_HOST]
            self.traffic.refused.append(Refused(host, refusal))
        self._decide(params, is_refused=refusal is not None)

    def _decide(self, params: dict[str, Any], *, is_refused: bool) -> None:
        request = {"requestId": params.get("requestId")}
        if is_refused:
            self._cdp.tell("Fetch.failRequest", {**request, "errorReason": "BlockedByClient"})
        else:
            self._cdp.tell("Fetch.continueRequest", request)

    def _refusal(self, url: str) -> Refusal | None:
        scheme = url.partition(":")[0].lower()
        if scheme in _NETWORK:
            return self.traffic.request(url)
        if scheme in _INNER:
            return None
        return Refusal("scheme", f"The scheme {scheme[:20]} is not http or https.")

    def _authenticate(self, params: dict[str, Any]) -> None:
        """Gives the credentials of the proxy to the proxy only; cancels every other question."""
        challenge = params.get("authChallenge") or {}
        answer: dict[str, Any] = {"response": "CancelAuth"}
        is_proxy = challenge.get("source") == "Proxy"
        if is_proxy and challenge.get("origin") == f"http://127.0.0.1:{self.traffic.port}":
            name, password = self.traffic.credentials
            answer = {"response": "ProvideCredentials", "username": name, "password": password}
        request = {"requestId": params.get("requestId"), "authChallengeResponse": answer}
        self._cdp.tell("Fetch.continueWithAuth", request)


def _is_of_proxy(header: dict[str, Any]) -> bool:
    """Returns whether a header is that of an answer of `net.proxy` itself."""
    return str(header.get("name", "")).lower() == "x-proxy-error"
