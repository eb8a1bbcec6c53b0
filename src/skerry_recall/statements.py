"""Statements in what people said, with dates for days such as "last Friday"; needs no model."""

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from skerry_recall.relative_days import counted_at

VITAL: Final = 0.9
STANDARD: Final = 0.5
TRIVIAL: Final = 0.2

_LEAST_WORDS: Final = 3
_SHORT: Final = 5
"""Words below which a fact without a personal word is trivial."""
_WEEK: Final = 7
_SENTENCE: Final = re.compile(r"(?<=[.!?\u3002])[\s\u200b]+(?=[^\s])|\n+")
_CLAUSES: Final = re.compile(
    r"(?P<comma>[,;])? (?:and|und|et|y) (?=(?:i|i'm|i've|my|ich|mein\w*|je|mon|ma|yo|mi) )",
    re.IGNORECASE,
)
"""Place where a sentence begins to say something else of the same person."""
_OF_MYSELF: Final = re.compile(
    r"(?:i'm|i (?:am|live|work|prefer|like|hate|love|use|own|take|moved|need)|ich)\b", re.IGNORECASE
)
"""Beginning of a sentence that needs no comma there: not "My wife and I went"."""
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
"""Beginning of a sentence before what it states."""
_TOLD: Final = re.compile(
    r"(?:(?:please|bitte)[,\s]+)?"
    r"(?:remember|note|keep in mind|don'?t forget|do not forget|for the record|just so you know|fyi"
    r"|merke? dir|vergiss nicht)\b(?: this)?(?:[,\s]+(?:that|dass)\b)?\s*(?:[:,-]+\s*)?(?=\S)",
    re.IGNORECASE,
)
"""Request to remember what follows; the rest is the statement."""
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
"""Words to somebody else: an assistant that answers, or repeats what it was told."""
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
    """Yields the sentences of `text` that state something of people or of a day.

    General statements are left out: an assistant makes many, and they are no memory of anybody.
    """
    for piece in _SENTENCE.split(_TAG.sub(" ", text)):
        sentence = " ".join(_SPEAKER.sub("", _NUMBERING.sub("", piece)).split())
        stated, is_told = _stated(sentence)
        if is_statement(stated) and (is_told or is_memorable(stated)):
            yield from _clauses(stated)


def _clauses(sentence: str) -> list[str]:
    """Returns the parts of a sentence that say two things of a person: each is found by its own."""
    for match in _CLAUSES.finditer(sentence):
        first, rest = sentence[: match.start()], sentence[match.end() :]
        is_end = match["comma"] or _OF_MYSELF.match(first)
        if is_end and is_statement(first) and is_statement(rest):
            return [f"{first}.", *_clauses(rest[:1].upper() + rest[1:])]
    return [sentence]


def _stated(sentence: str) -> tuple[str, bool]:
    """Returns a sentence without greeting or request to remember; True if it had the request."""
    rest = sentence[match.end() :] if (match := _GREETING.match(sentence)) else sentence
    told = _TOLD.match(rest)
    if told is None:
        return rest[:1].upper() + rest[1:] if match else rest, False
    rest = rest[told.end() :]
    return rest[:1].upper() + rest[1:], True


def is_memorable(sentence: str) -> bool:
    """Returns True for what is said of people or of a day, unless an assistant says it."""
    if _WISH.search(sentence):
        return True
    if _TO_A_PERSON.match(sentence) or _OF_AN_ASSISTANT.match(sentence):
        return False
    about = _PERSONAL, _VITAL, _RELATIVE
    return any(pattern.search(sentence) for pattern in about) or any(
        _days(sentence, date(2000, 1, 1))
    )


def is_statement(sentence: str) -> bool:
    """Returns True for neither a question, nor a request, nor an acknowledgement."""
    return (
        len(sentence.split()) >= _LEAST_WORDS
        and not sentence.endswith(("?", ":", "\uff1f"))
        and not _ACKNOWLEDGED.match(sentence)
        and not _REQUEST.match(sentence)
    )


def importance(sentence: str) -> float:
    """Returns 0.9 for what a person would mind forgetting, 0.2 for small talk, else 0.5."""
    if _VITAL.search(sentence):
        return VITAL
    personal = _PERSONAL.search(sentence) is not None
    return STANDARD if personal or len(sentence.split()) >= _SHORT else TRIVIAL


def dated(sentence: str, today: date) -> str:
    """Returns `sentence` with days that count from `today` as `Friday, 15 May 2026 (2026-05-15)`.

    A weekday alone stays as it is: it may be each week's.
    """
    out, done = [], 0
    for begin, end, first, last in sorted(_days(sentence, today)):
        if begin < done:
            continue
        before = sentence[done:begin]
        pointer = _POINTER.search(before)
        if _WEEKDAY.fullmatch(sentence[begin:end]) and not pointer:
            continue
        kept = before[: pointer.start()] if pointer else before
        preposition = _PREPOSITION.search(kept)
        kept = kept[: preposition.start()] if preposition else kept
        out += [kept, _named(first, last)]
        done = end
    resolved = "".join(out) + sentence[done:]
    return resolved[0].upper() + resolved[1:] if out and sentence[:1].isupper() else resolved


def _days(sentence: str, today: date) -> Iterator[tuple[int, int, date, date]]:
    for begin, end, first, last in counted_at(sentence, today):
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
    """Returns the words of a text, by which two statements are the same."""
    return " ".join(re.findall(r"\w+", text.casefold()))
