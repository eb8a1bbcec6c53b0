"""The new part of the text of a mail, and Markdown as HTML."""

import re
from typing import Final

import nh3

from skerry.channels.markdown import MAX_CHARS, parser

_TAGS: Final = {
    "a", "b", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr",
    "i", "li", "ol", "p", "pre", "s", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
_FORWARDED: Final = re.compile(r"^\s*(?:fwd?|wg|tr|rv|i|doorst)\s*:", re.IGNORECASE)
_FORWARD_MARK: Final = re.compile(
    r"^(?:-{3,}\s*(?:forwarded message|weitergeleitete nachricht)"
    r"|(?:begin forwarded message|anfang der weitergeleiteten nachricht)\s?:)",
    re.IGNORECASE,
)
_INTRO: Final = re.compile(
    r"^(?:on|am|le|el|il|op|em|den|dnia|w dniu)\b.{4,400}"
    r"(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisał\(a\)|napisał)"
    r"(?:\s.{0,80})?\s?:$",
    re.IGNORECASE | re.DOTALL,
)
_ORIGINAL: Final = re.compile(
    r"^-{2,}\s*(?:original message|ursprüngliche nachricht|message d'origine|mensaje original)"
    r"\s*-{2,}$",
    re.IGNORECASE,
)
_OUTLOOK: Final = re.compile(r"^\*?(?:from|von|de|da|van|från|fra):\*?\s.+", re.IGNORECASE)
_OUTLOOK_MORE: Final = re.compile(
    r"^\*?(?:sent|date|gesendet|datum|envoyé|enviado|inviato|verzonden|skickat|sendt)\s?:",
    re.IGNORECASE,
)
_RULE: Final = re.compile(r"^[_-]{10,}$")
_INTRO_LINES: Final = 3
_OUTLOOK_LINES: Final = 4


def is_forwarded(subject: str) -> bool:
    """Returns whether a subject marks a forwarded mail."""
    return bool(_FORWARDED.match(subject))


def new_part(text: str) -> str:
    """Returns a text without its signature and the mail that it answers.

    A mail that has nothing else is returned whole, as is one that forwards another. Quoted lines
    between new ones stay.
    """
    text = text.replace("\r\n", "\n")
    lines = [line.rstrip() for line in text.split("\n")]
    if any(_FORWARD_MARK.match(line) for line in lines):
        return text.strip()
    new = [number for number, line in enumerate(lines) if line and not line.startswith(">")]
    last = new[-1] if new else -1
    new_lines: list[str] = []
    number = 0
    while number < len(lines):
        skipped = _history(lines, number)
        if skipped is None:
            new_lines.append(lines[number])
            number += 1
        elif skipped <= last:
            number = skipped  # the answer follows the quoted mail
        else:
            break
    while new_lines and (
        not new_lines[-1] or new_lines[-1].startswith(">") or _RULE.match(new_lines[-1])
    ):
        new_lines.pop()
    return "\n".join(new_lines).strip() or text.strip()


def own_words(text: str, *, is_forwarded: bool) -> str:
    """Returns the sender's own words in a text that `new_part` returned.

    Quoted lines and forwarded texts are words of others. In a forwarded mail without a mark of
    where the forwarded text begins, all words count as those of others.
    """
    lines = text.split("\n")
    own_lines: list[str] = []
    for number, line in enumerate(lines):
        is_history = bool(_ORIGINAL.match(line)) or _begins_outlook(lines, number)
        if is_history or _FORWARD_MARK.match(line):
            break
        if not line.startswith(">"):
            own_lines.append(line)
    else:
        if is_forwarded and len(own_lines) == len(lines):
            return ""
    return "\n".join(own_lines).strip()


def _begins_outlook(lines: list[str], number: int) -> bool:
    following = lines[number + 1 : number + 1 + _OUTLOOK_LINES]
    return bool(_OUTLOOK.match(lines[number])) and any(map(_OUTLOOK_MORE.match, following))


def _history(lines: list[str], number: int) -> int | None:
    """Returns the number of the line after the history or signature that begins at a line."""
    line = lines[number]
    if line in {"--", "-- "} or _ORIGINAL.match(line):
        return len(lines)
    if number and _begins_outlook(lines, number):
        return len(lines)
    for count in range(1, _INTRO_LINES + 1):
        if _INTRO.match(" ".join(lines[number : number + count])):
            return _after_quote(lines, number + count)
    return None


def _after_quote(lines: list[str], number: int) -> int:
    """Returns the number of the line after a quotation; the end when no line begins with `>`."""
    while number < len(lines) and not lines[number]:
        number += 1
    if number == len(lines) or not lines[number].startswith(">"):
        return len(lines)
    while number < len(lines) and (lines[number].startswith(">") or not lines[number]):
        number += 1
    return number


def html_of(markdown: str) -> str:
    """Returns Markdown as HTML without remote content; empty for a text that is too long."""
    if len(markdown) > MAX_CHARS:
        return ""
    body = nh3.clean(
        parser().render(markdown),
        tags=_TAGS,
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes={"http", "https", "mailto"},
    )
    return f"<!DOCTYPE html>\n<html><body>{body}</body></html>\n"
