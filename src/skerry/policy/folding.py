"""Folds text to the form that a reader sees, and decodes text hidden in it (pure).

Every rule about untrusted text uses the folded text: compatibility forms and look-alike letters are
replaced by the letters that they look like, and invisible characters are removed. Text in tag
characters, in base64, in hexadecimal digits, in spaced letters or in digits for letters is decoded
and appended. Each step is linear in the text. Source: Unicode TR 36 and TR 39 for look-alikes.
"""

import binascii
import re
import unicodedata
from base64 import b64decode
from typing import Final

from msgspec import Struct

LOOKALIKES: Final = str.maketrans(
    "аеорсухіјѕһԁԛԝӏкмтвнгАВЕКМНОРСТУХІЈЅԀԚԜαοερικνυτχγηΑΒΕΖΗΙΚΜΝΟΡΤΥΧϲϳɑɡɩıℓօսոհց",
    "aeopcyxijshdqwlkmtbhrABEKMHOPCTYXIJSDQWaoepiknutxynABEZHIKMNOPTYXcjagiilounhg",
)
"""Cyrillic, Greek and other letters that look like a Latin letter."""
_LOOKALIKE: Final = re.compile("[" + "".join(map(chr, LOOKALIKES)) + "]")
BRACKETS: Final = str.maketrans(
    "\u2039\u3008\u27e8\u276e\u276c\u2991\u29fc\u300a\u00ab\u02c2\u227a\u1438\ufe64\uff1c"
    "\u203a\u3009\u27e9\u276f\u276d\u2992\u29fd\u300b\u00bb\u02c3\u227b\u1433\ufe65\uff1e",
    "<" * 14 + ">" * 14,
)
"""Characters that look like angle brackets."""
_WORD: Final = re.compile(r"[^\W\d_]+")
_TAGS: Final = re.compile("(?<!\U0001f3f4)[\U000e0020-\U000e007e]{2,}")
_FLAG: Final = re.compile("\U0001f3f4[\U000e0020-\U000e007f]{1,8}")
_SPLIT: Final = re.compile(
    "(?<=[A-Za-z])[\u00ad\u034f\u061c\u115f\u180e\u200b-\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])"
)
_SPACED: Final = re.compile(
    r"(?:(?<=\s)|^)(?:\S[ \t\u00a0]{1,4}){7,}\S(?=\s|$)|(?:\w[-._*]){7,}\w", re.MULTILINE
)
_GAP: Final = re.compile(r"[ \t\u00a0]{2,}")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{24,}={0,2}")
_HEX: Final = re.compile(r"(?:[0-9a-fA-F]{2}[ :]?){12,}")
_LEET_WORD: Final = re.compile(r"(?<![\w-])(?=\w*[A-Za-z])(?=\w*[0134578])\w{2,}(?![\w-])")
_LEET: Final = str.maketrans("0134578", "oieastb")
_PLAIN_WORD: Final = re.compile(r"[A-Za-z]{2,}")
_LINE_BREAKS: Final = frozenset("\n\t")
_SELECTORS: Final = range(0xFE00, 0xFE10)
_SUPPLEMENT: Final = range(0xE0000, 0xE1000)
_BLANKS: Final = frozenset({0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, 0x2800})
"""Fillers and blanks that are letters or symbols by their category."""
_WIDE: Final = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff]")
_MIN_WIDE: Final = 8
_MAX_LEET: Final = 2
_MAX_DECODED: Final = 4096
_MIN_WORDS: Final = 3


class FoldedText(Struct, frozen=True):
    """A folded text, the texts decoded from it, and the ways in which they were hidden."""

    text: str
    decoded: tuple[str, ...] = ()
    """Decoded texts that a reader would not see; each has at most 4,096 characters."""
    hints: frozenset[str] = frozenset()
    """Ways of hiding: tags, split, lookalike, wide, spaced, leet, encoded."""


def visible(text: str) -> str:
    """Returns the text without control, format, tag and other invisible characters."""
    unseen = "".join(char for char in set(text) - _LINE_BREAKS if _is_invisible(char))
    return text.translate(str.maketrans("", "", unseen)) if unseen else text


def _is_invisible(char: str) -> bool:
    code = ord(char)
    return (
        unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs"}
        or code in _SELECTORS
        or code in _SUPPLEMENT
        or code in _BLANKS
    )


def fold(text: str) -> FoldedText:
    """Returns the folded text; the time is linear in its length."""
    if text.isascii():
        return _decode(visible(text), set(), [])
    hints: set[str] = set()
    decoded: list[str] = []
    bare = _FLAG.sub("\U0001f3f4", text)
    if hidden := _TAGS.findall(bare):
        hints.add("tags")
        run = "".join(hidden)[:_MAX_DECODED]
        decoded.append("".join(chr(ord(char) - 0xE0000) for char in run))
    if len(_SPLIT.findall(bare)) > 1:
        hints.add("split")
    visible_text = visible(bare)
    flat = unicodedata.normalize("NFKC", visible_text)
    if len(_WIDE.findall(visible_text)) >= _MIN_WIDE:
        hints.add("wide")
    flat = visible(flat)
    latin = _latin(flat)
    if latin != flat:
        hints.add("lookalike")
    return _decode(latin, hints, decoded)


def _latin(text: str) -> str:
    """Returns the text with look-alikes replaced by Latin letters in words that mix alphabets.

    Words of look-alikes only are folded if another word of the text mixes alphabets.
    """
    if not _LOOKALIKE.search(text):
        return text
    words = {word for word in _WORD.findall(text) if not word.isascii() and _LOOKALIKE.search(word)}
    mixed = {word for word in words if any(char.isascii() for char in word)}
    if not mixed:
        return text
    folded = {word: word.translate(LOOKALIKES) for word in words}
    replacements = {
        word: plain for word, plain in folded.items() if plain.isascii() or word in mixed
    }
    return _WORD.sub(lambda match: replacements.get(match[0], match[0]), text)


def _decode(text: str, hints: set[str], decoded: list[str]) -> FoldedText:
    """Returns the folded text with the texts that are encoded in it."""
    for match in _BASE64.finditer(text):
        run = match[0].rstrip("=").replace("-", "+").replace("_", "/")[:_MAX_DECODED]
        run = run[: len(run) - (len(run) % 4 == 1)]
        try:
            plain = b64decode(run + "=" * (-len(run) % 4))
        except (binascii.Error, ValueError):
            continue
        _keep(plain, "encoded", hints, decoded)
    for match in _HEX.finditer(text):
        digits = re.sub("[ :]", "", match[0])[:_MAX_DECODED]
        _keep(bytes.fromhex(digits[: len(digits) // 2 * 2]), "encoded", hints, decoded)
    for match in _SPACED.finditer(text):
        words = (re.sub(r"[\s._*-]", "", part) for part in _GAP.split(match[0]))
        hints.add("spaced")
        decoded.append(" ".join(words)[:_MAX_DECODED])
    leet = _LEET_WORD.findall(text)
    if len(leet) > _MAX_LEET and len(leet) * 4 > len(_PLAIN_WORD.findall(text)):
        hints.add("leet")
        decoded.append(_LEET_WORD.sub(lambda match: match[0].translate(_LEET), text)[:_MAX_DECODED])
    return FoldedText(text, tuple(decoded), frozenset(hints))


def _keep(data: bytes, hint: str, hints: set[str], decoded: list[str]) -> None:
    """Adds the data to the decoded texts if it looks like words of a language."""
    try:
        plain = data.decode()
    except UnicodeDecodeError:
        return
    spaces = plain.count(" ")
    if spaces + 1 >= _MIN_WORDS and plain.isprintable() and spaces * 12 > len(plain):
        hints.add(hint)
        decoded.append(plain)
