"""Markdown as the HTML that Teams shows, and texts of people as plain text."""

import re
from collections.abc import Sequence
from html import escape
from typing import Final
from urllib.parse import urlsplit

from skerry.channels.markdown import Dialect

_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_BLOCK: Final = re.compile(r"(<pre>[^<]*</pre>)")
"""A block of code, in which the ends of lines are kept."""


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _link(label: str, address: str) -> str:
    try:
        scheme = urlsplit(address).scheme
    except ValueError:
        scheme = ""
    if scheme not in _SCHEMES:
        return f"{label} ({_escaped(address)})" if address else label
    return f'<a href="{escape(address, quote=True)}">{label or _escaped(address)}</a>'


_HTML: Final = Dialect(
    escape=_escaped,
    strong=("<b>", "</b>"),
    emphasis=("<i>", "</i>"),
    strike=("<s>", "</s>"),
    code=("<code>", "</code>"),
    fence=lambda code, _: f"<pre>{_escaped(code)}</pre>",
    link=_link,
    quote=lambda text: f"<blockquote>{text}</blockquote>",
)


def rendered(text: str) -> str:
    """Returns Markdown as HTML; what looks like a mention in it calls nobody."""
    pieces = _BLOCK.split(_HTML.render(text))
    return "".join(
        piece if place % 2 else piece.replace("\n", "<br>") for place, piece in enumerate(pieces)
    )


def plain(text: str, own: Sequence[str], others: Sequence[tuple[str, str]]) -> str:
    """Returns the text of a person without mentions of us, and with the names of others."""
    for mention in own:
        text = text.replace(mention, "", 1)
    for mention, name in others:
        text = text.replace(mention, f"@{name}", 1)
    return text.replace("\xa0", " ").replace("&nbsp;", " ").strip()
