"""Division of texts into requests that a model accepts, and the joining of their results (pure)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from skerry_recall.embed import normalised
from skerry_recall.numbers import Floats, np


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """Limits of a model."""

    text_tokens: int
    """Tokens of one text; a longer one is split."""
    request_tokens: int = 8000
    """Tokens of all texts of one request; at least `text_tokens`."""
    request_texts: int = 100
    """Texts of one request."""


@dataclass(frozen=True, slots=True)
class ModelText:
    """A text, or a part of it within the limit of the model."""

    text: str
    owner: int
    """Index of its text, from 0."""


def tokens(text: str) -> int:
    """Returns an upper estimate of a text's tokens: one per two ASCII characters, else two per one.

    English prose has about one token for four characters, Chinese one for each, code between both.
    Only dense data such as base64 has more than the estimate.
    """
    plain = len(text) if text.isascii() else len(text.encode("ascii", "ignore"))
    return plain // 2 + 2 * (len(text) - plain) + 1


def split(texts: Sequence[str], limit: int) -> list[ModelText]:
    """Returns the texts in parts of at most `limit` tokens, above 8; a short text is one part.

    NUL becomes a space, and half of a surrogate pair a question mark: models cannot read them.
    """
    return [
        ModelText(part, owner)
        for owner, text in enumerate(texts)
        for part in _cut(_readable(text), limit)
    ]


def requests(parts: Sequence[ModelText], limits: ModelLimits) -> Iterator[list[ModelText]]:
    """Yields the parts, in their order, in as few requests as the limits allow."""
    request: list[ModelText] = []
    size = 0
    for part in parts:
        count = tokens(part.text)
        full = len(request) >= limits.request_texts or size + count > limits.request_tokens
        if request and full:
            yield request
            request, size = [], 0
        request.append(part)
        size += count
    if request:
        yield request


def joined(vectors: Floats, parts: Sequence[ModelText], texts: int) -> Floats:
    """Returns one vector per text: the mean of its parts' vectors by their lengths, normalised."""
    if len(parts) == texts:
        return vectors
    sums = np.zeros((texts, vectors.shape[1]), np.float32)
    weights = np.array([[max(len(part.text), 1)] for part in parts], np.float32)
    np.add.at(sums, [part.owner for part in parts], vectors * weights)
    return normalised(sums)


def of_size(rows: Sequence[Floats | None], dims: int | None) -> Floats:
    """Returns the rows as a matrix; a missing row, or one of another size, is all zeros."""
    matrix = np.zeros((len(rows), dims or 0), np.float32)
    for into, row in zip(matrix, rows, strict=True):
        if row is not None and len(row) == dims:
            into[:] = row
    return matrix


def answered(
    rows: Sequence[Floats | None],
    parts: Sequence[ModelText],
    texts: int,
    dims: int | None,
) -> dict[int, Floats]:
    """Returns the vectors of the texts whose parts all have a row, by the index of the text."""
    missing = {part.owner for part, row in zip(parts, rows, strict=True) if row is None}
    if len(missing) == texts:
        return {}
    vectors = joined(of_size(rows, dims), parts, texts)
    return {index: row for index, row in enumerate(vectors) if index not in missing}


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
