"""Days that a question names (pure), in seven languages, and dates as 2026-05-08 or 8.5.2026.

English, German, Spanish, French, Italian, Portuguese and Dutch. French `hier` alone is not
recognised: it is the German word for here.
"""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, tzinfo
from types import MappingProxyType
from typing import Final

from skerry_recall.relative_days import relative_days

_LAST: Final = 253_370_678_400_000
"""Latest supported time in ms since 1970: after it, a next day may not exist."""
_YEAR: Final = r"(?:19|20)\d\d"
_DECEMBER: Final = 12
_MONTHS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: number
        for names in (
            "january february march april may june july august september october november december",
            "januar februar märz april mai juni juli august september oktober november dezember",
            "enero febrero marzo abril mayo junio julio agosto septiembre octubre - -",
            "- - - - - - - - - - noviembre diciembre",
            "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
            "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre - -",
            "- - - - - - - - - - novembre dicembre",
            "janeiro fevereiro março abril maio junho julho agosto setembro outubro - dezembro",
            "januari februari maart april mei juni juli augustus september oktober november -",
        )
        for number, name in enumerate(names.split(), 1)
        if name != "-"
    }
)
_AMBIGUOUS: Final = frozenset({"may", "march", "mars", "Mars"})
"""Words that are months only with a day or a year, unless a capital distinguishes them."""
_EARLY: Final = (
    r"early|(?:the\s)?(?:beginning|start)\sof|anfang|(?:a\s)?(?:principios|comienzos)\sde"
    r"|(?:au\s)?début|inizio(?:\sdi)?|(?:no\s)?início\sde|begin"
)
_MID: Final = (
    r"mid|(?:the\s)?middle\sof|mitte|(?:a\s)?mediados\sde|(?:à\sla\s)?mi|metà(?:\sdi)?"
    r"|(?:em\s)?meados\sde|midden|half"
)
_LATE: Final = (
    r"late|(?:the\s)?end\sof|ende|(?:a\s)?(?:finales|fines)\sde|(?:à\sla\s)?fin|fine(?:\sdi)?"
    r"|(?:no\s)?(?:fim|final)\sde|einde?"
)
_PARTS: Final = (((1, 10), _EARLY), ((11, 20), _MID), ((21, 31), _LATE))
"""The first and the last day of each part of a month, and its names."""
_NAMED: Final = re.compile(
    rf"\b(?P<year>{_YEAR})-(?P<number>\d\d)(?:-(?P<last>\d\d))?\b"
    rf"|\b(?P<dotted>\d{{1,2}})\.(?P<dots>\d{{1,2}})\.(?P<dotty>{_YEAR})\b"
    rf"|\b(?:(?:(?P<part>{'|'.join(f'(?:{names})' for _, names in _PARTS)})[\s-])"
    r"|(?:(?:(?P<from>\d{1,2})(?:st|nd|rd|th|\.)?\s?(?P<join>[-\u2013]|to|bis|al?|au|tot|and|und|y|et?|en)\s?)?"
    r"(?P<before>\d{1,2})(?:st|nd|rd|th|er|º|\.)?\s(?:of\s|de\s)?))?"
    rf"(?P<month>{'|'.join(_MONTHS)})\b"
    r"(?:\s(?P<after>\d{1,2})(?:st|nd|rd|th)?\b(?:\s?(?:[-\u2013]|to)\s?(?P<to>\d{1,2})\b)?)?"
    rf"(?:,?\s(?:of\s|del?\s)?(?P<of>{_YEAR})\b)?"
    rf"|\b(?:in|im\sjahre?|en|nel|em)\s(?P<alone>{_YEAR})\b(?!-\d)",
    re.IGNORECASE,
)
_PART_NAMES: Final = tuple((days, re.compile(names, re.IGNORECASE)) for days, names in _PARTS)
_TO: Final = re.compile(
    r"[-\u2013]|to|until|till|through|and|bis|und|hasta|al?|y|au|jusqu'au|et?|até|tot|en"
)
"""Words and signs between the two ends of a span."""
_AND: Final = frozenset(("and", "und", "y", "e", "et", "en"))
"""Words that join the ends of a span only after a word such as `between`."""
_FROM: Final = re.compile(
    r"\b(?:between|from|zwischen|vom?|entre|desde|del?|du|tra|fra|dal|tussen|van)\b", re.IGNORECASE
)
"""Words at the beginning of a span."""
_NEAR: Final = 60
"""Distance in characters, up to the end of its first day, at which such a word is searched."""
_WHITE: Final = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Day:
    """A day, some days of a month, a month or a year; without a year, that of every year."""

    year: int | None
    month: int | None = None
    day: int | None = None
    last: int | None = None
    """Last day, for several days of a month; None for a single day."""

    @property
    def is_exact(self) -> bool:
        """Returns whether it is a single day."""
        return self.day is not None and self.last is None

    def has(self, day: date) -> bool:
        """Returns whether the date is within these days."""
        return (
            self.year in {None, day.year}
            and self.month in {None, day.month}
            and (self.day is None or self.day <= day.day <= (self.last or self.day))
        )

    def edges(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Returns (month, day) of the beginning and of the end."""
        first, last = self.month or 1, self.month or _DECEMBER
        return (first, self.day or 1), (last, self.last or self.day or 31)


@dataclass(frozen=True, slots=True)
class Span:
    """All days from the beginning of `first` to the end of `last`; both have a year or neither."""

    first: Day
    last: Day

    @property
    def is_exact(self) -> bool:
        """Returns whether it is a single day."""
        return self.first == self.last and self.first.is_exact

    def has(self, day: date) -> bool:
        """Returns whether the date is within the span."""
        begin, end, at = self.first.edges()[0], self.last.edges()[1], (day.month, day.day)
        if self.first.year is None or self.last.year is None:
            return begin <= at <= end if begin <= end else at >= begin or at <= end
        return (self.first.year, *begin) <= (day.year, *at) <= (self.last.year, *end)


def named(
    question: str, now: int | None = None, zone: tzinfo | None = UTC
) -> tuple[Day | Span, ...]:
    """Returns the days that a question names.

    With `now`, in ms since 1970, also relative days: yesterday, last week. `zone` is the zone in
    which days begin; None is the zone of this machine. Linear in the question.
    """
    text = _WHITE.sub(" ", question)
    days = list(_named(text))
    if now is None:
        return tuple(days)
    today = moment(now, zone)
    for first, last in relative_days(text, today):
        begin, end = (Day(end_day.year, end_day.month, end_day.day) for end_day in (first, last))
        spans = Day(first.year, first.month), Day(first.year)
        if begin == end:
            days.append(begin)
        else:
            days.append(
                next((span for span in spans if _is_all(span, first, last)), Span(begin, end))
            )
    return tuple(dict.fromkeys(days))


def within(days: Day | Span, years: range) -> Iterator[tuple[date, date]]:
    """Yields the first and the last date of the days; for each of `years` if they have no year."""
    first, last = (days, days) if isinstance(days, Day) else (days.first, days.last)
    for year in years if first.year is None else (first.year,):
        (month, day), (until, end) = first.edges()[0], last.edges()[1]
        last_year = (last.year or year) + ((until, end) < (month, day) and last.year is None)
        try:
            yield date(year, month, day), _until(last_year, until, end)
        except ValueError:
            continue  # 31 February, the month 13


def moment(at: int, zone: tzinfo | None = UTC) -> date:
    """Returns the day of a time in ms since 1970; for a later time the last day of 9998."""
    return datetime.fromtimestamp(min(at, _LAST) / 1000, zone).date()


def _until(year: int, month: int, day: int) -> date:
    """Returns a date; the last date of the month if the month is shorter."""
    return date(year, month, min(day, monthrange(year, month)[1]))


def _is_all(span: Day, first: date, last: date) -> bool:
    """Returns whether the dates are the first and the last of the month or year."""
    (month, day), (end, _) = span.edges()
    return (
        (first.month, first.day, first.year) == (month, day, last.year)
        and last.month == end
        and (last.month == _DECEMBER or last.replace(day=1).month == end)
        and not span.has(last.fromordinal(last.toordinal() + 1))
    )


def _named(question: str) -> Iterator[Day | Span]:
    """Yields the days, months and years; two with a joining word between them are one span."""
    first: Day | None = None
    end = 0
    for match in _NAMED.finditer(question):
        day = _day(match)
        if day is None:
            continue
        between = question[end : match.start()].lower().strip(" ,")
        if first is not None and _TO.fullmatch(between) and _joins(first, day, question[:end]):
            yield Span(replace(first, year=first.year or day.year), day)
            first = None
            continue
        if first is not None:
            yield first
        first, end = day, match.end()
    if first is not None:
        yield first


def _joins(first: Day, second: Day, before: str) -> bool:
    """Returns whether two days are the ends of a span: of one kind, the second one later."""
    kinds = [(day.month is None, day.day is None) for day in (first, second)]
    if kinds[0] != kinds[1] or (first.year is not None and second.year is None):
        return False
    year = first.year or second.year or 0
    ordered = (year, *first.edges()[0]) <= (second.year or 0, *second.edges()[1])
    return ordered and _FROM.search(before[-_NEAR:]) is not None


def _day(match: re.Match[str]) -> Day | None:
    """Returns the day of a match; None if the word is not a month in this context."""
    month = match["month"]
    if month is None:
        if match["dotty"]:
            return Day(int(match["dotty"]), int(match["dots"]), int(match["dotted"]))
        return Day(int(match["year"] or match["alone"]), _int(match["number"]), _int(match["last"]))
    first, last = match["before"] or match["after"], match["to"]
    if match["from"] and (
        match["join"] not in _AND or _FROM.search(match.string[: match.start()][-_NEAR:])
    ):
        first, last = match["from"], match["before"]
    year, number = _int(match["of"]), _MONTHS[month.lower()]
    if match["part"]:
        begin, end = next(days for days, names in _PART_NAMES if names.fullmatch(match["part"]))
        return Day(year, number, begin, end)
    if first or year or month not in _AMBIGUOUS:
        return Day(year, number, _int(first), _int(last))
    return None


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None
