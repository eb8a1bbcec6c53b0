"""Vectors as memories are compared by: of one model, calibrated where there are numbers for it.

Whoever embeds a text for a memory uses these rules, so that a relevance means the same everywhere.
"""

from typing import Final

from skerry_recall.calibrate import calibration_of, relevance
from skerry_recall.calibration_files import VERSION, has_calibration
from skerry_recall.embed import Kind
from skerry_recall.numbers import Floats

MOST_CHARACTERS: Final = 8192
"""Characters of a text that are embedded. The model takes seconds of CPU for so many; a text of a
mebibyte would take minutes, in which nobody else finds anything."""
MOST_QUESTION: Final = 2048
"""Characters of a question that are embedded."""


def space_of(model: str) -> str:
    """Returns the space of a model's vectors: its name and the number of its calibration."""
    return f"{model}#{VERSION if has_calibration(model) else 0}"


def model_of(space: str) -> str:
    """Returns the model whose vectors a space has."""
    return space.rpartition("#")[0]


def role_of(model: str, kind: Kind) -> Kind:
    """Returns the role in which a text is embedded: a calibrated model has one role for all."""
    return Kind.QUERY if has_calibration(model) else kind


def cut(text: str, kind: Kind) -> str:
    """Returns the part of a text that is embedded."""
    return text[: MOST_QUESTION if kind is Kind.QUERY else MOST_CHARACTERS]


def calibrated(model: str, rows: Floats) -> Floats:
    """Returns the rows of a model calibrated; as they are where there are no numbers for it."""
    if not has_calibration(model):
        return rows
    calibration = calibration_of(model)
    return rows if calibration is None else calibration.vectors(rows)


def relevance_of(model: str, cosine: float) -> float:
    """Returns the relevance of a cosine of two vectors of a model, at most 1."""
    if not has_calibration(model):
        return cosine
    return relevance(cosine)
