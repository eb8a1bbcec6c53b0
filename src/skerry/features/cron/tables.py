"""The tables of cron: jobs, and one row for each run, unique by job and due time.

A gateway imports them at every start, so bodies are bytes here: `job_records` converts them to
values.
"""

from collections.abc import Callable, Collection

from skerry.store.unit import Reader, Unit, marks

Write = Callable[[Unit], object]

STEPS: tuple[str, ...] = (
    """
    CREATE TABLE cron_job (
        job_id TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        next_at INTEGER,
        body BLOB NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX cron_job_next ON cron_job (next_at) WHERE next_at IS NOT NULL;
    CREATE TABLE cron_run (
        job_id TEXT NOT NULL,
        due_at INTEGER NOT NULL,
        agent TEXT NOT NULL,
        run_id TEXT NOT NULL,
        how TEXT NOT NULL,
        claimed_at INTEGER NOT NULL,
        ended_at INTEGER,
        post TEXT,
        attempts INTEGER NOT NULL,
        retry_at INTEGER NOT NULL,
        body BLOB,
        PRIMARY KEY (job_id, due_at)
    ) WITHOUT ROWID;
    CREATE INDEX cron_run_ended ON cron_run (ended_at) WHERE ended_at IS NOT NULL;
    CREATE INDEX cron_run_open ON cron_run (claimed_at) WHERE ended_at IS NULL;
    CREATE INDEX cron_run_post ON cron_run (retry_at) WHERE post IS NOT NULL
    """,
)
KEPT: tuple[str, ...] = ("cron_run",)
"""Tables whose newer rows stay when a backup is restored: a claimed time is not run again."""
TEXTS = (
    (
        ("cron_job", ("job_id",), ("body",), "agent = ?"),
        (("name", "description", "text", "message"), ()),
    ),
    (
        ("cron_run", ("job_id", "due_at"), ("body",), "agent = ?"),
        (("summary", "error", "deliveryError"), ()),
    ),
)
"""Columns with text of people, which an erasure searches (`store.forgetting_tables`)."""


def any_work(reader: Reader) -> bool:
    """Returns true when a job, an open run or a webhook to post exists."""
    row = reader.one(
        "SELECT 1 FROM cron_job UNION ALL SELECT 1 FROM cron_run WHERE ended_at IS NULL"
        " UNION ALL SELECT 1 FROM cron_run WHERE post IS NOT NULL LIMIT 1"
    )
    return row is not None


def put(unit: Unit, job_id: str, agent: str, next_at: int | None, body: bytes) -> None:
    """Stores a job; `next_at` is None while it is switched off or running."""
    unit.execute(
        "INSERT INTO cron_job (job_id, agent, next_at, body) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (job_id) DO UPDATE SET agent = excluded.agent,"
        " next_at = excluded.next_at, body = excluded.body",
        (job_id, agent, next_at, body),
    )


def get(reader: Reader, job_id: str) -> bytes | None:
    """Returns the job with the id, or None."""
    row = reader.one("SELECT body FROM cron_job WHERE job_id = ?", (job_id,))
    return bytes(row[0]) if row else None


def remove(unit: Unit, job_id: str) -> bool:
    """Deletes a job; returns true when it existed. Its runs remain in the log."""
    return bool(unit.execute("DELETE FROM cron_job WHERE job_id = ?", (job_id,)))


def jobs(reader: Reader) -> list[tuple[str, bytes]]:
    """Returns the ids and bodies of all jobs, ordered by id."""
    rows = reader.all("SELECT job_id, body FROM cron_job ORDER BY job_id")
    return [(str(job_id), bytes(body)) for job_id, body in rows]


def count(reader: Reader) -> int:
    """Returns the number of jobs."""
    row = reader.one("SELECT count(*) FROM cron_job")
    return int(row[0]) if row else 0


def next_at(reader: Reader, excluded: Collection[str] = ()) -> int | None:
    """Returns the time of the next run of any job except the excluded ones."""
    names = tuple(excluded) or ("",)
    row = reader.one(
        "SELECT min(next_at) FROM cron_job WHERE next_at IS NOT NULL"  # noqa: S608 - placeholders
        f" AND job_id NOT IN ({marks(names)})",
        names,
    )
    return row[0] if row else None


def next_after(reader: Reader, now: int) -> int | None:
    """Returns the first time after `now` at which any job runs."""
    row = reader.one("SELECT min(next_at) FROM cron_job WHERE next_at > ?", (now,))
    return row[0] if row else None


def due(
    reader: Reader, now: int, limit: int, excluded: Collection[str] = ()
) -> list[tuple[str, bytes]]:
    """Returns the ids and bodies of the due jobs, longest due first."""
    names = tuple(excluded) or ("",)
    rows = reader.all(
        "SELECT job_id, body FROM cron_job WHERE next_at IS NOT NULL AND next_at <= ?"  # noqa: S608 - placeholders
        f" AND job_id NOT IN ({marks(names)}) ORDER BY next_at, job_id LIMIT ?",
        (now, *names, limit),
    )
    return [(str(job_id), bytes(body)) for job_id, body in rows]


def claim(
    unit: Unit, job: tuple[str, str], due_at: int, run_id: str, trigger: str, now: int
) -> bool:
    """Claims the run of a job for a due time; returns false when it was claimed before.

    Args:
        unit: The unit that accepts the run.
        job: Its id and its agent.
        due_at: The time, in milliseconds since 1970.
        run_id: The run.
        trigger: `due`, `missed` or `manual`.
        now: Milliseconds since 1970.

    """
    return bool(
        unit.execute(
            "INSERT INTO cron_run (job_id, due_at, agent, run_id, how, claimed_at, ended_at, post,"
            " attempts, retry_at, body) VALUES (?, ?, ?, ?, ?, ?, NULL, NULL, 0, 0, NULL)"
            " ON CONFLICT (job_id, due_at) DO NOTHING",
            (*job[:1], due_at, job[1], run_id, trigger, now),
        )
    )


def is_claimed(reader: Reader, job_id: str, due_at: int) -> bool:
    """Returns true when the job's run for that time was claimed."""
    query = "SELECT 1 FROM cron_run WHERE job_id = ? AND due_at = ?"
    return reader.one(query, (job_id, due_at)) is not None


def end(unit: Unit, run: tuple[str, int], body: bytes, post: str | None, now: int) -> None:
    """Stores the end of an open run, given by job id and due time; `post` is a webhook to post."""
    unit.execute(
        "UPDATE cron_run SET ended_at = ?, body = ?, post = ?"
        " WHERE job_id = ? AND due_at = ? AND ended_at IS NULL",
        (now, body, post, *run),
    )


def posted(unit: Unit, run: tuple[str, int], body: bytes) -> None:
    """Stores an ended run, given by job id and due time, whose webhook needs no further post."""
    unit.execute(
        "UPDATE cron_run SET body = ?, post = NULL WHERE job_id = ? AND due_at = ?", (body, *run)
    )


def ended(reader: Reader, job_id: str, due_at: int) -> bytes | None:
    """Returns the ended run of a job for that time, or None."""
    row = reader.one(
        "SELECT body FROM cron_run WHERE job_id = ? AND due_at = ? AND ended_at IS NOT NULL",
        (job_id, due_at),
    )
    return bytes(row[0]) if row else None


def run_claim(reader: Reader, job_id: str, due_at: int) -> tuple[str, int] | None:
    """Returns the trigger of the run, and the time of its claim."""
    row = reader.one(
        "SELECT how, claimed_at FROM cron_run WHERE job_id = ? AND due_at = ?", (job_id, due_at)
    )
    return (str(row[0]), int(row[1])) if row else None


def entries(reader: Reader, job_id: str | None, limit: int) -> list[bytes]:
    """Returns the ended runs of a job, or of all, latest first."""
    if job_id is None:
        rows = reader.all(
            "SELECT body FROM cron_run WHERE ended_at IS NOT NULL"
            " ORDER BY ended_at DESC, job_id, due_at DESC LIMIT ?",
            (limit,),
        )
    else:
        rows = reader.all(
            "SELECT body FROM cron_run WHERE job_id = ? AND ended_at IS NOT NULL"
            " ORDER BY ended_at DESC, due_at DESC LIMIT ?",
            (job_id, limit),
        )
    return [bytes(body) for (body,) in rows]


def sessions_of_removed(reader: Reader, before: int, limit: int) -> list[tuple[str, str]]:
    """Returns ids and keys of sessions of removed jobs, unused since `before`, oldest first.

    Sessions that are pinned, or in which a person wrote, are not among them.
    """
    rows = reader.all(
        "SELECT session_id, key FROM session WHERE key LIKE 'agent:%:cron:%' AND updated_at < ?"
        " AND user_at = 0 AND pinned = FALSE"
        " AND key NOT IN (SELECT 'agent:' || agent || ':cron:' || job_id FROM cron_job)"
        " AND key NOT IN (SELECT session_key FROM run WHERE result IS NULL)"
        " ORDER BY updated_at, session_id LIMIT ?",
        (before, limit),
    )
    return [(str(session_id), str(key)) for session_id, key in rows]


def posts(reader: Reader) -> list[tuple[str, int, str, int, int, bytes]]:
    """Returns the webhooks to post: job, due time, address, attempts, time of the next, run."""
    rows = reader.all(
        "SELECT job_id, due_at, post, attempts, retry_at, body FROM cron_run"
        " WHERE post IS NOT NULL ORDER BY retry_at, job_id LIMIT 100"
    )
    return [
        (str(job_id), int(due_at), str(post), int(attempts), int(retry_at), bytes(body))
        for job_id, due_at, post, attempts, retry_at, body in rows
    ]


def put_off(unit: Unit, job_id: str, due_at: int, retry_at: int) -> None:
    """Stores the failed post of a webhook, and the time of the next attempt."""
    unit.execute(
        "UPDATE cron_run SET attempts = attempts + 1, retry_at = ? WHERE job_id = ? AND due_at = ?",
        (retry_at, job_id, due_at),
    )


def prune(unit: Unit, job_id: str, keep: int) -> None:
    """Deletes the oldest ended runs of a job, so that `keep` remain."""
    row = unit.one(
        "SELECT due_at FROM cron_run WHERE job_id = ? AND ended_at IS NOT NULL AND post IS NULL"
        " ORDER BY due_at DESC LIMIT 1 OFFSET ?",
        (job_id, keep),
    )
    if row is not None:
        unit.execute(
            "DELETE FROM cron_run WHERE job_id = ? AND due_at <= ? AND ended_at IS NOT NULL"
            " AND post IS NULL",
            (job_id, row[0]),
        )
