"""Decodes the bytes of a response, and removes invisible characters."""

import codecs
import re
import unicodedata
from typing import Final

_TEXT_CODECS: Final = re.compile(
    r"utf-?(8|16|32)(-?[lb]e)?(-sig)?|ascii|iso-?8859.*|latin.*|windows-?125\d|cp\d{3,5}|koi8-[rut]"
    r"|shift_?jis.*|s?jis.*|euc[-_].*|gb(k|2312|18030)|big5.*|iso-?2022-(jp|kr).*|mac-?roman|tis-620"
)
_META: Final = re.compile(
    rb"<meta[^>]{0,300}charset\s*=\s*[\"']?\s*([A-Za-z0-9_:-]{1,40})", re.IGNORECASE
)
_HEAD: Final = 4096
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_UNSEEN: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_RETURNS: Final = re.compile(r"\r\n?")


def decoded(body: bytes, charset: str, *, is_html: bool) -> str:
    """Returns the text of a body; undecodable bytes become U+FFFD.

    The encoding is that of the byte order mark, else of the header, else of the page, else UTF-8.
    """
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body.decode(name, "replace")
    if not charset and is_html and (match := _META.search(body[:_HEAD])):
        charset = match[1].decode("ascii")
    if charset and (text := _decode(body, charset.strip().lower())) is not None:
        return text
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        is_cut = error.start > 0 and error.reason == "unexpected end of data"
        return body.decode("utf-8" if is_cut else "cp1252", "replace")


def _decode(body: bytes, charset: str) -> str | None:
    if _TEXT_CODECS.fullmatch(charset) is None:
        return None
    try:
        return body.decode(charset, "replace")
    except (LookupError, UnicodeError):
        return None


def visible(text: str) -> str:
    """Returns the text without invisible characters and controls; in composed form (NFC)."""
    cleaned = _CONTROLS.sub("", _UNSEEN.sub("", _RETURNS.sub("\n", text)))
    return unicodedata.normalize("NFC", cleaned)
