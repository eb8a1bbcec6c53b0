"""Sends input of a model to elements of a page: mouse, keys, texts and options."""

from typing import Any, Final

from skerry.features.browser.keys import key_of
from skerry.features.browser.snapshot import Element
from skerry.features.browser.tab import Tab
from skerry.model.errors import ToolError

TYPED_KEYS: Final = 500
"""Characters up to which a text is typed key by key; a longer one is inserted at once."""
_AREA: Final = """function() {
  const box = this.getBoundingClientRect();
  const top = this.getRootNode().elementFromPoint(
    box.x + box.width / 2, box.y + box.height / 2);
  if (!top || top === this || this.contains(top) || top.contains(this)) return "";
  const label = top.closest && top.closest("label");
  if (label && label.control === this) return "";
  if (this.getRootNode().host && this.getRootNode().host.contains(top)) return "";
  return top.tagName.toLowerCase();
}"""
"""Returns the tag of another element that covers the middle of an element; empty without one."""
_SELECT_ALL: Final = """function() {
  if (this.disabled || this.readOnly) return "closed";
  if (["color", "date", "datetime-local", "month", "range", "time", "week"].includes(this.type))
    return "value";
  if (typeof this.select === "function") { this.select(); return ""; }
  if (!this.isContentEditable) return "closed";
  const range = this.ownerDocument.createRange();
  range.selectNodeContents(this);
  const selection = this.ownerDocument.getSelection();
  selection.removeAllRanges();
  selection.addRange(range);
  return "";
}"""
_SET_VALUE: Final = """function(value) {
  this.value = value;
  this.dispatchEvent(new Event("input", {bubbles: true}));
  this.dispatchEvent(new Event("change", {bubbles: true}));
}"""
_CHOOSE: Final = """function(values) {
  if (this.tagName !== "SELECT") return "It is not a list of options.";
  const fits = (option) => values.includes(option.value) || values.includes(option.label.trim());
  const chosen = [...this.options].filter((option) => !option.disabled && fits(option));
  if (!chosen.length) return "Options: " + [...this.options].slice(0, 50)
    .map((option) => option.label.trim()).join(", ");
  if (!this.multiple && chosen.length > 1) return "Only one option can be selected.";
  for (const option of this.options) option.selected = chosen.includes(option);
  this.dispatchEvent(new Event("input", {bubbles: true}));
  this.dispatchEvent(new Event("change", {bubbles: true}));
  return "";
}"""


async def hover(tab: Tab, element: Element) -> tuple[float, float]:
    """Moves the mouse to the middle of an element, which is scrolled into view; returns the point.

    Raises:
        ToolError: the element has no area, or another one covers it.
        CdpError: the page is gone.
    """
    node = {"backendNodeId": element.node}
    await tab.call("DOM.scrollIntoViewIfNeeded", node)
    quads = (await tab.call("DOM.getContentQuads", node)).get("quads") or []
    areas = [quad for quad in quads if _area(quad) > 1]
    if not areas:
        raise ToolError(f"{element.ref} is not visible. Take a new snapshot.")
    covering = await call_on(tab, element, _AREA)
    if covering:
        raise ToolError(
            f"{element.ref} is covered by another element ({str(covering)[:40]}). Close that first."
        )
    quad = areas[0]
    x, y = sum(quad[0::2]) / 4, sum(quad[1::2]) / 4
    await tab.call("Input.dispatchMouseEvent", {"type": "mouseMoved", "x": x, "y": y})
    return x, y


async def click(tab: Tab, element: Element, *, double: bool = False) -> None:
    """Clicks the middle of an element.

    Raises:
        ToolError: the element has no area, or another one covers it.
        CdpError: the page is gone.
    """
    x, y = await hover(tab, element)
    for count in range(1, 3 if double else 2):
        for kind in ("mousePressed", "mouseReleased"):
            event = {"type": kind, "x": x, "y": y, "button": "left", "clickCount": count}
            await tab.call("Input.dispatchMouseEvent", event)


async def press(tab: Tab, name: str) -> None:
    """Presses and releases a key.

    Raises:
        ToolError: there is no such key.
        CdpError: the page is gone.
    """
    for event in key_of(name).events():
        await tab.call("Input.dispatchKeyEvent", event)


async def write(tab: Tab, element: Element, text: str) -> None:
    """Types a text into an element, after its present content.

    Raises:
        CdpError: the element cannot have the focus, or the page is gone.
    """
    await tab.call("DOM.focus", {"backendNodeId": element.node})
    if len(text) > TYPED_KEYS or not text.isprintable():
        await tab.call("Input.insertText", {"text": text})
        return
    for character in text:
        await press(tab, character)


async def fill(tab: Tab, element: Element, text: str) -> None:
    """Replaces the content of an element.

    Raises:
        ToolError: the element takes no text.
        CdpError: the page is gone.
    """
    await tab.call("DOM.focus", {"backendNodeId": element.node})
    way = await call_on(tab, element, _SELECT_ALL)
    if way == "closed":
        raise ToolError(f"{element.ref} ({element.role}) takes no text. Choose another element.")
    if way == "value":
        await call_on(tab, element, _SET_VALUE, text)
    elif text:
        await tab.call("Input.insertText", {"text": text})
    else:
        await press(tab, "Delete")


async def choose(tab: Tab, element: Element, values: tuple[str, ...]) -> None:
    """Selects options of a list by their values or texts.

    Raises:
        ToolError: the list has no such option.
        CdpError: the page is gone.
    """
    if problem := await call_on(tab, element, _CHOOSE, list(values)):
        raise ToolError(f"{element.ref}: nothing was selected. {str(problem)[:2000]}")


async def call_on(tab: Tab, element: Element, function: str, *arguments: Any) -> Any:
    """Returns the result of a function of ours, whose `this` is an element.

    Raises:
        CdpError: the element is gone.
    """
    resolved = await tab.call("DOM.resolveNode", {"backendNodeId": element.node})
    answer = await tab.call(
        "Runtime.callFunctionOn",
        {
            "objectId": resolved["object"]["objectId"],
            "functionDeclaration": function,
            "arguments": [{"value": argument} for argument in arguments],
            "returnByValue": True,
        },
    )
    return (answer.get("result") or {}).get("value")


def _area(quad: list[float]) -> float:
    """Returns the area of a quadrilateral, in square pixels."""
    points = list(zip(quad[0::2], quad[1::2], strict=True))
    following = points[1:] + points[:1]
    pairs = zip(points, following, strict=True)
    return abs(sum(x * next_y - next_x * y for (x, y), (next_x, next_y) in pairs)) / 2
