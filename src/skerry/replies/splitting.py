"""Splits a text into parts that a platform accepts (pure)."""

from skerry.model.outbound import TextUnit
from skerry.replies.split_points import START, Break, PartRoom, TextPiece, cut, fits, opening


def text_pieces(text: str, limit: int, unit: TextUnit = TextUnit.CHARACTERS) -> list[TextPiece]:
    """Returns pieces of at most `limit` units, whose joined bodies are `text`.

    Cuts after the last line end in reach, else after the last space, else between two visible
    characters; inside a character only if it is longer than the limit. Fenced code is closed, and
    opened again with the same info string.
    """
    room = PartRoom(limit, unit, kinds=(Break.NEWLINE, Break.SPACE))
    parts: list[TextPiece] = []
    state = START
    while not fits(text, state, room):
        part, state = cut(text, state, room)
        parts.append(part)
        text = text[len(part.body) :]
    return [*parts, TextPiece(text, opening(state, room))]


def split(text: str, limit: int, unit: TextUnit = TextUnit.CHARACTERS) -> list[str]:
    """Returns the texts of `text_pieces` without blank ones, which platforms refuse."""
    return [part.text for part in text_pieces(text, limit, unit) if part.body.strip()]
