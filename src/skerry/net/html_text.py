"""Converts the whole body of an HTML document to Markdown or text."""

import re
from typing import Final
from urllib.parse import urljoin

from lxml.html import HtmlElement

_BLOCKS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "dd", "div", "dl", "dt", "fieldset", "figcaption"}
    | {"figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main"}
    | {"nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "tr", "ul", "br", "details"}
)
_TIGHT: Final = frozenset({"br", "li", "tr", "dt", "dd"})
"""Blocks that begin a new line without an empty line before it."""
_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_INLINE: Final = {"b": "**", "strong": "**", "em": "*", "i": "*", "code": "`", "kbd": "`"}
_SPACES: Final = re.compile(r"[ \t\r\n\f\v\u00a0]+")
_EMPTY_LINES: Final = re.compile(r"\n{3,}")
_LINKED: Final = ("http://", "https://", "mailto:")


class _Writer:
    """Collects text; white space is collapsed as browsers do."""

    def __init__(self, base: str, *, marked: bool) -> None:
        self.base = base
        self.marked = marked
        self.parts: list[str] = []
        self.depth = 0
        self.pre = 0

    def text(self, text: str | None) -> None:
        """Adds running text."""
        if not text:
            return
        if self.pre:
            self.parts.append(text)
            return
        flat = _SPACES.sub(" ", text)
        if not self.parts or self.parts[-1].endswith(("\n", " ")):
            flat = flat.lstrip(" ")
        if flat:
            self.parts.append(flat)

    def line(self, *, empty: bool) -> None:
        """Ends the line; with `empty` adds an empty line."""
        if not self.parts:
            return
        last = self.parts[-1] = self.parts[-1].rstrip(" ")
        if empty or not last.endswith("\n"):
            self.parts.append("\n\n" if empty and not last.endswith("\n") else "\n")

    def mark(self, text: str) -> None:
        """Adds Markdown syntax; does nothing for plain text."""
        if self.marked and text:
            self.parts.append(text)

    def open(self, element: HtmlElement) -> None:
        """Adds the line break, syntax and text before the children of an element."""
        tag = element.tag
        if tag in _BLOCKS:
            self.line(empty=tag not in _TIGHT)
        if tag in _HEADINGS:
            self.mark(_HEADINGS[tag])
        elif tag in {"ul", "ol"}:
            self.depth += 1
        elif tag == "li":
            self.parts.append("  " * max(0, self.depth - 1) + "- ")
        elif tag == "pre":
            self.mark("```\n")
            self.pre += 1
        elif tag in {"td", "th"}:
            self.parts.append("| " if self.marked else " ")
        else:
            self._open_inline(element)
        self.text(element.text)

    def _open_inline(self, element: HtmlElement) -> None:
        if element.tag in _INLINE and not self.pre:
            self.mark(_INLINE[element.tag])
        elif element.tag == "a" and self._address(element):
            self.mark("[")

    def close(self, element: HtmlElement) -> None:
        """Adds the syntax and line break after the children of an element."""
        tag = element.tag
        if tag in {"ul", "ol"}:
            self.depth -= 1
        elif tag == "pre":
            self.pre -= 1
            self.mark("\n```")
        elif tag in {"td", "th"}:
            self.parts.append(" ")
        elif tag in _INLINE and not self.pre:
            self.mark(_INLINE[tag])
        elif tag == "a" and (address := self._address(element)):
            self.mark(f"]({address})")
        if tag in _BLOCKS:
            self.line(empty=tag not in _TIGHT)

    def _address(self, element: HtmlElement) -> str:
        href = (element.get("href") or "").strip()
        if not href or href.startswith("#"):
            return ""
        try:
            address = urljoin(self.base, href)
        except ValueError:
            return ""
        return address if address.startswith(_LINKED) and " " not in address else ""


def whole_text(root: HtmlElement, base: str, *, marked: bool) -> str:
    """Returns the text of the tree, in Markdown if `marked`; the walk is not recursive.

    Relative links are resolved against `base`; other links than http, https and mailto are dropped.
    """
    writer = _Writer(base, marked=marked)
    pending: list[tuple[HtmlElement, bool]] = [(root, False)]
    while pending:
        element, is_done = pending.pop()
        if is_done:
            writer.close(element)
            if element is not root:
                writer.text(element.tail)
        else:
            writer.open(element)
            pending.append((element, True))
            pending.extend((child, False) for child in reversed(element))
    return _EMPTY_LINES.sub("\n\n", "".join(writer.parts)).strip()
