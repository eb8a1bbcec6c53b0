"""Remedies for a model call that failed."""

import math
from typing import Final

from skerry.model.errors import ModelError

_ANOTHER_MODEL: Final = "choose another model: skerry models use."
_WAIT: Final = f"Wait a while, or {_ANOTHER_MODEL}"
_STEPS: Final = {
    "model.rate_limit": _WAIT,
    "model.overloaded": _WAIT,
    "model.connection": "Check the address and the network; start the server if it is local.",
    "model.request": "Check the model's name, and the address and api of its provider.",
}


def step(error: ModelError) -> str:
    """Returns the next step for a person, or empty: `error.remedy`, else one by its code."""
    if not error.remedy and error.retry_after is not None:
        return f"Send it again in {math.ceil(error.retry_after)} s, or {_ANOTHER_MODEL}"
    return error.remedy or _STEPS.get(error.code, "")
