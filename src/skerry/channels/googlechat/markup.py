"""Markdown as the markup of Google Chat."""

import re
from typing import Final

from skerry.channels.markdown import WEB, Dialect, quoted, scheme, without_backticks

_MARKS: Final = re.compile(r"[*_~`]")
_GUARD: Final = "\u200b"
"""Precedes or follows a sign that is text: the markup has no escape."""


def _escaped(text: str) -> str:
    guarded = text.replace("<", f"<{_GUARD}")  # else `<users/all>` would notify all members
    return _MARKS.sub(lambda mark: _GUARD + mark[0], guarded)


def _code(text: str) -> str:
    return without_backticks(text).replace("<", f"<{_GUARD}")


def _link(label: str, address: str) -> str:
    if scheme(address) not in WEB or re.search(r"[<>|\s]", address):
        return f"{label} ({_escaped(address)})" if address else label
    return f"<{address}|{re.sub(r'[<>|]', ' ', label) or address}>"


CHAT: Final = Dialect(
    escape=_escaped,
    strong=("*", "*"),
    emphasis=("_", "_"),
    strike=("~", "~"),
    code=("`", "`"),
    fence=lambda code, _: f"```\n{_code(code)}\n```",
    link=_link,
    quote=quoted,
    escape_code=_code,
)
