"""The examples of a property: as many as show its defect, and no others; more in `make explore`."""

import os
from typing import Final

from hypothesis import Phase, settings

EXPLORES: Final = os.environ.get("SKERRY_EXPLORE") == "1"
WIDER: Final = 10
"""Factor on the examples of each property in `make explore`."""
EXAMPLES: Final = 40
"""Examples of a property that says nothing else."""


def examples(number: int) -> int:
    """Returns the number of examples that a property needs to find its defect."""
    return number * WIDER if EXPLORES else number


def profile() -> settings:
    """Returns the settings of a property that has none of its own.

    A deadline in wall time would fail on a busy machine, an example that nobody saw before in
    somebody else's change: new ones, and more of them, are looked for by `make explore`.
    """
    return settings(deadline=None, derandomize=not EXPLORES, max_examples=examples(EXAMPLES))


def shown(runs: settings) -> settings:
    """Returns the settings of a run for one in which a defect is planted.

    Where examples are taken the same each time they follow from the function that plays them, so
    that one function must play both. What is found is not made smaller: nobody reads it.
    """
    return settings(runs, database=None, phases=[Phase.explicit, Phase.generate])
