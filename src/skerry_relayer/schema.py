"""Schema of the relayer's database; words in braces differ between the engines."""

from typing import Final

STEPS: Final = (
    """
    CREATE TABLE memory (
        memory_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        account_id TEXT NOT NULL,
        namespace TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        tag TEXT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        size BIGINT NOT NULL,
        importance DOUBLE PRECISION NOT NULL,
        agent_id TEXT,
        package_id TEXT,
        space TEXT NOT NULL,
        vector {vector} NOT NULL
    );
    CREATE UNIQUE INDEX memory_tag ON memory (owner, namespace, tag);
    CREATE INDEX memory_blob ON memory (owner, blob_id);
    CREATE INDEX memory_updated ON memory (owner, updated_at, memory_id);
    CREATE TABLE tally (
        owner TEXT NOT NULL,
        namespace TEXT NOT NULL,
        memories BIGINT NOT NULL,
        bytes BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        PRIMARY KEY (owner, namespace)
    );
    CREATE TABLE job (
        job_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        account_id TEXT NOT NULL,
        namespace TEXT NOT NULL,
        status TEXT NOT NULL,
        blob_id TEXT,
        memory_id TEXT,
        error TEXT,
        importance DOUBLE PRECISION NOT NULL,
        agent_id TEXT,
        tag TEXT,
        idempotency_key TEXT,
        fingerprint TEXT NOT NULL,
        generation BIGINT NOT NULL,
        wrapped {bytes},
        sealed {bytes},
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        holder TEXT,
        held_until BIGINT NOT NULL
    );
    CREATE UNIQUE INDEX job_idempotency ON job (owner, idempotency_key);
    CREATE INDEX job_open ON job (status, created_at);
    CREATE TABLE doomed (
        owner TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        PRIMARY KEY (owner, blob_id)
    );
    CREATE TABLE writing (
        owner TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        noted_at BIGINT NOT NULL,
        PRIMARY KEY (owner, blob_id)
    )
    """,
    """
    CREATE TABLE nonce (nonce_id TEXT PRIMARY KEY, kept_until BIGINT NOT NULL);
    CREATE INDEX nonce_until ON nonce (kept_until)
    """,
    """
    CREATE TABLE walrus_blob (
        owner TEXT NOT NULL,
        blob_id TEXT NOT NULL,
        walrus_id TEXT NOT NULL,
        end_epoch BIGINT NOT NULL,
        stored_at BIGINT NOT NULL,
        PRIMARY KEY (owner, blob_id)
    );
    CREATE INDEX walrus_stored ON walrus_blob (stored_at)
    """,
)

SQLITE: Final = {"bytes": "BLOB", "vector": "BLOB"}
"""Types of SQLite for the words in braces."""


def steps(words: dict[str, str]) -> tuple[str, ...]:
    """Returns the steps with the type names of an engine."""
    return tuple(step.format(**words) for step in STEPS)
