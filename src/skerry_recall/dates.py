"""Which days a question names (pure), in seven languages, and dates as 2026-05-08.

English, German, Spanish, French, Italian, Portuguese and Dutch. French `hier` is left out where it
stands alone: in German that is the word for here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from types import MappingProxyType
from typing import Final

_DAY: Final = timedelta(days=1)
_WEEK: Final = 7
_LAST: Final = 253_370_678_400_000
"""In ms: from there on there is not always a next day."""
_YEAR: Final = r"(?:19|20)\d\d"
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
_OTHERWISE: Final = frozenset({"may", "march", "mars", "Mars"})
"""Months only with a day or a year, or with a capital that is not that of a planet."""
_NAMED: Final = re.compile(
    rf"\b(?P<year>{_YEAR})-(?P<number>\d\d)(?:-(?P<last>\d\d))?\b"
    r"|\b(?:(?P<before>\d{1,2})(?:st|nd|rd|th|er|º|\.)?\s+(?:of\s+|de\s+)?)?"
    rf"(?P<month>{'|'.join(_MONTHS)})\b"
    r"(?:\s+(?P<after>\d{1,2})(?:st|nd|rd|th)?\b)?"
    rf"(?:,?\s+(?:of\s+|del?\s+)?(?P<of>{_YEAR})\b)?"
    rf"|\b(?:in|im\s+jahre?|en|nel|em)\s+(?P<alone>{_YEAR})\b(?!-\d)",
    re.IGNORECASE,
)
_FROM_NOW: Final = re.compile(
    r"\b(?:(?P<today>today|heute|hoy|aujourd['\u2019]hui|oggi|hoje|vandaag)"
    r"|(?P<yesterday>yesterday|gestern|ayer|hier\s+(?:matin|soir)|ieri|ontem|gisteren)"
    r"|(?P<week>last\s+week|letzten?\s+woche|semana\s+pass?ada|semaine\s+(?:dernière|passée)"
    r"|settimana\s+scorsa|scorsa\s+settimana|vorige\s+week)"
    r"|(?P<month>last\s+month|letzten\s+monat|mes\s+pasado|mois\s+(?:dernier|passé)|mese\s+scorso"
    r"|scorso\s+mese|mês\s+passado|vorige\s+maand)"
    r"|(?P<year>last\s+year|letzte[ns]\s+jahr|año\s+pasado|an(?:née)?\s+(?:dernière|dernier)"
    r"|anno\s+scorso|scorso\s+anno|ano\s+passado|vorig\s+jaar))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Day:
    """A day, a month or a year, or one of every year; what is None is any."""

    year: int | None
    month: int | None = None
    day: int | None = None

    def has(self, one: date) -> bool:
        """Return whether it is this day, the one before or after (a zone's), or within."""
        near = (one,) if self.day is None else (one - _DAY, one, one + _DAY)
        return any(
            self.year in {None, some.year}
            and self.month in {None, some.month}
            and self.day in {None, some.day}
            for some in near
        )


def named(question: str, now: int | None = None) -> tuple[Day, ...]:
    """Return the days, months and years that a question names.

    With `now`, in ms since 1970, also those it counts from there: yesterday, last week.
    """
    today = None if now is None else moment(now)
    return (*_named(question), *(() if today is None else _counted(question, today)))


def moment(at: int) -> date:
    """Return the day, in UTC, of a time in ms since 1970; after the year 9998 its last day."""
    return datetime.fromtimestamp(min(at, _LAST) / 1000, UTC).date()


def _named(question: str) -> Iterator[Day]:
    for one in _NAMED.finditer(question):
        month, day = one["month"], one["before"] or one["after"] or one["last"]
        if month is None:
            number = one["number"]
            yield Day(int(one["year"] or one["alone"]), _int(number), _int(day))
        elif day or one["of"] or month not in _OTHERWISE:
            yield Day(_int(one["of"]), _MONTHS[month.lower()], _int(day))


def _counted(question: str, today: date) -> Iterator[Day]:
    for one in _FROM_NOW.finditer(question):
        match one.lastgroup:
            case "today" | "yesterday":
                then = today - _DAY * (one.lastgroup == "yesterday")
                yield Day(then.year, then.month, then.day)
            case "week":
                for back in range(1, _WEEK + 1):
                    then = today - _DAY * back
                    yield Day(then.year, then.month, then.day)
            case "month":
                then = today.replace(day=1) - _DAY
                yield Day(then.year, then.month)
            case _:
                yield Day(today.year - 1)


def _int(digits: str | None) -> int | None:
    return int(digits) if digits else None
