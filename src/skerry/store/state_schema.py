"""Tables of `state.sqlite`, as the steps that create them. A step is never edited, only added.

session   one row per incarnation of a conversation; `current` marks the present session of its
          key; the others are archived (reset or deleted) and can be restored; `compacted` is the
          entry of the last of `compactions` summaries, `flushed` their number at the last flush
entry     transcript, one row per message, numbered from 1 in each session; `kind` is NULL for a
          message and `compaction` for a summary that replaces the messages before it
run       one row per accepted run; its id is the caller's idempotency key, so a repeated key is
          answered from the row; `serial` is the order of acceptance
inbound   one row per message that a platform delivered, so that no message is accepted twice
frozen    stored system prompt of a session, one row per audience; `frozen_text` has each text once,
          `frozen_part` its users, `frozen_note` later notes by message
outbox    one row per part to deliver, with its final text
mirror    position up to which the JSONL file of each session is written
device_grant    permissions of a paired device, one row per role
device_token    hashes of the tokens that prove a grant, a few per role
device_request  a device that waits for approval
entry_text      full-text index over entries; its rowid is `serial << 32 | seq`
entry_indexed   serial of each session in it, and the entry up to which it is indexed
answered  one row per idempotency key of a method that starts no run, with its answer
uptime    one row: the number of quarters of an hour in which a gateway ran; runs and answers have
          the number of their quarter; a run also has `settled`: its texts are removed
task      time and outcome of the last execution of each regular task, such as the daily backup
cooldown  one row per cooldown of a provider credential for a model, with its reason
model_call      one row per call of a model, for any purpose; costs are NULL without a known price
usage_day       sums of the `folded` calls, one row per day in the person's time zone and group
usage_warned    day of the last warning that a budget is nearly used up
forgetting  incomplete erasures with their phrases; `extra` if the extra paths are included
file_record  one row per workspace file that the gateway wrote or put into a prompt: a hash of its
          content, its author, and the origins of what the author had read, separated by spaces
internal_run  one row per run that the gateway itself started, with the part that processes its
          result; kept for a time after that
route     direct chat in which the owner last wrote, one row per conversation
spoken    one row per numbered entry of a conversation, for plugins that read by a cursor;
          `spoken_to` has the last numbered entry of each session, and under '' the last number
reached   one row: id of this database, and the counter of saved mirror marks
"""

from typing import Final

from skerry.store.state_schema_later import LATER_STEPS

STEPS: Final = (
    """
    CREATE TABLE session (
        session_id TEXT PRIMARY KEY,
        key TEXT NOT NULL,
        current INTEGER NOT NULL DEFAULT 1,
        agent_id TEXT NOT NULL,
        chat_type TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        tail INTEGER NOT NULL DEFAULT 0,
        input_tokens INTEGER NOT NULL DEFAULT 0,
        output_tokens INTEGER NOT NULL DEFAULT 0,
        total_tokens INTEGER NOT NULL DEFAULT 0,
        aborted_last_run INTEGER NOT NULL DEFAULT 0,
        provider TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT ''
    );
    CREATE UNIQUE INDEX session_of_key ON session (key) WHERE current;
    CREATE INDEX session_recent ON session (updated_at) WHERE current;

    CREATE TABLE entry (
        session_id TEXT NOT NULL,
        seq INTEGER NOT NULL,
        parent INTEGER NOT NULL,
        at INTEGER NOT NULL,
        run_id TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (session_id, seq)
    ) WITHOUT ROWID;

    CREATE TABLE run (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL UNIQUE,
        session_key TEXT NOT NULL,
        session_id TEXT NOT NULL,
        request BLOB NOT NULL,
        accepted_at INTEGER NOT NULL,
        entry INTEGER NOT NULL DEFAULT 0,
        host TEXT,
        left_trace INTEGER NOT NULL DEFAULT 0,
        restarts INTEGER NOT NULL DEFAULT 0,
        partial TEXT NOT NULL DEFAULT '',
        result BLOB
    );
    CREATE INDEX run_open ON run (serial) WHERE result IS NULL;

    CREATE TABLE inbound (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        message_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        received_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, message_id)
    ) WITHOUT ROWID;

    CREATE TABLE outbox (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        block INTEGER NOT NULL,
        part INTEGER NOT NULL,
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        destination BLOB NOT NULL,
        text TEXT NOT NULL,
        state TEXT NOT NULL DEFAULT 'pending',
        attempts INTEGER NOT NULL DEFAULT 0,
        receipt BLOB,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL,
        UNIQUE (run_id, block, part)
    );
    CREATE INDEX outbox_open ON outbox (channel, account, serial)
        WHERE state IN ('pending', 'sending');

    CREATE TABLE mirror (
        session_id TEXT PRIMARY KEY,
        seq INTEGER NOT NULL,
        size INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE device_grant (
        device_id TEXT NOT NULL,
        role TEXT NOT NULL,
        public_key TEXT NOT NULL,
        scopes TEXT NOT NULL,
        about BLOB NOT NULL,
        created_at INTEGER NOT NULL,
        approved_at INTEGER NOT NULL,
        seen_at INTEGER NOT NULL,
        rotated_at INTEGER,
        revoked_at INTEGER,
        PRIMARY KEY (device_id, role)
    ) WITHOUT ROWID;

    CREATE TABLE device_token (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        hash BLOB NOT NULL UNIQUE,
        device_id TEXT NOT NULL,
        role TEXT NOT NULL,
        issued_at INTEGER NOT NULL
    );
    CREATE INDEX device_token_of ON device_token (device_id, role);

    CREATE TABLE device_request (
        request_id TEXT PRIMARY KEY,
        device_id TEXT NOT NULL,
        role TEXT NOT NULL,
        public_key TEXT NOT NULL,
        scopes TEXT NOT NULL,
        about BLOB NOT NULL,
        reason TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        UNIQUE (device_id, role)
    ) WITHOUT ROWID
    """,
    """
    ALTER TABLE session ADD COLUMN label TEXT NOT NULL DEFAULT '';
    ALTER TABLE session ADD COLUMN settings BLOB NOT NULL DEFAULT '{}';
    ALTER TABLE session ADD COLUMN archived TEXT;
    ALTER TABLE session ADD COLUMN archived_at INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX session_incarnations ON session (key);
    CREATE INDEX session_archived ON session (archived_at) WHERE NOT current
    """,
    """
    CREATE VIRTUAL TABLE entry_text
        USING fts5(text, content='', tokenize='porter unicode61 remove_diacritics 2');
    CREATE TABLE entry_indexed (
        serial INTEGER PRIMARY KEY,
        session_id TEXT NOT NULL UNIQUE,
        seq INTEGER NOT NULL
    );
    ALTER TABLE entry ADD COLUMN kind TEXT;
    ALTER TABLE session ADD COLUMN compactions INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN compacted INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE session ADD COLUMN flushed INTEGER NOT NULL DEFAULT -1;
    ALTER TABLE session ADD COLUMN flushed_at INTEGER NOT NULL DEFAULT 0
    """,
    """
    ALTER TABLE run ADD COLUMN digest BLOB;
    CREATE INDEX run_keyed ON run (serial) WHERE digest IS NOT NULL;

    CREATE TABLE answered (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        method TEXT NOT NULL,
        key TEXT NOT NULL,
        digest BLOB NOT NULL,
        answer BLOB,
        UNIQUE (method, key)
    );

    CREATE TABLE quarter (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        run INTEGER NOT NULL,
        answered INTEGER NOT NULL
    );

    CREATE TABLE task (
        name TEXT PRIMARY KEY,
        done_at INTEGER NOT NULL,
        outcome TEXT NOT NULL
    ) WITHOUT ROWID;

    ALTER TABLE outbox ADD COLUMN error TEXT NOT NULL DEFAULT '';
    ALTER TABLE outbox ADD COLUMN retry_at INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE outbox ADD COLUMN repeated INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX outbox_undelivered ON outbox (serial)
        WHERE state NOT IN ('sent', 'dropped')
    """,
    """
    CREATE TABLE cooldown (
        profile TEXT NOT NULL,
        model TEXT NOT NULL,
        reason TEXT NOT NULL,
        stamp TEXT NOT NULL,
        failures INTEGER NOT NULL,
        failed_at INTEGER NOT NULL,
        until INTEGER NOT NULL,
        PRIMARY KEY (profile, model, reason)
    ) WITHOUT ROWID
    """,
    """
    ALTER TABLE session ADD COLUMN user_at INTEGER NOT NULL DEFAULT 0;
    UPDATE session SET user_at = updated_at WHERE tail > 0
    """,
    """
    ALTER TABLE run ADD COLUMN delivered INTEGER
    """,
    """
    CREATE TABLE model_call (
        serial INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        day TEXT NOT NULL,
        run_id TEXT NOT NULL,
        session_id TEXT NOT NULL,
        agent TEXT NOT NULL,
        channel TEXT NOT NULL,
        purpose TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        profile TEXT NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        input_cost REAL,
        output_cost REAL,
        cache_read_cost REAL,
        cache_write_cost REAL,
        outcome TEXT NOT NULL,
        counted INTEGER NOT NULL,
        seconds REAL NOT NULL
    );

    CREATE TABLE usage_day (
        day TEXT NOT NULL,
        agent TEXT NOT NULL,
        channel TEXT NOT NULL,
        purpose TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        calls INTEGER NOT NULL,
        failed INTEGER NOT NULL,
        uncounted INTEGER NOT NULL,
        unpriced INTEGER NOT NULL,
        input INTEGER NOT NULL,
        output INTEGER NOT NULL,
        cache_read INTEGER NOT NULL,
        cache_write INTEGER NOT NULL,
        input_cost REAL NOT NULL,
        output_cost REAL NOT NULL,
        cache_read_cost REAL NOT NULL,
        cache_write_cost REAL NOT NULL,
        seconds REAL NOT NULL,
        PRIMARY KEY (day, agent, channel, purpose, provider, model)
    ) WITHOUT ROWID;

    CREATE TABLE usage_warned (
        budget TEXT PRIMARY KEY,
        day TEXT NOT NULL
    ) WITHOUT ROWID;

    INSERT INTO model_call (at, day, run_id, session_id, agent, channel, purpose, provider, model,
        profile, input, output, cache_read, cache_write, input_cost, output_cost, cache_read_cost,
        cache_write_cost, outcome, counted, seconds)
    SELECT ended, date(ended / 1000, 'unixepoch'), run_id, session_id,
        CASE WHEN session_key LIKE 'agent:%:%'
            THEN substr(session_key, 7, instr(substr(session_key, 7), ':') - 1) ELSE 'main' END,
        coalesce(json_extract(asked, '$.reply_to.channel'), 'webchat'),
        coalesce(json_extract(asked, '$.purpose'), 'message'),
        json_extract(told, '$.provider'), json_extract(told, '$.model'), '',
        coalesce(json_extract(told, '$.usage.input'), 0),
        coalesce(json_extract(told, '$.usage.output'), 0),
        coalesce(json_extract(told, '$.usage.cacheRead'), 0),
        coalesce(json_extract(told, '$.usage.cacheWrite'), 0),
        iif(paid > 0, json_extract(told, '$.usage.cost.input'), NULL),
        iif(paid > 0, json_extract(told, '$.usage.cost.output'), NULL),
        iif(paid > 0, json_extract(told, '$.usage.cost.cacheRead'), NULL),
        iif(paid > 0, json_extract(told, '$.usage.cost.cacheWrite'), NULL),
        'ok', 1, max(ended - coalesce(json_extract(told, '$.startedAt'), ended), 0) / 1000.0
    FROM (
        SELECT run_id, session_id, session_key, told, json_extract(told, '$.endedAt') AS ended,
            iif(json_valid(asked), asked, '{}') AS asked,
            json_extract(told, '$.usage.cost.total') AS paid
        FROM (
            SELECT run_id, session_id, session_key, serial, CAST(result AS TEXT) AS told,
                CAST(request AS TEXT) AS asked
            FROM run WHERE result IS NOT NULL ORDER BY serial
        )
    )
    WHERE json_extract(told, '$.provider') <> '' AND json_extract(told, '$.usage.input')
        + json_extract(told, '$.usage.output') + json_extract(told, '$.usage.cacheRead')
        + json_extract(told, '$.usage.cacheWrite') > 0;

    INSERT INTO usage_day
    SELECT day, agent, channel, purpose, provider, model, count(*), 0, 0,
        sum(input_cost IS NULL), sum(input), sum(output), sum(cache_read), sum(cache_write),
        total(input_cost), total(output_cost), total(cache_read_cost), total(cache_write_cost),
        sum(seconds)
    FROM model_call GROUP BY 1, 2, 3, 4, 5, 6
    """,
    """
    CREATE TABLE forgetting (
        serial INTEGER PRIMARY KEY AUTOINCREMENT,
        agent TEXT NOT NULL,
        phrases BLOB NOT NULL,
        asked_at INTEGER NOT NULL
    )
    """,
    "ALTER TABLE forgetting ADD COLUMN extra INTEGER NOT NULL DEFAULT 0",
    """
    ALTER TABLE inbound RENAME TO inbound_of_accounts;

    CREATE TABLE inbound (
        channel TEXT NOT NULL,
        account TEXT NOT NULL,
        peer TEXT NOT NULL,
        thread TEXT NOT NULL,
        message_id TEXT NOT NULL,
        run_id TEXT NOT NULL,
        received_at INTEGER NOT NULL,
        PRIMARY KEY (channel, account, peer, thread, message_id)
    ) WITHOUT ROWID;

    INSERT INTO inbound
    SELECT channel, account,
        coalesce(json_extract(asked, '$.reply_to.peer.id'), ''),
        coalesce(json_extract(asked, '$.reply_to.thread_id'), ''),
        message_id, run_id, received_at
    FROM (
        SELECT old.*, iif(json_valid(CAST(request AS TEXT)), CAST(request AS TEXT), '{}') AS asked
        FROM inbound_of_accounts AS old LEFT JOIN run USING (run_id)
    );

    DROP TABLE inbound_of_accounts
    """,
    # The indexed text has changed: the gateway fills the index again while it runs.
    """
    INSERT INTO entry_text (entry_text) VALUES ('delete-all');
    DELETE FROM entry_indexed
    """,
    """
    CREATE TABLE reached (generation TEXT NOT NULL, number INTEGER NOT NULL);
    INSERT INTO reached VALUES (lower(hex(randomblob(16))), 0)
    """,
    """
    CREATE TABLE settled (blanked INTEGER NOT NULL);
    INSERT INTO settled VALUES (0)
    """,
    """
    CREATE TABLE file_record (
        path TEXT PRIMARY KEY,
        digest BLOB NOT NULL,
        size INTEGER NOT NULL,
        who TEXT NOT NULL,
        taint TEXT NOT NULL,
        at INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE tool_day (
        day TEXT NOT NULL,
        agent TEXT NOT NULL,
        calls INTEGER NOT NULL,
        PRIMARY KEY (day, agent)
    ) WITHOUT ROWID
    """,
    *LATER_STEPS,
)
