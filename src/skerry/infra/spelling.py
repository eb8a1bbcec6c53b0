"""Names that are spelt like a given one, for messages about a mistyped name."""

from collections.abc import Iterable


def spelt_like(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Returns up to `most` of the names whose similarity to `name`, 0 to 1, reaches `cutoff`."""
    from difflib import get_close_matches  # noqa: PLC0415 - 0.2 MB, for a mistyped name only

    return get_close_matches(name, list(names), n=most, cutoff=cutoff)
