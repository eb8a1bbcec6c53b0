"""Converts Markdown to the markup of WhatsApp."""

import re
from typing import Final

from skerry.channels.markdown import Dialect, quoted, without_backticks

_OPENING: Final = re.compile(r"(?<![^\W_])[*_~](?=\S)|`")
_GUARD: Final = "\u200b"
"""Character before a mark that is text: the markup has no escape for it."""


def _escaped(text: str) -> str:
    return _OPENING.sub(lambda mark: _GUARD + mark[0], text)


def _link(label: str, address: str) -> str:
    # WhatsApp shows addresses alone as links; marks within one would be part of it.
    if not address or label == _escaped(address):
        return address or label
    return f"{label} ({address})"


MARKUP: Final = Dialect(
    escape=_escaped,
    strong=("*", "*"),
    emphasis=("_", "_"),
    strike=("~", "~"),
    code=("`", "`"),
    fence=lambda code, _: f"```\n{without_backticks(code)}\n```",
    link=_link,
    quote=quoted,
    escape_code=without_backticks,
)
