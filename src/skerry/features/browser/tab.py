"""One tab of a browser: its address, its document, its messages, and the refs of its elements."""

from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import anyio

from skerry.features.browser.cdp import Cdp
from skerry.features.browser.snapshot import Refs

MAX_MESSAGES: Final = 100
"""Number of messages of the console that are kept."""
MAX_MESSAGE: Final = 500
"""Maximum characters of one message."""
MAX_TITLE: Final = 200
_BEGIN_SECONDS: Final = 0.3
"""Seconds in which the load that an action causes begins."""
_ENABLE: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Page.enable", {}),
    ("Runtime.enable", {}),
    ("Log.enable", {}),
    ("DOM.enable", {}),
    ("Accessibility.enable", {}),
    ("Page.setInterceptFileChooserDialog", {"enabled": True}),
)
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


class Tab:
    """A page of the browser. `take` must get the events of its session."""

    def __init__(self, cdp: Cdp, session: str, target: str, number: int) -> None:
        self._cdp = cdp
        self.session = session
        self.target = target
        """Id of the target, which is also that of its outermost frame."""
        self.id = f"t{number}"
        self.url = ""
        self.title = ""
        self.document = ""
        """Id of the present document: another one after each navigation."""
        self.refs = Refs()
        self.messages: deque[str] = deque(maxlen=MAX_MESSAGES)
        """Messages of the console, exceptions and dialogs."""
        self.is_open = False
        """True when calls may use the tab."""
        self.is_loading = False
        self.is_crashed = False
        self.is_closed = False
        self._changed = anyio.Event()
        self._handlers: Mapping[str, Callable[[dict[str, Any]], None]] = {
            "Inspector.targetCrashed": self._crashed,
            "Log.entryAdded": self._logged,
            "Page.frameNavigated": self._navigated,
            "Page.frameStartedLoading": self._loading,
            "Page.frameStoppedLoading": self._loaded,
            "Page.javascriptDialogOpening": self._dialog,
            "Page.navigatedWithinDocument": self._moved,
            "Runtime.consoleAPICalled": self._printed,
            "Runtime.exceptionThrown": self._thrown,
        }

    async def open(self) -> None:
        """Enables the events of the session, then lets the tab run.

        Raises:
            CdpError: the tab was closed.
        """
        for method, params in _ENABLE:
            await self.call(method, params)
        self._cdp.tell("Runtime.runIfWaitingForDebugger", session=self.session)

    async def call(self, method: str, params: Mapping[str, Any] = _NONE) -> dict[str, Any]:
        """Sends a command to the tab and returns its result.

        Raises:
            CdpError: the browser refused it, or the tab was closed.
        """
        return await self._cdp.call(method, params, self.session)

    async def describe(self) -> None:
        """Reads the present address and title.

        Raises:
            CdpError: the tab was closed.
        """
        history = await self.call("Page.getNavigationHistory")
        entry = history["entries"][history["currentIndex"]]
        self.url = str(entry.get("url", ""))
        self.title = " ".join(str(entry.get("title", ""))[:MAX_MESSAGE].split())[:MAX_TITLE]

    def take(self, method: str, params: dict[str, Any]) -> None:
        """Handles an event of the session."""
        if (handler := self._handlers.get(method)) is not None:
            handler(params)
            self.note()

    def note(self) -> None:
        """Wakes the waits: something of the tab has changed."""
        self._changed.set()
        self._changed = anyio.Event()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits until the condition holds, or the tab is closed or has crashed."""
        while not (condition() or self.is_closed or self.is_crashed):
            await self._changed.wait()

    async def settled(self, seconds: float) -> bool:
        """Waits until the page has loaded, at most `seconds`; returns whether it has."""
        with anyio.move_on_after(_BEGIN_SECONDS):
            await self.until(lambda: self.is_loading)
        with anyio.move_on_after(seconds):
            await self.until(lambda: not self.is_loading)
        return not self.is_loading

    def _is_outermost(self, params: dict[str, Any]) -> bool:
        return params.get("frameId") == self.target

    def _navigated(self, params: dict[str, Any]) -> None:
        frame = params.get("frame") or {}
        if frame.get("id") == self.target:
            self.url = str(frame.get("url", ""))
            self.document = str(frame.get("loaderId", ""))
            self.is_crashed = False
            self.refs.clear()

    def _moved(self, params: dict[str, Any]) -> None:
        if self._is_outermost(params):
            self.url = str(params.get("url", ""))

    def _loading(self, params: dict[str, Any]) -> None:
        if self._is_outermost(params):
            self.is_loading = True

    def _loaded(self, params: dict[str, Any]) -> None:
        if self._is_outermost(params):
            self.is_loading = False

    def _crashed(self, _: dict[str, Any]) -> None:
        self.is_crashed, self.is_loading = True, False

    def _dialog(self, params: dict[str, Any]) -> None:
        """Dismisses a dialog, which would block the page; the model reads its text."""
        self._message(f"dialog ({params.get('type')}), dismissed", params.get("message"))
        leaves = params.get("type") == "beforeunload"
        self._cdp.tell("Page.handleJavaScriptDialog", {"accept": leaves}, self.session)

    def _printed(self, params: dict[str, Any]) -> None:
        values = [
            str(each.get("value", each.get("description", each.get("type", ""))))
            for each in params.get("args", ())[:20]
        ]
        self._message(str(params.get("type", "log")), " ".join(values))

    def _thrown(self, params: dict[str, Any]) -> None:
        details = params.get("exceptionDetails") or {}
        exception = details.get("exception") or {}
        self._message("exception", exception.get("description") or details.get("text"))

    def _logged(self, params: dict[str, Any]) -> None:
        entry = params.get("entry") or {}
        self._message(str(entry.get("level", "")), f"{entry.get('text')} {entry.get('url', '')}")

    def _message(self, kind: str, text: object) -> None:
        words = " ".join(str(text)[: MAX_MESSAGE * 2].split())
        self.messages.append(f"{kind}: {words[:MAX_MESSAGE]}")
