"""Markdown in Discord's dialect, and texts of people as plain text."""

import re
from collections.abc import Mapping
from typing import Final

from skerry.channels.markdown import Dialect, quoted, scheme, without_backticks

_SCHEMES: Final = frozenset({"http", "https"})
_ADDRESS: Final = re.compile(r"https?://[^\s<>]{1,2000}")
_MARKS: Final = re.compile(r"[\\*_~`|]|^\s{0,3}(?:[>#-]|\d{1,9}\.(?=\s))", re.MULTILINE)
_SPECIAL: Final = re.compile(r"<(@[!&]?|#|a?:\w{1,32}:|/[^<>:]{1,100}:)(\d{1,20})>")
_MENTION: Final = re.compile(r"\s*<@!?(\d{1,20})>\s*")


def _escaped(text: str) -> str:
    """Returns the text with a backslash before each mark, except in addresses."""
    parts, end = list[str](), 0
    for address in _ADDRESS.finditer(text):
        parts += [_MARKS.sub(_guarded, text[end : address.start()]), address[0]]
        end = address.end()
    return "".join([*parts, _MARKS.sub(_guarded, text[end:])])


def _guarded(mark: re.Match[str]) -> str:
    return f"{mark[0][:-1]}\\{mark[0][-1]}"


def _fence(code: str, language: str) -> str:
    name = language if language.replace("-", "").replace("+", "").isalnum() else ""
    return f"```{name}\n{code.replace('```', chr(8203).join('```'))}\n```"


def _link(label: str, address: str) -> str:
    if scheme(address) not in _SCHEMES or re.search(r"[<>()\s]", address):
        return f"{label} ({_escaped(address)})" if address else label
    return address if label in {"", address} else f"[{label}]({address})"


DISCORD: Final = Dialect(
    escape=_escaped,
    strong=("**", "**"),
    emphasis=("*", "*"),
    strike=("~~", "~~"),
    code=("`", "`"),
    fence=_fence,
    link=_link,
    quote=quoted,
    escape_code=without_backticks,
)


def plain(text: str, names: Mapping[str, str], me: str) -> str:
    """Returns the text of a person, with names in place of the ids of mentioned people.

    The bot's own mention before a command is removed, so that the command begins the text.
    """
    first = _MENTION.match(text)
    if first is not None and first[1] == me and text.startswith("/", first.end()):
        text = text[first.end() :]

    def plain_text(match: re.Match[str]) -> str:
        kind, number = match.groups()
        if kind in {"@", "@!"}:
            return f"@{names.get(number, number)}"
        if kind in {"@&", "#"}:
            return f"{kind}{number}"
        return kind.rstrip(":") if kind.startswith("/") else kind.removeprefix("a")

    return _SPECIAL.sub(plain_text, text)


def gist(text: str) -> str:
    """Returns the letters and digits of a text, which no platform changes when it stores it."""
    return re.sub(r"[\W_]+", "", text)
