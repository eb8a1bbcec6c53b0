"""Draws recall against budget as SVG: one line per profile."""

from collections.abc import Mapping
from html import escape
from math import log2
from typing import Final

from skerry.features.memory.bench.sets import BUDGETS

_WIDTH: Final = 640
_HEIGHT: Final = 360
_MARGIN_LEFT: Final = 56
_MARGIN_RIGHT: Final = 110
_MARGIN_TOP: Final = 40
_MARGIN_BOTTOM: Final = 48
_COLOURS: Final = ("#0b7285", "#e8590c", "#5f3dc4", "#868e96", "#2b8a3e")


def curves(table: Mapping[str, Mapping[str, float]], title: str) -> str:
    """Returns an SVG of `chunking.recall@N` against N, the number of characters returned.

    A table without these figures gives the axes only.
    """
    names = {budget: f"chunking.recall@{budget}" for budget in BUDGETS}
    lines = {
        profile: [(budget, figures[name]) for budget, name in names.items() if name in figures]
        for profile, figures in table.items()
    }
    body = [_text(_MARGIN_LEFT, _MARGIN_TOP - 16, title, size=14), *_axes()]
    for colour, (profile, points) in zip(_COLOURS, lines.items(), strict=False):
        if points:
            body += _line(profile, [(_x(at), _y(value)) for at, value in points], colour)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
        ' font-family="sans-serif" font-size="11">\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>\n'
        + "\n".join(body)
        + "\n</svg>\n"
    )


def _axes() -> list[str]:
    right, bottom = _WIDTH - _MARGIN_RIGHT, _HEIGHT - _MARGIN_BOTTOM
    lines = []
    for value in range(0, 101, 20):
        y = _y(value)
        lines.append(f'<path d="M{_MARGIN_LEFT} {y:.1f}H{right}" stroke="#dee2e6"/>')
        lines.append(_text(_MARGIN_LEFT - 8, y + 4, f"{value} %", anchor="end"))
    lines += [_text(_x(at), bottom + 18, f"{at:,}", anchor="middle") for at in BUDGETS]
    lines.append(
        _text((_MARGIN_LEFT + right) / 2, bottom + 36, "characters returned", anchor="middle")
    )
    return lines


def _line(profile: str, points: list[tuple[float, float]], colour: str) -> list[str]:
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    x, y = points[-1]
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
    return [
        f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
        *dots,
        _text(x + 8, y + 4, f"{profile}", fill=colour),
    ]


def _x(at: int) -> float:
    share = log2(at / BUDGETS[0]) / log2(BUDGETS[-1] / BUDGETS[0])
    return _MARGIN_LEFT + 8 + share * (_WIDTH - _MARGIN_LEFT - _MARGIN_RIGHT - 16)


def _y(value: float) -> float:
    return _HEIGHT - _MARGIN_BOTTOM - value / 100 * (_HEIGHT - _MARGIN_TOP - _MARGIN_BOTTOM)


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 11, fill: str = "#343a40"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}"'
        f' fill="{fill}">{escape(text)}</text>'
    )
