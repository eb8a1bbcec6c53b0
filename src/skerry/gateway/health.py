"""Health of the gateway."""

from skerry.gateway.frames import Json


class Health:
    """Failing parts, and the last full report. `version` increases with every change.

    The application names what is not ready, `fail("draining")`; before it is there at all,
    `starting` answers.
    """

    def __init__(self) -> None:
        self.failing: list[str] = []
        """Failing parts, in the order in which they were reported."""
        self.version = 1
        self.report: dict[str, Json] = {}

    @property
    def ready(self) -> bool:
        """Returns whether nothing fails."""
        return not self.failing

    def fail(self, part: str) -> None:
        """Says that a part takes no more work, such as `draining`: no client is let in."""
        self.failing.append(part)
        self.version += 1

    def update(self, report: dict[str, Json]) -> None:
        """Keeps the latest report."""
        self.report = report
        self.version += 1
