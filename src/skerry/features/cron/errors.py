"""Errors of schedules and jobs."""

from skerry.model.errors import RequestError


class ScheduleError(RequestError):
    """A schedule cannot be used."""

    code = "cron.schedule"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


class JobNotFoundError(RequestError):
    """No job has the id."""

    code = "cron.unknown_job"
    remedy = "`skerry cron list` shows the jobs with their ids."

    def __init__(self, job_id: str) -> None:
        super().__init__(f"There is no cron job {job_id!r}.")
        self.job_id = job_id


class JobError(RequestError):
    """A job cannot be used as it is described."""

    code = "cron.job"

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy
