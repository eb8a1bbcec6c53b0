"""Errors of the lowest layer, which knows nothing of the system's words."""


class EscapeError(Exception):
    """A path leaves its directory, or is not the plain file it must be."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path!r}: {reason}")
