"""Division of texts into requests that a model accepts, and the joining of their results (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skerry_recall.embed import normalised
from skerry_recall.numbers import Floats, np


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of a model."""

    text_tokens: int
    """Tokens of one text; a longer one is cut into pieces."""
    request_tokens: int = 8000
    """Tokens of all texts of one request; at least that of one text."""
    request_texts: int = 100


@dataclass(frozen=True, slots=True)
class ModelText:
    """A text, or as much of it as the model takes."""

    text: str
    owner: int
    """Index of its text, from 0."""


def tokens(text: str) -> int:
    """Returns how many tokens a text has at most: one for two ASCII characters, two for any other.

    English prose has a quarter of its characters, Chinese about one a character, code lies between;
    only dense data such as base64 has more than this says.
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return plain // 2 + 2 * (len(text) - plain) + 1


def pieces(texts: Sequence[str], limit: int) -> list[ModelText]:
    """Returns the texts in pieces of at most `limit` tokens, above 8; a short text is one piece.

    What no model can read, NUL and halves of surrogate pairs, is a space or a question mark.
    """
    return [
        ModelText(piece, owner)
        for owner, text in enumerate(texts)
        for piece in _cut(_readable(text), limit)
    ]


def requests(all_pieces: Sequence[ModelText], limits: ModelLimits) -> Iterator[list[ModelText]]:
    """Yields the pieces, in their order, in as few requests as the limits allow."""
    request: list[ModelText] = []
    size = 0
    for piece in all_pieces:
        more = tokens(piece.text)
        full = len(request) >= limits.request_texts or size + more > limits.request_tokens
        if request and full:
            yield request
            request, size = [], 0
        request.append(piece)
        size += more
    if request:
        yield request


def joined(vectors: Floats, all_pieces: Sequence[ModelText], texts: int) -> Floats:
    """Returns one vector a text: the mean of its pieces' vectors, by their lengths, normalised."""
    if len(all_pieces) == texts:
        return vectors
    sums = np.zeros((texts, vectors.shape[1]), np.float32)
    weights = np.array([[max(len(piece.text), 1)] for piece in all_pieces], np.float32)
    np.add.at(sums, [piece.owner for piece in all_pieces], vectors * weights)
    return normalised(sums)


def of_size(rows: Sequence[Floats | None], dims: int | None) -> Floats:
    """Returns the rows as a matrix; one of another size, or none, is all zeros."""
    matrix = np.zeros((len(rows), dims or 0), np.float32)
    for into, row in zip(matrix, rows, strict=True):
        if row is not None and len(row) == dims:
            into[:] = row
    return matrix


def answered(
    rows: Sequence[Floats | None],
    all_pieces: Sequence[ModelText],
    texts: int,
    dims: int | None,
) -> dict[int, Floats]:
    """Returns the vectors of the texts all of whose pieces were answered, by place."""
    lacking = {piece.owner for piece, row in zip(all_pieces, rows, strict=True) if row is None}
    if len(lacking) == texts:
        return {}
    vectors = joined(of_size(rows, dims), all_pieces, texts)
    return {row_number: row for row_number, row in enumerate(vectors) if row_number not in lacking}


def _readable(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", " ")


def _cut(text: str, limit: int) -> Iterator[str]:
    if tokens(text) <= limit:
        yield text
        return
    width = 2 * (limit - 1) if text.isascii() else (limit - 1) // 2
    begin = 0
    while begin < len(text):
        end = begin + width
        if end < len(text):
            space = text.rfind(" ", begin + width // 2, end)
            end = end if space < 0 else space + 1
        yield text[begin:end]
        begin = end
