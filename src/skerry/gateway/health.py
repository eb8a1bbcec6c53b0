"""Health of the gateway."""

from skerry.gateway.frames import Json


class Health:
    """Failing parts, and the last full report. `version` increases with each change.

    The application marks parts with `fail("draining")`; during its construction `starting` answers.
    """

    def __init__(self) -> None:
        self.failing: list[str] = []
        """Failing parts, in the order in which they were reported."""
        self.version = 1
        self.report: dict[str, Json] = {}

    @property
    def ready(self) -> bool:
        """Returns True while no part fails."""
        return not self.failing

    def fail(self, part: str) -> None:
        """Marks a part as failing, such as `draining`; clients are refused then."""
        self.failing.append(part)
        self.version += 1

    def update(self, report: dict[str, Json]) -> None:
        """Stores the latest report."""
        self.report = report
        self.version += 1
