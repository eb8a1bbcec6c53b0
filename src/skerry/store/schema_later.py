"""The later steps of the schema of the state database; the earlier ones are in `schema`."""

from typing import Final

LATER: Final = (
    """
    CREATE TABLE tally (
        session_id TEXT NOT NULL, quarter INTEGER NOT NULL, role TEXT NOT NULL, tool TEXT NOT NULL,
        count INTEGER NOT NULL, failed INTEGER NOT NULL, PRIMARY KEY
        (session_id, quarter, role, tool)) WITHOUT ROWID;
    INSERT INTO tally SELECT session_id, at / 900000, json_extract(body, '$.role'), '', count(*),
        total(coalesce(json_extract(body, '$.stopReason') = 'error', 0)
            OR coalesce(json_extract(body, '$.isError'), 0))
        FROM (SELECT session_id, at, CAST(body AS TEXT) AS body FROM entry WHERE kind IS NULL)
        WHERE json_valid(body) AND json_extract(body, '$.role') IS NOT NULL GROUP BY 1, 2, 3;
    INSERT INTO tally SELECT session_id, at / 900000, 'toolCall',
        coalesce(json_extract(c.value, '$.name'), ''), count(*), 0 FROM
        (SELECT session_id, at, CAST(body AS TEXT) AS body FROM entry WHERE kind IS NULL),
        json_each(iif(json_valid(body), body, '{}'), '$.content') AS c WHERE
        iif(c.type = 'object', json_extract(c.value, '$.type'), 0) = 'toolCall' GROUP BY 1, 2, 4;
    CREATE INDEX model_call_of_session ON model_call (session_id, day)
    """,
    """
    CREATE TABLE frozen (session_id TEXT NOT NULL, audience TEXT NOT NULL, body BLOB NOT NULL,
        PRIMARY KEY (session_id, audience)) WITHOUT ROWID;
    CREATE TABLE frozen_part (digest TEXT NOT NULL, session_id TEXT NOT NULL,
        audience TEXT NOT NULL, PRIMARY KEY (digest, session_id, audience)) WITHOUT ROWID;
    CREATE INDEX frozen_part_of ON frozen_part (session_id, audience);
    CREATE TABLE frozen_text (digest TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE frozen_note (session_id TEXT NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL,
        PRIMARY KEY (session_id, seq)) WITHOUT ROWID
    """,
    "ALTER TABLE model_call ADD COLUMN call_id TEXT NOT NULL DEFAULT ''",
)
