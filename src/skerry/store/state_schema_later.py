"""Later steps of the schema of the state database; the earlier ones are in `state_schema`."""

from typing import Final

LATER_STEPS: Final = (
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
    # Values that statements read from JSON become columns, and serials no longer mark times: a run
    # has the quarter of an hour of its acceptance, and whether its texts are removed.
    """
    ALTER TABLE session ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
    UPDATE session SET pinned = 1 WHERE iif(json_valid(CAST(settings AS TEXT)),
        json_extract(CAST(settings AS TEXT), '$.pinned'), 0);
    CREATE TABLE uptime (id INTEGER PRIMARY KEY, quarters INTEGER NOT NULL);
    INSERT INTO uptime SELECT 1, coalesce(max(serial), 0) FROM quarter;
    ALTER TABLE answered ADD COLUMN quarter INTEGER NOT NULL DEFAULT 0;
    UPDATE answered SET quarter = coalesce((SELECT q.serial FROM quarter AS q
        WHERE q.answered < answered.serial ORDER BY q.serial DESC LIMIT 1), 0);
    ALTER TABLE run ADD COLUMN quarter INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE run ADD COLUMN noticed INTEGER NOT NULL DEFAULT 0;
    UPDATE run SET settled = serial <= coalesce((SELECT max(blanked) FROM settled), 0),
        quarter = coalesce((SELECT q.serial FROM quarter AS q
            WHERE q.run < run.serial ORDER BY q.serial DESC LIMIT 1), 0),
        noticed = iif(json_valid(CAST(result AS TEXT)),
            coalesce(json_array_length(CAST(result AS TEXT), '$.notices'), 0) > 0, 0);
    DROP TABLE quarter;
    DROP TABLE settled;
    DROP INDEX run_keyed;
    CREATE INDEX run_of_quarter ON run (settled, quarter);
    CREATE INDEX run_of_entry ON run (session_id, entry)
    """,
    # Turns of different conversations write different rows: calls are summed up later, tools are
    # counted per conversation.
    """
    ALTER TABLE model_call ADD COLUMN folded INTEGER NOT NULL DEFAULT 0;
    UPDATE model_call SET folded = 1;
    CREATE INDEX model_call_unfolded ON model_call (day) WHERE folded = FALSE;
    ALTER TABLE tool_day RENAME TO tool_day_of_agents;
    CREATE TABLE tool_day (
        day TEXT NOT NULL,
        agent TEXT NOT NULL,
        key TEXT NOT NULL,
        calls INTEGER NOT NULL,
        PRIMARY KEY (day, agent, key)
    ) WITHOUT ROWID;
    INSERT INTO tool_day SELECT day, agent, '', calls FROM tool_day_of_agents;
    DROP TABLE tool_day_of_agents
    """,
    # Approvals of tool calls, selected by the waiting call and by the fingerprint of equal calls.
    """
    CREATE TABLE approval (
        approval_id TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        fingerprint TEXT NOT NULL,
        run_id TEXT NOT NULL,
        call_id TEXT NOT NULL,
        call BLOB,
        subject BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        owed INTEGER NOT NULL,
        verdict TEXT,
        resolved_by TEXT NOT NULL,
        outcome BLOB,
        updated_at INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE INDEX approval_open ON approval (state, expires_at);
    CREATE INDEX approval_call ON approval (fingerprint);
    CREATE INDEX approval_of_run ON approval (run_id, call_id)
    """,
    # Patterns that are always allowed, and the audit log: its hash chain covers the digest of a
    # body, so that a body can be erased.
    """
    CREATE TABLE allowlist (
        agent TEXT NOT NULL,
        pattern TEXT NOT NULL,
        source TEXT NOT NULL,
        added_at INTEGER NOT NULL,
        last_used_at INTEGER,
        last_command TEXT NOT NULL,
        last_path TEXT NOT NULL,
        PRIMARY KEY (agent, pattern)
    ) WITHOUT ROWID;
    CREATE TABLE audit (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        digest TEXT NOT NULL,
        body BLOB,
        hash TEXT NOT NULL
    )
    """,
    # Messages of persons in main conversations from before origins were stored: no platform sender
    # could write there then. Later messages without an origin count as a stranger's.
    """
    UPDATE entry SET body = CAST(json_set(CAST(body AS TEXT), '$.origin', 'owner') AS BLOB)
        WHERE kind IS NULL AND run_id NOT IN (SELECT run_id FROM inbound) AND session_id IN
            (SELECT session_id FROM session WHERE key = 'agent:' || agent_id || ':main')
        AND iif(json_valid(CAST(body AS TEXT)), json_extract(CAST(body AS TEXT), '$.role') = 'user'
            AND json_extract(CAST(body AS TEXT), '$.origin') IS NULL, 0)
        AND at < coalesce((SELECT min(at) FROM entry WHERE iif(json_valid(CAST(body AS TEXT)),
            json_extract(CAST(body AS TEXT), '$.origin') IS NOT NULL, 0)), at + 1)
    """,
    # Media, buttons and polls of parts.
    "ALTER TABLE outbox ADD COLUMN more BLOB",
    # Runs that the gateway itself started, and the chats in which the owner last wrote.
    """
    CREATE TABLE internal_run (
        run_id TEXT PRIMARY KEY,
        owner TEXT NOT NULL,
        subject BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        settled_at INTEGER
    ) WITHOUT ROWID;
    CREATE INDEX internal_run_owed ON internal_run (owner, created_at) WHERE settled_at IS NULL;
    CREATE TABLE route (
        session_key TEXT PRIMARY KEY,
        agent TEXT NOT NULL,
        destination BLOB NOT NULL,
        at INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    # Pairing requests of platform senders, and the owner's decisions about them.
    """
    CREATE TABLE pairing_request (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        sender_id TEXT NOT NULL,
        code TEXT NOT NULL,
        sender_name TEXT NOT NULL,
        sender_username TEXT NOT NULL,
        destination BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, sender_id)
    ) WITHOUT ROWID;
    CREATE TABLE paired_sender (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        sender_id TEXT NOT NULL,
        sender_name TEXT NOT NULL,
        sender_username TEXT NOT NULL,
        rejected INTEGER NOT NULL,
        decided_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, sender_id)
    ) WITHOUT ROWID
    """,
    # Numbers of entries, which plugins read by a cursor, and the last numbered entry per session.
    """
    CREATE TABLE spoken (
        number INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        UNIQUE (session_id, seq)
    );
    CREATE TABLE spoken_to (session_id TEXT PRIMARY KEY, seq INTEGER NOT NULL) WITHOUT ROWID
    """,
    # Messages of groups that were not addressed to an agent.
    """
    CREATE TABLE group_message (
        serial INTEGER PRIMARY KEY,
        session_key TEXT NOT NULL,
        sender TEXT NOT NULL,
        text TEXT NOT NULL,
        at INTEGER NOT NULL
    );
    CREATE INDEX group_message_of ON group_message (session_key, serial)
    """,
    # The conversation that started this one as a sub-agent, for listing sub-agents.
    """
    ALTER TABLE session ADD COLUMN spawned_by TEXT NOT NULL DEFAULT '';
    CREATE INDEX session_spawned ON session (spawned_by) WHERE spawned_by <> ''
    """,
    # Positions up to which platform accounts have received.
    """
    CREATE TABLE channel_state (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        name TEXT NOT NULL,
        value TEXT NOT NULL,
        PRIMARY KEY (channel, account, name)
    ) WITHOUT ROWID
    """,
    # Platform messages that wait for more messages of the same sender.
    """
    CREATE TABLE held_message (
        serial INTEGER PRIMARY KEY,
        session_key TEXT NOT NULL,
        sender TEXT NOT NULL,
        body BLOB NOT NULL
    );
    CREATE INDEX held_message_of ON held_message (session_key, sender, serial)
    """,
    # Secret state of platform accounts, such as encryption keys.
    """
    CREATE TABLE channel_secret (
        serial INTEGER PRIMARY KEY,
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        kind TEXT NOT NULL,
        name TEXT NOT NULL,
        value BLOB NOT NULL,
        UNIQUE (channel, account, kind, name)
    )
    """,
    # Run id in the ledger row of a group message, by which a deleted message is looked up.
    "ALTER TABLE group_message ADD COLUMN run_id TEXT NOT NULL DEFAULT ''",
)
