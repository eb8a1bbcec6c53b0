"""Actions of the tool `browser` on a running browser; each returns a result for the model."""

import base64
from typing import TYPE_CHECKING, Any, Final

import anyio
from msgspec import Struct

from skerry.features.browser import input as inputs
from skerry.features.browser.browser import Browser
from skerry.features.browser.cdp import CdpError
from skerry.features.browser.chromium import WINDOW
from skerry.features.browser.parameters import BrowserParams
from skerry.features.browser.snapshot import Element, Tree, outline
from skerry.features.browser.tab import Tab
from skerry.model.errors import ToolError
from skerry.model.message import ImageBlock
from skerry.model.origin import Origin
from skerry.model.tool import ToolResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

MAX_PICTURE: Final = 2 * 1024 * 1024
"""Limit of a screenshot, in bytes."""
MAX_SIDE: Final = 2000
"""Maximum height of a screenshot of a whole page, in pixels."""
MAX_FRAMES: Final = 20
"""Number of inner frames that a snapshot reads."""
LOAD_SHARE: Final = 0.6
"""Part of the time limit of a call for which it waits for a page to load."""
_QUALITIES: Final = (80, 50, 25)
_POLL_SECONDS: Final = 0.2
_TEXT: Final = "(document.body ? document.body.innerText : '').includes({})"


class CallLimits(Struct, frozen=True):
    """Limits of a call, from the configuration."""

    seconds: float
    snapshot_chars: int


class Actions:
    """Makes one call on a browser."""

    def __init__(self, browser: Browser, limits: CallLimits) -> None:
        self._browser = browser
        self._limits = limits

    async def make(self, params: BrowserParams) -> ToolResult:
        """Returns the result of a call.

        Raises:
            ToolError: the call cannot be made; the message has the remedy.
            CdpError: the page or the browser is gone.
        """
        calls: Mapping[str, Callable[[BrowserParams], Awaitable[ToolResult]]] = {
            "open": self._open,
            "navigate": self._navigate,
            "back": self._back,
            "focus": self._focus,
            "close": self._close,
            "snapshot": self._snapshot,
            "screenshot": self._screenshot,
            "console": self._console,
            "act": self._act,
        }
        call = calls.get(params.action)
        return await call(params) if call is not None else await self._tabs()

    async def _tabs(self) -> ToolResult:
        tabs = self._browser.tabs
        for tab in tabs:
            await tab.describe()
        lines = [f"{self._browser.version}; tabs: {len(tabs)}"]
        lines += [f"{_head(tab)}{' (current)' * (tab is self._browser.current)}" for tab in tabs]
        return _result("\n".join(lines))

    async def _open(self, params: BrowserParams) -> ToolResult:
        self._check(params.url or "")
        tab = await self._browser.open_tab()
        if tab is None:
            raise ToolError("The limit of tabs is reached (browser.maxTabs). Close a tab first.")
        try:
            return await self._load(tab, params.url or "")
        except ToolError:
            await self._browser.close_tab(tab)
            raise

    async def _navigate(self, params: BrowserParams) -> ToolResult:
        self._check(params.url or "")
        return await self._load(self.tab(params), params.url or "")

    def _check(self, url: str) -> None:
        """Raises `ToolError` for an address that the policy refuses."""
        if (refusal := self._browser.traffic.refusal(url)) is not None:
            raise ToolError(f"{refusal.reason} [{refusal.rule}]")

    async def _load(self, tab: Tab, url: str) -> ToolResult:
        self._browser.current = tab
        self._browser.traffic.refused.clear()
        answer = await tab.call("Page.navigate", {"url": url})
        if failure := answer.get("errorText"):
            refused = self._refused()
            raise ToolError(refused or f"{url[:200]} cannot be opened: {failure}.")
        return await self._shown(tab)

    async def _back(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        self._browser.traffic.refused.clear()
        history = await tab.call("Page.getNavigationHistory")
        index = history["currentIndex"] - 1
        if index < 0:
            raise ToolError(f"{tab.id} has no earlier page.")
        await tab.call("Page.navigateToHistoryEntry", {"entryId": history["entries"][index]["id"]})
        return await self._shown(tab)

    async def _shown(self, tab: Tab) -> ToolResult:
        """Returns the snapshot of a page that begins to load."""
        if await tab.settled(self._limits.seconds * LOAD_SHARE):
            return await self._snapshot_of(tab, None)
        result = await self._snapshot_of(tab, None)
        return _result(f"The page is still loading.\n{result.text}")

    async def _focus(self, params: BrowserParams) -> ToolResult:
        self._browser.current = tab = self.tab(params)
        await tab.call("Page.bringToFront")
        await tab.describe()
        return _result(_head(tab))

    async def _close(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        await self._browser.close_tab(tab)
        return ToolResult(f"Closed {tab.id}.", origin=Origin.LOCAL)

    async def _console(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        lines = list(tab.messages) or ["no messages"]
        lines += [f"refused: {each.host}: {each.refusal.reason}" for each in self._refusals()]
        return _result("\n".join([_head(tab), *lines]))

    async def _snapshot(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        return await self._snapshot_of(tab, element_of(tab, params) if params.ref else None)

    async def _snapshot_of(self, tab: Tab, element: Element | None) -> ToolResult:
        tree, frames = await _trees(tab)
        await tab.describe()
        shown = tree if element is None else tree.below(element.node)
        text = outline(shown, tab.refs, self._limits.snapshot_chars, frames)
        lines = [_head(tab), text.text or "The page has no content."]
        if text.is_cut:
            lines.append("The snapshot was cut. Pass a ref to see one element in full.")
        if refused := self._refused():
            lines.append(f"Parts of the page were not loaded: {refused}")
        return _result("\n".join(lines))

    async def _screenshot(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        options: dict[str, Any] = {"format": "jpeg"}
        if params.full_page:
            size = (await tab.call("Page.getLayoutMetrics")).get("cssContentSize") or {}
            height = min(float(size.get("height", WINDOW[1])), MAX_SIDE)
            clip = {"x": 0, "y": 0, "width": WINDOW[0], "height": max(height, 1), "scale": 1}
            options |= {"captureBeyondViewport": True, "clip": clip}
        for quality in _QUALITIES:
            answer = await tab.call("Page.captureScreenshot", {**options, "quality": quality})
            data = str(answer.get("data", ""))
            if len(data) * 3 // 4 <= MAX_PICTURE:
                block = ImageBlock(data, "image/jpeg")
                size_kb = len(base64.b64decode(data)) // 1024
                text = f"{_head(tab)}\nScreenshot, JPEG, {size_kb} KB."
                return ToolResult(text, origin=Origin.WEB, blocks=(block,))
        raise ToolError(f"The screenshot has more than {MAX_PICTURE} bytes. Use snapshot.")

    async def _act(self, params: BrowserParams) -> ToolResult:
        tab = self.tab(params)
        before = {each.id for each in self._browser.tabs}
        if params.kind == "wait":
            await _wait(tab, params)
        else:
            await self._send(tab, params)
            await tab.settled(self._limits.seconds * LOAD_SHARE)
        lines = [f"Done: {params.kind}."]
        if tab.is_closed:
            lines.append(f"{tab.id} was closed.")
        else:
            await tab.describe()
            lines.append(_head(tab))
        new = [each for each in self._browser.tabs if each.id not in before]
        lines += [f"A new tab was opened: {_head(each)}" for each in new]
        return _result("\n".join(lines))

    async def _send(self, tab: Tab, params: BrowserParams) -> None:
        if params.kind == "press":
            if params.ref:
                node = element_of(tab, params).node
                await tab.call("DOM.focus", {"backendNodeId": node})
            await inputs.press(tab, params.key or "")
            return
        element = element_of(tab, params)
        match params.kind:
            case "click":
                await inputs.click(tab, element, double=params.double)
            case "hover":
                await inputs.hover(tab, element)
            case "select":
                await inputs.choose(tab, element, params.values)
            case "fill":
                await inputs.fill(tab, element, params.text or "")
            case _:
                await inputs.write(tab, element, params.text or "")
        if params.submit:
            await inputs.press(tab, "Enter")

    def tab(self, params: BrowserParams) -> Tab:
        """Returns the tab that a call names.

        Raises:
            ToolError: there is none, or it has crashed.
        """
        return tab_of(self._browser, params)

    def _refusals(self) -> list[Any]:
        return list(self._browser.traffic.refused)

    def _refused(self) -> str:
        """Returns the last refusals of the policy in words; empty without one."""
        reasons = [f"{each.refusal.reason} [{each.refusal.rule}]" for each in self._refusals()]
        return " ".join(dict.fromkeys(reasons[-3:]))


def tab_of(browser: Browser, params: BrowserParams) -> Tab:
    """Returns the tab that a call names.

    Raises:
        ToolError: there is none, or it has crashed.
    """
    tab = browser.tab(params.tab)
    if tab is None:
        names = ", ".join(each.id for each in browser.tabs) or "none"
        raise ToolError(f"There is no tab {params.tab or ''}. Tabs: {names}. Use open with a url.")
    if tab.is_crashed and params.action not in {"close", "navigate", "focus"}:
        raise ToolError(f"The page of {tab.id} has crashed. Use navigate, or close the tab.")
    return tab


def element_of(tab: Tab, params: BrowserParams) -> Element:
    """Returns the element that a call names.

    Raises:
        ToolError: the present page has no such element.
    """
    element = tab.refs.get((params.ref or "").removeprefix("@"))
    if element is None:
        raise ToolError(
            f"{tab.id} has no element {params.ref}: its page has changed. Take a new snapshot."
        )
    return element


async def _trees(tab: Tab) -> tuple[Tree, dict[int, Tree | str]]:
    """Returns the tree of the page, and those of inner frames by the nodes of their elements."""
    answer = await tab.call("Accessibility.getFullAXTree")
    frames: dict[int, Tree | str] = {}
    queue = list((await tab.call("Page.getFrameTree"))["frameTree"].get("childFrames") or ())
    while queue and len(frames) < MAX_FRAMES:
        child = queue.pop(0)
        frame = child["frame"]
        queue += child.get("childFrames") or ()
        try:
            owner = await tab.call("DOM.getFrameOwner", {"frameId": frame["id"]})
            nodes = await tab.call("Accessibility.getFullAXTree", {"frameId": frame["id"]})
        except CdpError:  # the frame is gone
            continue
        frames[owner["backendNodeId"]] = Tree.of(nodes["nodes"])
    return Tree.of(answer["nodes"]), frames


async def _wait(tab: Tab, params: BrowserParams) -> None:
    """Waits until the page contains a text, or has loaded.

    Raises:
        ToolError: the time is over.
    """
    if params.text is None:
        await tab.settled(params.seconds)
        return
    expression = _TEXT.format(_literal(params.text))
    with anyio.move_on_after(params.seconds):
        while not await _is_true(tab, expression):  # noqa: ASYNC110 - no event tells of a text
            await anyio.sleep(_POLL_SECONDS)
        return
    raise ToolError(f"The page did not show {params.text[:100]!r} within {params.seconds:g} s.")


async def _is_true(tab: Tab, expression: str) -> bool:
    try:
        answer = await tab.call("Runtime.evaluate", {"expression": expression})
    except CdpError:  # between two documents
        return False
    return (answer.get("result") or {}).get("value") is True


def _literal(text: str) -> str:
    """Returns a text as a string of JavaScript."""
    escaped = "".join(f"\\u{unit:04x}" for unit in _units(text))
    return f'"{escaped}"'


def _units(text: str) -> list[int]:
    data = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "little") for i in range(0, len(data), 2)]


def _head(tab: Tab) -> str:
    """Returns the line about a tab."""
    return f"{tab.id} {tab.url[:500] or 'about:blank'} {tab.title!r}"


def _result(text: str) -> ToolResult:
    """Returns a result with text of a page."""
    return ToolResult(text, origin=Origin.WEB)
