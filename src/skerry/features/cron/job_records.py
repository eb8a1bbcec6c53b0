"""Reads and writes the rows of jobs and runs as values."""

from collections.abc import Collection
from contextlib import suppress
from typing import Final

from msgspec import Struct

from skerry.features.cron import tables
from skerry.features.cron.jobs import Job, JobLogEntry, decode_entry, decode_job, encode
from skerry.infra.untrusted_json import UNREADABLE
from skerry.store import Reader, Unit

MAX_JOBS: Final = 10_000
"""Maximum number of jobs of a gateway."""


class JobPost(Struct, frozen=True):
    """A webhook that waits for the post of a run."""

    job_id: str
    due_at: int
    address: str
    attempts: int
    retry_at: int
    entry: JobLogEntry


def put(unit: Unit, job: Job) -> None:
    """Stores a job. The scheduler skips jobs that are switched off or running."""
    waits = job.enabled and job.state.running_at_ms is None
    tables.put(unit, job.id, job.agent_id, job.state.next_run_at_ms if waits else None, encode(job))


def get(reader: Reader, job_id: str) -> Job | None:
    """Returns the job with the id, or None."""
    body = tables.get(reader, job_id)
    return None if body is None else decode_job(body)


def jobs(reader: Reader) -> list[Job]:
    """Returns all readable jobs, ordered by id."""
    return [job for _, body in tables.jobs(reader) if (job := _readable(body)) is not None]


def due(
    reader: Reader, now: int, limit: int, excluded: Collection[str] = ()
) -> list[tuple[str, Job | None]]:
    """Returns the due jobs by id, longest due first; None for one that cannot be read."""
    rows = tables.due(reader, now, limit, excluded)
    return [(job_id, _readable(body)) for job_id, body in rows]


def _readable(body: bytes) -> Job | None:
    """Returns a job; None for damaged bytes, and for a job of a newer version."""
    try:
        return decode_job(body)
    except UNREADABLE:
        return None


def end(unit: Unit, due_at: int, entry: JobLogEntry, post: str | None = None) -> None:
    """Stores the end of an open run; `post` is the address of a webhook to post."""
    tables.end(unit, (entry.job_id, due_at), encode(entry), post, entry.ts)


def posted(unit: Unit, due_at: int, entry: JobLogEntry) -> None:
    """Stores an ended run whose webhook needs no further post."""
    tables.posted(unit, (entry.job_id, due_at), encode(entry))


def ended(reader: Reader, job_id: str, due_at: int) -> JobLogEntry | None:
    """Returns the ended run of a job for that time; None without one, and for damaged bytes."""
    body = tables.ended(reader, job_id, due_at)
    try:
        return None if body is None else decode_entry(body)
    except UNREADABLE:
        return None


def entries(reader: Reader, job_id: str | None, limit: int) -> list[JobLogEntry]:
    """Returns the readable ended runs of a job, or of all, latest first."""
    ended_runs = []
    for body in tables.entries(reader, job_id, limit):
        with suppress(*UNREADABLE):  # one damaged row must not hide the others
            ended_runs.append(decode_entry(body))
    return ended_runs


def posts(reader: Reader) -> list[JobPost]:
    """Returns the webhooks that wait for their post."""
    posts = []
    for row in tables.posts(reader):
        with suppress(*UNREADABLE):  # one unreadable run must not stop the posts of the others
            posts.append(JobPost(*row[:5], decode_entry(row[5])))
    return posts
