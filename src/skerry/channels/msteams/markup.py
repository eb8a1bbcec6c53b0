"""Markdown as the HTML that Teams shows, and texts of people as plain text."""

import re
from collections.abc import Sequence
from typing import Final

from skerry.channels.markdown import HTML

_BLOCK: Final = re.compile(r"(<pre>[^<]*</pre>)")
"""A block of code, in which the ends of lines are kept."""


def rendered(text: str) -> str:
    """Returns Markdown as HTML; what looks like a mention in it calls nobody."""
    pieces = _BLOCK.split(HTML.render(text))
    return "".join(
        piece if number % 2 else piece.replace("\n", "<br>") for number, piece in enumerate(pieces)
    )


def plain(text: str, own: Sequence[str], others: Sequence[tuple[str, str]]) -> str:
    """Returns the text of a person without mentions of us, and with the names of others."""
    for mention in own:
        text = text.replace(mention, "", 1)
    for mention, name in others:
        text = text.replace(mention, f"@{name}", 1)
    return text.replace("\xa0", " ").replace("&nbsp;", " ").strip()
