"""Names with a similar spelling, for messages about a mistyped name."""

from collections.abc import Iterable


def spelt_like(
    name: str, names: Iterable[str], *, limit: int = 1, cutoff: float = 0.6
) -> list[str]:
    """Returns at most `limit` names whose similarity to `name`, 0 to 1, is at least `cutoff`."""
    from difflib import get_close_matches  # noqa: PLC0415 - 0.2 MB, for a mistyped name only

    return get_close_matches(name, list(names), n=limit, cutoff=cutoff)
