"""Markdown as Slack's mrkdwn, and mrkdwn as plain text."""

import re
from html import unescape
from typing import Final

from skerry.channels.markdown import WEB, Dialect, escaped_html, quoted, scheme, without_backticks

_SPECIAL: Final = re.compile(r"<([^<>]{1,3000})>")
_MARKS: Final = re.compile(r"[*_~`]")
_GUARD: Final = "\u200b"
"""Character before a mark that is text: mrkdwn has no escape for it."""


def _escaped(text: str) -> str:
    return _MARKS.sub(lambda mark: _GUARD + mark[0], escaped_html(text))


def _code(text: str) -> str:
    return without_backticks(escaped_html(text))


def _link(label: str, address: str) -> str:
    clean = not re.search(r"[<>|\s]", address)
    if scheme(address) not in WEB or not clean:
        return f"{label} ({_escaped(address)})" if address else label
    return f"<{address.replace('&', '&amp;')}|{label.replace('|', '¦') or address}>"


MRKDWN: Final = Dialect(
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


def plain(text: str) -> str:
    """Returns the text that a person wrote: mentions as `@U123`, links by label and address."""
    return unescape(_SPECIAL.sub(_plain_text, text))


def mentioned(text: str) -> tuple[str, ...]:
    """Returns the ids of the people whom a text mentions."""
    return tuple(re.findall(r"<@([A-Z0-9]{1,32})(?:\|[^<>]{0,80})?>", text))


def _plain_text(match: re.Match[str]) -> str:
    target, _, label = match[1].partition("|")
    if target.startswith("@"):
        return target
    if target.startswith("#"):
        return f"#{label or target[1:]}"
    if target.startswith("!"):
        return f"@{label or target[1:].partition('^')[0]}"
    return f"{label} ({target})" if label and label != target else target
