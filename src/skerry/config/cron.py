"""Section `cron`: runs that a schedule starts."""

from pydantic import Field

from skerry.config.base import OpenSection


class CronConfig(OpenSection):
    """Runs that a schedule starts."""

    max_concurrent_runs: int = Field(default=1, ge=1, le=100)
    """Scheduled runs at the same time; they do not count towards `agents.defaults`."""
