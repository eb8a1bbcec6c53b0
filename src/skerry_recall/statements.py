"""Extracts statements from messages and resolves days such as "last Friday"; needs no model."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from skerry_recall.relative_days import relative_days_at

VITAL: Final = 0.9
STANDARD: Final = 0.5
TRIVIAL: Final = 0.2

_MIN_WORDS: Final = 3
_SHORT: Final = 5
"""Minimum number of words of a fact that is not trivial without a personal word."""
_WEEK: Final = 7
_SENTENCE: Final = re.compile(r"(?<=[.!?\u3002])[\s\u200b]+(?=[^\s])|\n+")
_CLAUSES: Final = re.compile(
    r"(?P<comma>[,;])? (?:and|und|et|y) (?=(?:i|i'm|i've|my|ich|mein\w*|je|mon|ma|yo|mi) )",
    re.IGNORECASE,
)
"""Boundary between two statements about the same person in one sentence."""
_OF_MYSELF: Final = re.compile(
    r"(?:i'm|i (?:am|live|work|prefer|like|hate|love|use|own|take|moved|need)|ich)\b", re.IGNORECASE
)
"""Beginning of a sentence that can be divided without a comma: not "My wife and I went"."""
_NUMBERING: Final = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*\u2022])\s+")
_SPEAKER: Final = re.compile(r"^(?:user|human|me|assistant|ai|bot)\s*:\s*", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[A-Za-z][^>]{0,200}>")
_ACKNOWLEDGED: Final = re.compile(
    r"(?:noted|got it|sure|ok(?:ay)?|great|understood|thanks?(?: you)?|hi|hello|hey|good (?:morning"
    r"|evening|afternoon|night)|bye|goodbye|yes|no|nice|cool|alright|absolutely|of course|perfect"
    r"|sounds good|you're welcome|no problem|i'll remember|i will remember|let me|here(?:'s| is)"
    r"|as an ai|i can help|happy to)\b",
    re.IGNORECASE,
)
_GREETING: Final = re.compile(
    r"(?:hi|hello|hey|good (?:morning|evening|afternoon)|yes|no|ok(?:ay)?|well|thanks?(?: you)?"
    r"|hallo|ja|nein)\b[\w' ]{0,20}[,!:.;-]+\s+(?=\S)",
    re.IGNORECASE,
)
"""Greeting before the statement of a sentence."""
_REMEMBER: Final = re.compile(
    r"(?:(?:please|bitte)[,\s]+)?"
    r"(?:remember|note|keep in mind|don'?t forget|do not forget|for the record|just so you know|fyi"
    r"|merke? dir|vergiss nicht)\b(?: this)?(?:[,\s]+(?:that|dass)\b)?\s*(?:[:,-]+\s*)?(?=\S)",
    re.IGNORECASE,
)
"""Request to remember the statement after it."""
_REQUEST: Final = re.compile(
    r"(?:please|can you|could you|would you|will you|tell me|show me|write|explain|give me|help me"
    r"|list|what|who|why|how|when|where|which|do you|does|is there|are there)\b",
    re.IGNORECASE,
)
_PERSONAL: Final = re.compile(
    r"\b(?:i|i'm|i've|i'd|my|mine|me|we|we're|our|user|user's|ich|mein\w*|wir|unser\w*|je|mon|ma|mes"
    r"|nous|yo|mi|mis|io|mio|mia)\b",
    re.IGNORECASE,
)
_VITAL: Final = re.compile(
    r"\b(?:allerg\w+|always|never|important|remember|deadline|birthday|born|password|emergency"
    r"|diabet\w+|vegan|vegetarian|married|name is|moved to|live in|lives in|must not)\b",
    re.IGNORECASE,
)
_WISH: Final = re.compile(
    r"\b(?:i (?:want|need|prefer|like|hate|love|expect|ask)|always|never|call me|from now on)\b",
    re.IGNORECASE,
)
_TO_A_PERSON: Final = re.compile(
    r"(?:you|your)\b|(?:i|we)\b.*\b(?:you|your|yours|anyone)\b", re.IGNORECASE
)
"""Words to another person: an assistant answers, or repeats a message."""
_OF_AN_ASSISTANT: Final = re.compile(
    r"i(?:'m| am) (?:here|ready|sorry|glad|an? (?:ai|assistant|language model)|happy|unable)\b"
    r"|i(?:'ve| have) (?:been trained|noted|saved|stored|added)\b"
    r"|i (?:apologi[sz]e|understand|hope)\b"
    r"|(?:feel free|best regards|let's|as an?)\b",
    re.IGNORECASE,
)
_RELATIVE: Final = re.compile(r"\b(?P<tomorrow>tomorrow)\b|\b(?P<week>next week)\b", re.IGNORECASE)
_WEEKDAY: Final = re.compile(r"(?:mon|tues|wednes|thurs|fri|satur|sun)day", re.IGNORECASE)
_POINTER: Final = re.compile(r"\b(?:(?:on|by|at)\s+)?(?:this|last|past|next)\s+$", re.IGNORECASE)
_PREPOSITION: Final = re.compile(r"\b(?:on|in|over|during|by)\s+(?:the\s+)?$", re.IGNORECASE)


def statements(text: str) -> Iterator[str]:
    """Yields the sentences of `text` with a statement about people or a day.

    General statements are omitted: an assistant makes many, and they are not worth remembering.
    """
    for line in _SENTENCE.split(_TAG.sub(" ", text)):
        sentence = " ".join(_SPEAKER.sub("", _NUMBERING.sub("", line)).split())
        statement, is_requested = _statement(sentence)
        if is_statement(statement) and (is_requested or is_memorable(statement)):
            yield from _clauses(statement)


def _clauses(sentence: str) -> list[str]:
    """Returns the statements of a sentence with several about a person, so that each is found."""
    for match in _CLAUSES.finditer(sentence):
        first, rest = sentence[: match.start()], sentence[match.end() :]
        is_end = match["comma"] or _OF_MYSELF.match(first)
        if is_end and is_statement(first) and is_statement(rest):
            return [f"{first}.", *_clauses(rest[:1].upper() + rest[1:])]
    return [sentence]


def _statement(sentence: str) -> tuple[str, bool]:
    """Returns a sentence without greeting and request; True if it had a request to remember."""
    rest = sentence[match.end() :] if (match := _GREETING.match(sentence)) else sentence
    request = _REMEMBER.match(rest)
    if request is None:
        return rest[:1].upper() + rest[1:] if match else rest, False
    rest = rest[request.end() :]
    return rest[:1].upper() + rest[1:], True


def is_memorable(sentence: str) -> bool:
    """Returns True for a sentence about people or a day, unless it is an assistant's."""
    if _WISH.search(sentence):
        return True
    if _TO_A_PERSON.match(sentence) or _OF_AN_ASSISTANT.match(sentence):
        return False
    about = _PERSONAL, _VITAL, _RELATIVE
    return any(pattern.search(sentence) for pattern in about) or any(
        _days(sentence, date(2000, 1, 1))
    )


def is_statement(sentence: str) -> bool:
    """Returns True unless it is a question, a request or an acknowledgement."""
    return (
        len(sentence.split()) >= _MIN_WORDS
        and not sentence.endswith(("?", ":", "\uff1f"))
        and not _ACKNOWLEDGED.match(sentence)
        and not _REQUEST.match(sentence)
    )


def importance(sentence: str) -> float:
    """Returns 0.9 for vital facts such as allergies, 0.2 for small talk, else 0.5."""
    if _VITAL.search(sentence):
        return VITAL
    personal = _PERSONAL.search(sentence) is not None
    return STANDARD if personal or len(sentence.split()) >= _SHORT else TRIVIAL


def dated(sentence: str, today: date) -> str:
    """Returns `sentence` with relative days as dates: `Friday, 15 May 2026 (2026-05-15)`.

    A weekday alone is not replaced: it may recur each week.
    """
    parts, position = [], 0
    for begin, end, first, last in sorted(_days(sentence, today)):
        if begin < position:
            continue
        before = sentence[position:begin]
        pointer = _POINTER.search(before)
        if _WEEKDAY.fullmatch(sentence[begin:end]) and not pointer:
            continue
        before = before[: pointer.start()] if pointer else before
        preposition = _PREPOSITION.search(before)
        before = before[: preposition.start()] if preposition else before
        parts += [before, _named(first, last)]
        position = end
    resolved = "".join(parts) + sentence[position:]
    return resolved[0].upper() + resolved[1:] if parts and sentence[:1].isupper() else resolved


def _days(sentence: str, today: date) -> Iterator[tuple[int, int, date, date]]:
    for begin, end, first, last in relative_days_at(sentence, today):
        ahead = re.search(r"\bnext\s+$", sentence[:begin], re.IGNORECASE)
        week = timedelta(days=_WEEK)
        yield (begin, end, first + week, last + week) if ahead else (begin, end, first, last)
    for match in _RELATIVE.finditer(sentence):
        if match["tomorrow"]:
            first = last = today + timedelta(days=1)
        else:
            first = today - timedelta(days=today.weekday()) + timedelta(days=_WEEK)
            last = first + timedelta(days=_WEEK - 1)
        yield match.start(), match.end(), first, last


def _named(first: date, last: date) -> str:
    if first == last:
        return f"on {first:%A}, {first.day} {first:%B} {first.year} ({first:%Y-%m-%d})"
    if (first.day, last.month, (last + timedelta(days=1)).day) == (1, first.month, 1):
        return f"in {first:%B} {first.year} ({first:%Y-%m})"
    if (first.month, first.day, last.month, last.day) == (1, 1, 12, 31):
        return f"in {first.year}"
    begin, end = (f"{day.day} {day:%B} {day.year}" for day in (first, last))
    return f"between {begin} ({first:%Y-%m-%d}) and {end} ({last:%Y-%m-%d})"


def folded(text: str) -> str:
    """Returns the case-folded words of a text; equal for two texts with the same words."""
    return " ".join(re.findall(r"\w+", text.casefold()))
