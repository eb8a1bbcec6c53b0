"""Rules of the vectors of memories: limits of texts, roles, calibration, relevance.

All code that embeds a text for a memory uses them, so that relevances are comparable.
"""

from typing import Final

from skerry_recall.calibrate import calibration_of, relevance
from skerry_recall.calibration_files import VERSION, has_calibration
from skerry_recall.embed import Kind
from skerry_recall.numbers import Floats

MAX_PASSAGE_CHARACTERS: Final = 8192
"""Characters of a text that are embedded. They take the model seconds of CPU; a text of a mebibyte
would take minutes, during which every search waits."""
MAX_QUESTION_CHARACTERS: Final = 2048
"""Characters of a question that are embedded."""


def space_of(model: str) -> str:
    """Returns the space of a model's vectors: its name and the version of its calibration."""
    return f"{model}#{VERSION if has_calibration(model) else 0}"


def model_of(space: str) -> str:
    """Returns the model of a space."""
    return space.rpartition("#")[0]


def role_of(model: str, kind: Kind) -> Kind:
    """Returns the role in which a text is embedded: a calibrated model uses one role for all."""
    return Kind.QUERY if has_calibration(model) else kind


def cut(text: str, kind: Kind) -> str:
    """Returns the part of a text that is embedded."""
    return text[: MAX_QUESTION_CHARACTERS if kind is Kind.QUERY else MAX_PASSAGE_CHARACTERS]


def calibrated(model: str, rows: Floats) -> Floats:
    """Returns the calibrated rows of a model; unchanged if it has no calibration."""
    if not has_calibration(model):
        return rows
    calibration = calibration_of(model)
    return rows if calibration is None else calibration.vectors(rows)


def relevance_of(model: str, cosine: float) -> float:
    """Returns the relevance of a cosine of two vectors of a model, at most 1."""
    if not has_calibration(model):
        return cosine
    return relevance(cosine)
