"""All SQL about jobs; a job processes an accepted text until it is searchable or has failed."""

from dataclasses import dataclass
from typing import Final

from skerry_relayer.database import Row, Unit
from skerry_relayer.ports import Job

_JOB: Final = "job_id, status, owner, namespace, blob_id, error"
_WAITING: Final = (
    "job_id, owner, account_id, namespace, blob_id, importance, agent_id, tag, generation, wrapped,"
    " sealed, created_at"
)
_OPEN: Final = "status IN ('pending', 'running', 'uploaded')"


@dataclass(frozen=True, slots=True)
class Waiting:
    """One accepted text, sealed to the queue key. Its memory gets the id of the job."""

    id: str
    owner: str
    account_id: str
    namespace: str
    blob_id: str | None
    """Blob that may have been written before a crash."""
    importance: float
    agent_id: str | None
    tag: str
    generation: int
    wrapped: bytes
    sealed: bytes
    created_at: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Node that runs a job, and the time until which it holds the job exclusively."""

    node: str
    until: int


def insert(unit: Unit, job: Waiting, key: str | None, fingerprint: str, hold: Hold) -> None:
    """Inserts the job of an accepted text."""
    unit.execute(
        "INSERT INTO job (job_id, owner, account_id, namespace, status, importance, agent_id, tag,"
        " idempotency_key, fingerprint, generation, wrapped, sealed, created_at, updated_at,"
        " holder, held_until) VALUES (?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            job.id,
            job.owner,
            job.account_id,
            job.namespace,
            job.importance,
            job.agent_id,
            job.tag,
            key,
            fingerprint,
            job.generation,
            job.wrapped,
            job.sealed,
            job.created_at,
            job.created_at,
            hold.node,
            hold.until,
        ),
    )


def by_key(unit: Unit, owner: str, key: str) -> tuple[Job, str] | None:
    """Returns the owner's job with this idempotency key and the fingerprint of its request."""
    row = unit.first_row(
        f"SELECT {_JOB}, fingerprint FROM job WHERE owner = ? AND idempotency_key = ?",  # noqa: S608 - constants
        (owner, key),
    )
    return None if row is None else (Job(*row[:-1]), str(row[-1]))


def restart(unit: Unit, job: Waiting, hold: Hold) -> None:
    """Restarts a failed job with a text that was sealed for its id."""
    unit.execute(
        "UPDATE job SET status = 'pending', error = NULL, blob_id = NULL, generation = ?,"
        " wrapped = ?, sealed = ?, tag = ?, created_at = ?, updated_at = ?, holder = ?,"
        " held_until = ? WHERE job_id = ?",
        (
            job.generation,
            job.wrapped,
            job.sealed,
            job.tag,
            job.created_at,
            job.created_at,
            hold.node,
            hold.until,
            job.id,
        ),
    )


def of_owner(unit: Unit, owner: str, job_id: str) -> Job | None:
    """Returns an owner's job."""
    row = unit.first_row(
        f"SELECT {_JOB} FROM job WHERE owner = ? AND job_id = ?",  # noqa: S608 - constants
        (owner, job_id),
    )
    return None if row is None else Job(*row)


def release_all(unit: Unit) -> None:
    """Releases all jobs: their holders were earlier processes of the only node."""
    unit.execute(f"UPDATE job SET held_until = 0 WHERE {_OPEN}")  # noqa: S608 - constants


def hold_longer(unit: Unit, hold: Hold) -> None:
    """Extends the hold of a node's jobs."""
    unit.execute(
        f"UPDATE job SET held_until = ? WHERE holder = ? AND {_OPEN}",  # noqa: S608 - constants
        (hold.until, hold.node),
    )


def claim(unit: Unit, hold: Hold, now: int, limit: int) -> list[Waiting]:
    """Claims unfinished jobs without a holder, oldest first; returns them."""
    rows = unit.all(
        f"SELECT {_WAITING} FROM job WHERE {_OPEN} AND held_until < ?"  # noqa: S608 - constants
        " ORDER BY created_at, job_id LIMIT ?",
        (now, limit),
    )
    jobs = []
    for row in rows:
        changed = unit.execute(
            "UPDATE job SET holder = ?, held_until = ?"  # noqa: S608 - constants
            f" WHERE job_id = ? AND held_until < ? AND {_OPEN}",
            (hold.node, hold.until, row[0], now),
        )
        if changed:
            jobs.append(Waiting(*row))
    return jobs


def will_write(unit: Unit, job_id: str, blob_id: str, now: int) -> bool:
    """Records the blob that will be written; returns False if the job is no longer open."""
    changed = unit.execute(
        "UPDATE job SET blob_id = ?, status = 'running', updated_at = ?"  # noqa: S608 - constants
        f" WHERE job_id = ? AND {_OPEN}",
        (blob_id, now, job_id),
    )
    return bool(changed)


def finish(unit: Unit, job_id: str, memory_id: str, blob_id: str, now: int) -> bool:
    """Marks a job as done and destroys its sealed text; returns False when it is not open."""
    changed = unit.execute(
        "UPDATE job SET status = 'done', memory_id = ?, blob_id = ?, error = NULL, wrapped = NULL,"  # noqa: S608 - constants
        f" sealed = NULL, updated_at = ? WHERE job_id = ? AND {_OPEN}",
        (memory_id, blob_id, now, job_id),
    )
    return bool(changed)


def fail(unit: Unit, job_id: str, error: str, now: int) -> None:
    """Marks an open job as failed and destroys its sealed text."""
    unit.execute(
        "UPDATE job SET status = 'failed', error = ?, blob_id = NULL, wrapped = NULL,"  # noqa: S608 - constants
        f" sealed = NULL, updated_at = ? WHERE job_id = ? AND {_OPEN}",
        (error, now, job_id),
    )


def forget(unit: Unit, owner: str, namespace: str) -> list[Row]:
    """Deletes the jobs of a namespace; returns id and recorded blob of the unfinished jobs."""
    rows = unit.all(
        "SELECT job_id, blob_id FROM job"  # noqa: S608 - constants
        f" WHERE owner = ? AND namespace = ? AND {_OPEN}",
        (owner, namespace),
    )
    unit.execute("DELETE FROM job WHERE owner = ? AND namespace = ?", (owner, namespace))
    return rows


def forget_ids(
    unit: Unit, owner: str, ids: list[str], namespaces: frozenset[str] | None
) -> list[Row]:
    """Deletes open jobs with these ids; returns id and recorded blob of each.

    With `namespaces`, only jobs of these namespaces are deleted.
    """
    rows = []
    for job_id in ids:
        row = unit.first_row(
            "SELECT job_id, blob_id, namespace FROM job"  # noqa: S608 - constants
            f" WHERE owner = ? AND job_id = ? AND {_OPEN}",
            (owner, job_id),
        )
        if row is not None and (namespaces is None or row[2] in namespaces):
            unit.execute("DELETE FROM job WHERE owner = ? AND job_id = ?", (owner, job_id))
            rows.append(row[:2])
    return rows


def clear_before(unit: Unit, before: int) -> None:
    """Deletes finished jobs that ended before a time."""
    unit.execute("DELETE FROM job WHERE status IN ('done', 'failed') AND updated_at < ?", (before,))
