"""Relative days (pure): yesterday, last Friday, three days ago, in seven languages."""

import re
from collections.abc import Iterator, Mapping
from datetime import date, timedelta
from types import MappingProxyType
from typing import Final

_DAY: Final = timedelta(days=1)
_WEEK: Final = 7
_SATURDAY: Final = 5
_DECEMBER: Final = 12
_MAX_DAYS: Final = 36_500
"""Limit on the number of days back."""
_WEEKDAYS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: number
        for names in (
            "monday tuesday wednesday thursday friday saturday sunday",
            "montag dienstag mittwoch donnerstag freitag samstag sonntag",
            "- - - - - sonnabend -",
            "lunes martes miércoles jueves viernes sábado domingo",
            "lundi mardi mercredi jeudi vendredi samedi dimanche",
            "lunedì martedì mercoledì giovedì venerdì sabato domenica",
            "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
            "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        )
        for number, name in enumerate(names.split())
        if name != "-"
    }
)
_NUMBERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        name: number
        for names in (
            "one two three four five six seven eight nine ten",
            "a couple - - - - - - - -",
            "an - - - - - - - - -",
            "einem zwei drei vier fünf sechs sieben acht neun zehn",
            "einer - - - - - - - - -",
            "un dos tres cuatro cinco seis siete ocho nueve diez",
            "una deux trois quatre cinq six sept huit neuf dix",
            "une due tre quattro cinque sei sette otto nove dieci",
            "um dois três quatro cinco seis sete oito nove dez",
            "uma duas - - - - - - - -",
            "een twee drie vier vijf zes zeven acht negen tien",
        )
        for number, name in enumerate(names.split(), 1)
        if name != "-"
    }
)
_UNITS: Final[Mapping[str, str]] = MappingProxyType(
    {
        name: unit
        for unit, names in (
            ("day", "day days tag tagen día días dia dias jour jours giorno giorni dag dagen"),
            (
                "week",
                "week weeks woche wochen semana semanas semaine semaines settimana settimane weken",
            ),
            ("month", "month months monat monaten mes meses mois mese mesi mês maand maanden"),
            ("year", "year years jahr jahren año años an ans anno anni ano anos jaar"),
        )
        for name in names.split()
    }
)
_COUNT: Final = rf"(?P<n%s>\d{{1,3}}|{'|'.join(_NUMBERS)})(?: of)? (?P<u%s>{'|'.join(_UNITS)})"
_LAST: Final = r"letzte[nrsm]?|vergangene[nrsm]?|vorige[nrsm]?"
_FROM_NOW: Final = re.compile(
    rf"\b(?:{_COUNT % (1, 1)} (?:ago|fa|atrás|geleden)(?P<that1> today)?"
    rf"|(?P<that2>heute )?(?:vor|hace|il y a|há|faz) {_COUNT % (2, 2)}"
    r"|(?P<today>today|heute|hoy|aujourd['\u2019]hui|oggi|hoje|vandaag)"
    r"|(?P<two>(?:the )?day before yesterday|vorgestern|anteayer|antes de ayer|avant-hier"
    r"|l['\u2019]altro ieri|ieri l['\u2019]altro|altroieri|anteontem|eergisteren)"
    r"|(?P<yesterday>yesterday|gestern|ayer|hier (?:matin|soir)|ieri|ontem|gisteren)"
    rf"|(?P<weekend>(?P<this>this )?(?:last |past |the |(?:{_LAST}|am|vorige?|afgelopen) )?"
    r"(?:weekend|wochenende|fin de semana|week-end|fine settimana|fim de semana)"
    r"(?: pasado| dernier| passé| scorso| passado)?)"
    rf"|(?P<week>(?:last|past|{_LAST}|vorige|afgelopen) (?:week|woche)"
    r"|semana pass?ada|semaine (?:dernière|passée)|settimana scorsa|scorsa settimana)"
    r"|(?P<present>this week|diese[r]? woche|esta semana|cette semaine|questa settimana|deze week)"
    rf"|(?P<month>(?:last|{_LAST}|vorige|afgelopen) (?:month|monat|maand)|mes pasado"
    r"|mois (?:dernier|passé)|mese scorso|scorso mese|mês passado)"
    rf"|(?P<year>(?:last|{_LAST}|vorig|afgelopen) (?:year|jahr|jaar)|año pasado"
    r"|an(?:née)? (?:dernière|dernier)|anno scorso|scorso anno|ano passado)"
    rf"|(?P<next>next |nächsten? |volgende )?(?P<weekday>{'|'.join(_WEEKDAYS)}))\b",
    re.IGNORECASE,
)


def relative_days(question: str, today: date) -> Iterator[tuple[date, date]]:
    """Yields first and last day of each relative expression; white space must be single spaces."""
    for _, _, first, last in relative_days_at(question, today):
        yield first, last


def relative_days_at(text: str, today: date) -> Iterator[tuple[int, int, date, date]]:
    """Yields begin and end in `text` of each relative expression, and its first and last day."""
    for match in _FROM_NOW.finditer(text):
        try:
            first, last = _days(match, today)
        except (ValueError, OverflowError):
            continue  # a day before the year 1
        yield match.start(), match.end(), first, last


def _days(match: re.Match[str], today: date) -> tuple[date, date]:
    """Returns the days of a match."""
    if amount := match["n1"] or match["n2"]:
        number = _NUMBERS.get(amount.lower()) or int(amount)
        unit = _UNITS[(match["u1"] or match["u2"]).lower()]
        return _ago(number, unit, today, is_exact=bool(match["that1"] or match["that2"]))
    if match["weekday"]:
        back = (today.weekday() - _WEEKDAYS[match["weekday"].lower()]) % _WEEK
        if match["next"]:
            then = today + _DAY * (_WEEK - back)
        else:
            then = today - _DAY * (back or _WEEK * _is_last(match))
        return then, then
    if match["weekend"]:
        since = (today.weekday() - _SATURDAY) % _WEEK
        begin = today - _DAY * since
        if since <= 1 and not match["this"]:
            begin -= _DAY * _WEEK
        if since > 1 and match["this"]:
            begin += _DAY * _WEEK
        return begin, begin + _DAY
    return _fixed(match, today)


def _fixed(match: re.Match[str], today: date) -> tuple[date, date]:
    """Returns the days of an expression without a number and a weekday."""
    if match["week"]:
        return today - _DAY * _WEEK, today - _DAY
    if match["present"]:
        return today - _DAY * today.weekday(), today
    if match["month"]:
        last = today.replace(day=1) - _DAY
        return last.replace(day=1), last
    if match["year"]:
        return date(today.year - 1, 1, 1), date(today.year - 1, _DECEMBER, 31)
    then = today - _DAY * (2 if match["two"] else 1 if match["yesterday"] else 0)
    return then, then


def _is_last(match: re.Match[str]) -> bool:
    """Returns whether the words around a weekday mark it as past."""
    context = match.string[max(0, match.start() - 14) : match.end() + 10].lower()
    return any(word in context for word in ("last ", "letzt", "vorig", "pas", "derni", "scors"))


def _ago(number: int, unit: str, today: date, *, is_exact: bool) -> tuple[date, date]:
    """Returns the days of `number` units ago: weeks 7 days wide, months and years as a whole month.

    With `is_exact` it is a single day.
    """
    if unit in {"day", "week"}:
        then = today - _DAY * min(number * (1 if unit == "day" else _WEEK), _MAX_DAYS)
        wide = 0 if is_exact or unit == "day" else 3
        return then - _DAY * wide, then + _DAY * wide
    months = today.year * _DECEMBER + today.month - 1
    months -= number * (1 if unit == "month" else _DECEMBER)
    year, month = divmod(months, _DECEMBER)
    first = date(year, month + 1, 1)
    last = (first + _DAY * 31).replace(day=1) - _DAY
    if is_exact:
        then = first.replace(day=min(today.day, last.day))
        return then, then
    return first, last
