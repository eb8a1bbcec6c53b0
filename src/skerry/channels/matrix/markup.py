"""Markdown as the HTML of Matrix messages."""

from functools import cache
from typing import Final

from markdown_it import MarkdownIt

_MAX_CHARS: Final = 64_000
_MAX_NESTING: Final = 20


def rendered(text: str) -> str:
    """Returns the text as HTML without any of its own; empty where it has no markup.

    Addresses of other kinds than links of the web and of mail are left as text by the parser.
    """
    if len(text) > _MAX_CHARS:
        return ""
    html = _parser().render(text).strip()
    plain = html.removeprefix("<p>").removesuffix("</p>")
    return "" if "<" not in plain and "&" not in plain else html


@cache
def _parser() -> MarkdownIt:
    options = {"html": False, "linkify": False, "breaks": True, "maxNesting": _MAX_NESTING}
    parser = MarkdownIt("commonmark", options).enable(["strikethrough", "table"])
    return parser.disable("image")
