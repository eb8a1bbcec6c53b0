"""Errors of schedules and jobs."""

from skerry.model.errors import RequestError


class ScheduleError(RequestError):
    """A schedule is not valid."""

    code = "cron.schedule"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class JobNotFoundError(RequestError):
    """No job has the id."""

    code = "cron.unknown_job"
    remedy = "List the jobs with their ids: skerry cron list"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"Unknown cron job {job_id!r}.")
        self.job_id = job_id


class JobRunningError(RequestError):
    """A run of the job is active; a job has no second run at the same time."""

    code = "cron.already_running"
    remedy = "Wait for its end: skerry cron runs"

    def __init__(self, job_id: str) -> None:
        super().__init__(f"The cron job {job_id!r} is running.")


class JobError(RequestError):
    """The description of a job is not valid."""

    code = "cron.job"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy
