"""Section `cron`: runs that a schedule starts."""

from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr

from skerry.config.base import OpenSection, Section
from skerry.config.session import SPAN, duration
from skerry.infra.clock import DAY_MS


class CronRunLogConfig(Section):
    """Log of the runs of scheduled jobs."""

    keep_lines: int = Field(default=2000, ge=1, le=100_000)
    """Number of ended runs that are kept for each job."""


class CronConfig(OpenSection):
    """Runs that a schedule starts."""

    enabled: bool = True
    """Starts jobs when they are due; `skerry cron run` works without it."""
    max_concurrent_runs: int = Field(default=1, ge=1, le=100)
    """Scheduled runs at the same time, in addition to `agents.defaults.maxConcurrent`."""
    session_retention: Annotated[int, BeforeValidator(duration), SPAN] = Field(
        default=DAY_MS, ge=60_000
    )
    """Time for which the conversations of earlier runs of a job are kept, such as `24h`."""
    run_log: CronRunLogConfig = CronRunLogConfig.model_construct()
    webhook_token: SecretStr | None = None
    """Token that is sent to the webhooks of jobs as `Authorization: Bearer`."""
