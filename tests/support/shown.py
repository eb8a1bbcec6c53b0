"""Shows that a property finds a defect: in the very examples in which it is run, and no others."""

from hypothesis import Phase, settings


def shown(runs: settings) -> settings:
    """Returns the settings of a run for one in which a defect is planted.

    Where examples are taken the same each time they follow from the function that plays them, so
    that one function must play both. What is found is not made smaller: nobody reads it.
    """
    return settings(runs, database=None, phases=[Phase.explicit, Phase.generate])
