"""Markdown as plain text that reads well: iMessage has no markup that a script could send."""

from typing import Final

from skerry.channels.markdown import Dialect, quoted


def _same(text: str) -> str:
    return text


def _link(label: str, address: str) -> str:
    return label if not address or label == address else f"{label} ({address})"


PLAIN_TEXT: Final = Dialect(
    escape=_same,
    strong=("", ""),
    emphasis=("", ""),
    strike=("~", "~"),
    code=("", ""),
    fence=lambda code, _: code,
    link=_link,
    quote=quoted,
)
