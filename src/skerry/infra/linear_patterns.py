"""Patterns that people configure, searched in a time that grows with the text alone.

The patterns of a configuration run over text of strangers, so none may take the gateway's time,
whatever its author wrote. RE2 has no backtracking, and so no back-references and no look-around.
"""

from typing import Final, Protocol

import re2

_MEMORY: Final = 1 << 20
"""Bytes that one pattern may take; more is refused."""


class Searches(Protocol):
    """A compiled pattern, of RE2 or of `re`."""

    def search(self, text: str, /) -> object | None:
        """Returns a match, or None."""
        ...


def compiled(pattern: str) -> Searches:
    """Returns a pattern that heeds no case.

    Raises:
        ValueError: RE2 does not take the pattern.
    """
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        searches: Searches = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        message = f"{pattern!r} is no pattern that RE2 takes: {reason}"
        raise ValueError(message) from error
    return searches
