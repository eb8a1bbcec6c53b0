"""Markdown as the HTML that Teams shows, and texts of people as plain text."""

import re
from collections.abc import Sequence
from typing import Final

from skerry.channels.markdown import HTML

_BLOCK: Final = re.compile(r"(<pre>[^<]*</pre>)")
"""A block of code, in which the ends of lines are kept."""


def rendered(text: str) -> str:
    """Returns Markdown as HTML; text in the form of a mention notifies no one."""
    parts = _BLOCK.split(HTML.render(text))
    return "".join(
        part if number % 2 else part.replace("\n", "<br>") for number, part in enumerate(parts)
    )


def plain(text: str, own_mentions: Sequence[str], other_mentions: Sequence[tuple[str, str]]) -> str:
    """Returns the text of a person without mentions of the bot, and with the names of others."""
    for mention in own_mentions:
        text = text.replace(mention, "", 1)
    for mention, name in other_mentions:
        text = text.replace(mention, f"@{name}", 1)
    return text.replace("\xa0", " ").replace("&nbsp;", " ").strip()
