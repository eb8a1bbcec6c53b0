"""Health of the gateway."""

from skerry.gateway.frames import Json


class Health:
    """Failing parts, and the last full report. `version` increases with every change.

    The application names the failing parts, as `fail("draining")`; before it is built, `starting`
    answers.
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
        """Marks a part as failing, such as `draining`: no client is admitted."""
        self.failing.append(part)
        self.version += 1

    def update(self, report: dict[str, Json]) -> None:
        """Stores the latest report."""
        self.report = report
        self.version += 1
