"""Whether the gateway can do its work."""

from skerry.gateway.frames import Json


class Health:
    """Which parts are not ready, and the last full report. `version` grows with every change.

    The application names what is not ready, `fail("draining")`; before it is there at all,
    `starting` answers.
    """

    def __init__(self, *failing: str) -> None:
        self._failing = dict.fromkeys(failing)
        self.version = 1
        self.report: dict[str, Json] = {}

    @property
    def ready(self) -> bool:
        """Whether nothing fails."""
        return not self._failing

    @property
    def failing(self) -> list[str]:
        """What is not ready, in the order in which that was said."""
        return list(self._failing)

    def fail(self, part: str) -> None:
        """Say that a part is not ready."""
        self._failing[part] = None
        self.version += 1

    def recover(self, part: str) -> None:
        """Say that a part is ready."""
        self._failing.pop(part, None)
        self.version += 1

    def update(self, report: dict[str, Json]) -> None:
        """Keep the latest report."""
        self.report = report
        self.version += 1
