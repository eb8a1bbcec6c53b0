"""Markdown as the text styles of Signal, and as the markup of the REST bridge."""

import re
from typing import Final

from msgspec import Struct

from skerry.channels.markdown import Dialect, quoted

_STYLES: Final = ("BOLD", "ITALIC", "STRIKETHROUGH", "MONOSPACE")
_OPEN: Final = {chr(0xE000 + 2 * number): style for number, style in enumerate(_STYLES)}
_CLOSE: Final = {chr(0xE001 + 2 * number): style for number, style in enumerate(_STYLES)}
_PRIVATE: Final = re.compile("[\ue000-\ue007]")
"""Placeholders of marks until the ranges are counted; they are removed from texts before."""
_SPECIAL: Final = re.compile(r"[*~`|]")
_BOLD, _ITALIC, _STRIKE, _MONO = zip(_OPEN, _CLOSE, strict=True)


class Styled(Struct, frozen=True):
    """A plain text, and the ranges of it that have a style, as `start:length:STYLE` in UTF-16."""

    text: str
    styles: tuple[str, ...] = ()


def _plain(text: str) -> str:
    return _PRIVATE.sub("", text)


def _link(label: str, address: str) -> str:
    if not address or _plain(label) == _plain(address):
        return _plain(address) or label
    return f"{label} ({_plain(address)})"


_MARKED: Final = Dialect(
    escape=_plain,
    strong=_BOLD,
    emphasis=_ITALIC,
    strike=_STRIKE,
    code=_MONO,
    fence=lambda code, _: f"{_MONO[0]}{_plain(code)}{_MONO[1]}",
    link=_link,
    quote=quoted,
)


def styled(text: str) -> Styled:
    """Returns the text without marks, and its styles."""
    plain: list[str] = []
    styles: list[str] = []
    open_: list[tuple[str, int]] = []
    at = 0
    for char in _MARKED.render(text):
        if char in _OPEN:
            open_.append((_OPEN[char], at))
        elif char in _CLOSE:
            name, start = open_.pop() if open_ else ("", at)
            if name and at > start:
                styles.append(f"{start}:{at - start}:{name}")
        else:
            plain.append(char)
            at += 2 if ord(char) > 0xFFFF else 1  # noqa: PLR2004 - beyond it UTF-16 takes two
    return Styled("".join(plain), tuple(styles))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)


BRIDGE_MARKUP: Final = Dialect(
    escape=_escaped,
    strong=("**", "**"),
    emphasis=("*", "*"),
    strike=("~", "~"),
    code=("`", "`"),
    fence=lambda code, _: f"`{_escaped(code)}`",
    link=lambda label, address: (
        f"{label} ({_escaped(address)})"
        if address and label != _escaped(address)
        else label or _escaped(address)
    ),
    quote=quoted,
)
"""Markup that the REST bridge reads with `text_mode: styled`."""
