"""Computes the state of a job before and after a run (pure)."""

import logging
from typing import Final

from msgspec.structs import replace

from skerry.features.cron.errors import ScheduleError
from skerry.features.cron.jobs import At, Job, JobState, Status
from skerry.features.cron.schedule import next_time
from skerry.infra.backoff import Steps
from skerry.model.run import RunResult, StopReason

logger = logging.getLogger(__name__)

BACKOFF: Final = Steps((30, 60, 300, 900, 3600))
"""Delays in seconds after consecutive failures."""
MAX_FAILURES: Final = 10
"""Consecutive failures after which a recurring job is switched off."""
MAX_ONE_TIME_FAILURES: Final = 5
"""Consecutive failures after which a job of `at` is switched off."""
ERROR_CHARS: Final = 1_000


def outcome(result: RunResult | None) -> tuple[Status, str | None]:
    """Returns the status of a run, and its error."""
    if result is None:
        return "error", "The run is missing in the store."
    if result.stop_reason is StopReason.DONE and result.error is None:
        return "ok", None
    if result.error is not None:
        return "error", result.error.message[:ERROR_CHARS]
    by = f" by {result.aborted_by}" if result.aborted_by else ""
    return "error", f"The run ended without an answer: {result.stop_reason}{by}."


def final(result: RunResult | None) -> str:
    """Returns the reason why a run is not repeated, or an empty string.

    An interrupted run may have had an effect, and a person who stops a run wants no other.
    """
    match result.stop_reason if result is not None else None:
        case StopReason.INTERRUPTED:
            return "its run was interrupted and is not repeated"
        case StopReason.ABORTED:
            return "its run was stopped"
        case _:
            return ""


def claimed(job: Job, now: int) -> Job:
    """Returns the job in the state of a present run."""
    state = replace(job.state, running_at_ms=now, next_run_at_ms=scheduled_time(job, now))
    return replace(job, state=state)


def scheduled_time(job: Job, after: int) -> int | None:
    """Returns the next time of the schedule; None without one, or for an invalid schedule."""
    try:
        return next_time(job.schedule, job.id, job.created_at_ms, after)
    except ScheduleError as error:
        logger.warning("the cron job %s (%s) has no next time: %s", job.id, job.name, error)
        return None


def after_run(job: Job, now: int, status: Status, error: str | None, last: str = "") -> Job | None:
    """Returns the job after a run; None when it removes itself.

    Args:
        job: The job.
        now: Milliseconds since 1970.
        status: The status of the run.
        error: Its error, or None.
        last: Reason why the failed run of a one-time job is not repeated; empty to repeat it.

    """
    is_one_time = isinstance(job.schedule, At)
    following = scheduled_time(job, now)
    state = JobState(
        next_run_at_ms=following,
        last_run_at_ms=job.state.running_at_ms or now,
        last_status=status,
        last_error=error,
    )
    if status == "ok":
        if job.deletes_itself:
            return None
        return replace(job, state=state, enabled=job.enabled and following is not None)
    failures = job.state.consecutive_errors + 1
    retry_at = now + round(BACKOFF.delay(failures) * 1000)
    state = replace(
        state,
        consecutive_errors=failures,
        retry_at_ms=retry_at,
        next_run_at_ms=retry_at if following is None else max(following, retry_at),
    )
    reason = last if is_one_time else ""
    if not reason and failures < (MAX_ONE_TIME_FAILURES if is_one_time else MAX_FAILURES):
        return replace(job, state=state)
    reason = reason or in_a_row(state)
    state = replace(state, next_run_at_ms=None, retry_at_ms=None, off_reason=reason)
    return replace(job, state=state, enabled=False)


def in_a_row(state: JobState) -> str:
    """Returns the reason of a job that was switched off for its failures."""
    return f"{state.consecutive_errors} failures in a row"


def with_duration(job: Job, result: RunResult | None) -> Job:
    """Returns the job with the duration of its last run."""
    if result is None:
        return job
    duration = max(result.ended_at - result.started_at, 0)
    return replace(job, state=replace(job.state, last_duration_ms=duration))
