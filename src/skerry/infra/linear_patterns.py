"""Configured regular expressions, searched in time linear in the text.

They run over untrusted text, so no pattern may block the gateway. RE2 does not backtrack, and so
has no back-references and no look-around.
"""

from typing import Final, Protocol

import re2

_MEMORY: Final = 1 << 20
"""Memory limit of one pattern, in bytes."""


class Searches(Protocol):
    """A compiled pattern of RE2 or `re`."""

    def search(self, text: str, /) -> object | None:
        """Returns a match, or None."""
        ...


def compiled(pattern: str) -> Searches:
    """Returns the compiled pattern, which ignores case.

    Raises:
        ValueError: RE2 does not support the pattern, or it needs too much memory.
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
