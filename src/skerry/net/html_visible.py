"""Removes from the HTML of a page or a mail the content that its readers do not see."""

import re
from collections.abc import Iterator
from typing import Final

from lxml.html import HtmlElement

_NEVER: Final = frozenset(
    {"script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "canvas"}
    | {"audio", "video", "title", "base", "link", "meta", "select", "datalist", "button"}
)
"""Elements that are removed with their content: their text is not visible text of the page."""
_HIDING_CLASSES: Final = frozenset(
    {"sr-only", "visually-hidden", "visuallyhidden", "screen-reader-text", "screen-reader-only"}
    | {
        "hidden",
        "hide",
        "invisible",
        "d-none",
        "is-hidden",
        "offscreen",
        "off-screen",
        "a11y-hidden",
    }
)
_HIDES: Final = re.compile(
    r"(?:^|;)(?:"
    r"display:none|visibility:(?:hidden|collapse)|opacity:(?:0?\.0\d*|0+)%?(?![.\d])"
    r"|font-size:0(?:\.0*)?(?:px|pt|em|rem|%)?(?:;|!|$)|(?:max-)?(?:height|width):0(?:px)?(?:;|!|$)"
    r"|text-indent:-\d{3,}|(?:left|top|right|bottom|margin-left|margin-top):-\d{3,}"
    r"|clip:rect\((?:0|1px)|clip-path:(?:inset\((?:50|100)%|circle\(0)|transform:scale\(0"
    r"|(?:-webkit-text-fill-)?color:transparent|content-visibility:hidden"
    r")",
    re.IGNORECASE,
)
_SPACE: Final = re.compile(r"\s+")
_COLOUR: Final = re.compile(r"(?:^|;)color:([^;!]{1,40})")
_GROUND: Final = re.compile(r"(?:^|;)background(?:-color)?:([^;!]{1,40})")
_SIMPLE: Final = re.compile(r"(?P<tag>[a-z][a-z0-9]*)?(?P<rest>(?:[.#][A-Za-z_][\w-]*)*)", re.ASCII)
_PART: Final = re.compile(r"([.#])([\w-]+)")
_STYLE_BYTES: Final = 500_000
_MAX_RULES: Final = 5000


def remove_invisible(root: HtmlElement) -> None:
    """Removes comments, code and hidden elements with their content; changes the tree in place."""
    hidden_by = list(_hiding_rules(root))
    for element in list(root.iter()):
        if not isinstance(element.tag, str):
            _drop(element)  # a comment or a processing instruction
        elif element is not root and (
            element.tag in _NEVER or _is_hidden(element) or _is_selected(element, hidden_by)
        ):
            _drop(element)


def _drop(element: HtmlElement) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _is_hidden(element: HtmlElement) -> bool:
    get = element.get
    if get("hidden") is not None or (get("aria-hidden") or "").strip().lower() == "true":
        return True
    if element.tag == "input" or (element.tag == "dialog" and get("open") is None):
        return True
    style = _SPACE.sub("", _without_comments(get("style") or ""))
    return bool(style and hides(style)) or not _HIDING_CLASSES.isdisjoint(
        (get("class") or "").lower().split()
    )


def hides(style: str) -> bool:
    """Returns whether CSS declarations hide their element; `style` has no white space."""
    if _HIDES.search(style):
        return True
    low = style.lower()
    colour, ground = _COLOUR.search(low), _GROUND.search(low)
    return bool(colour and ground and colour[1] == ground[1])


_Selector = tuple[str, frozenset[str], str]
"""Tag, classes and id; each is empty if the selector names none."""


def _hiding_rules(root: HtmlElement) -> Iterator[_Selector]:
    """Yields the simple selectors of hiding rules in the style sheets of the page.

    Reads at most 500,000 characters and 5,000 rules.
    """
    sheets = "\n".join(sheet.text or "" for sheet in root.iter("style"))[:_STYLE_BYTES]
    plain = _without_at_rules(_without_comments(sheets))
    for rule in plain.split("}", _MAX_RULES)[:_MAX_RULES]:
        selectors, opened, declarations = rule.rpartition("{")
        if not opened or not hides(_SPACE.sub("", declarations)):
            continue
        for selector in selectors.rpartition("{")[2].split(","):
            match = _SIMPLE.fullmatch(selector.strip())
            if match and match[0] and match["tag"] not in {"html", "body"}:
                parts = _PART.findall(match["rest"])
                classes = frozenset(name for kind, name in parts if kind == ".")
                ids = [name for kind, name in parts if kind == "#"]
                yield match["tag"] or "", classes, ids[0] if ids else ""


def _without_comments(sheet: str) -> str:
    """Returns the sheet without comments; a comment without an end hides the remaining text.

    It uses `find`: a regular expression takes quadratic time if many comments have no end.
    """
    visible: list[str] = []
    position = 0
    while (at := sheet.find("/*", position)) >= 0:
        visible.append(sheet[position:at])
        end = sheet.find("*/", at + 2)
        position = len(sheet) if end < 0 else end + 2
    visible.append(sheet[position:])
    return "".join(visible)


def _without_at_rules(sheet: str) -> str:
    """Returns the sheet without at-rules such as `@media print`, which may not apply."""
    visible: list[str] = []
    position = 0
    while (at := sheet.find("@", position)) >= 0:
        visible.append(sheet[position:at])
        opened, semicolon = sheet.find("{", at), sheet.find(";", at)
        if opened < 0 or 0 <= semicolon < opened:
            position = semicolon + 1 if semicolon >= 0 else len(sheet)
            continue
        depth, position = 1, opened + 1
        while depth and position < len(sheet):
            depth += {"{": 1, "}": -1}.get(sheet[position], 0)
            position += 1
    visible.append(sheet[position:])
    return "".join(visible)


def _is_selected(element: HtmlElement, selectors: list[_Selector]) -> bool:
    if not selectors:
        return False
    classes = frozenset((element.get("class") or "").split())
    name = element.get("id") or ""
    return any(
        (not tag or tag == element.tag) and expected <= classes and (not anchor or anchor == name)
        for tag, expected, anchor in selectors
    )
