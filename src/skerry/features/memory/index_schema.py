"""Tables of `memory/<agentId>.sqlite`, as migration steps. Never edit a step.

files       one row per indexed file or conversation; `error` is the reason why it could not be
            read; `mtime`, `size`, `ctime` and `settled` detect changes; `block`, `block_place` and
            `block_line` are the number of a conversation's last block, and the passages and lines
            before it
chunks      passages; `model` is the model of the vector in `chunks_vec`, empty without one
chunks_fts  full-text index of the passages, for phrases and as a last resort; it stores no text
chunks_vec  vectors of the present model: float32, little-endian, length 1
embedding_cache  vectors by provider, model and SHA-256 of the text, for repeated texts; the model
            is `name@size`, so that vectors stay valid when a server changes its model and back
refusals    texts without a vector from the model, with the reason and the time in ms since 1970
totals      number of passages, and of passages without a vector; updated by triggers
meta        settings of the index. `scanned` exists only while no row of a file was changed since
            all files were last compared; a step that changes passages or vectors deletes `state`,
            so that the search collection is compared with them

Columns: seed 003, "Memory Database Schema", and seed 002. The vector matrix and the postings are
files next to the database, which can be rebuilt from it (`skerry_recall.collection`).
"""

from typing import Final

STEPS: Final = (
    """
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

    CREATE TABLE files (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        path TEXT NOT NULL UNIQUE,
        source TEXT NOT NULL,
        hash TEXT NOT NULL,
        mtime INTEGER NOT NULL,
        size INTEGER NOT NULL,
        chunk_count INTEGER NOT NULL DEFAULT 0,
        ctime INTEGER NOT NULL DEFAULT 0,
        settled INTEGER NOT NULL DEFAULT 0,
        at INTEGER,
        session TEXT,
        error TEXT
    );

    CREATE TABLE chunks (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        file_id INTEGER NOT NULL REFERENCES files (id),
        path TEXT NOT NULL,
        source TEXT NOT NULL,
        place INTEGER NOT NULL,
        content TEXT NOT NULL,
        start_line INTEGER NOT NULL,
        end_line INTEGER NOT NULL,
        token_count INTEGER NOT NULL,
        hash TEXT NOT NULL,
        model TEXT NOT NULL DEFAULT '',
        at INTEGER
    );
    CREATE UNIQUE INDEX chunks_of_file ON chunks (file_id, place);
    CREATE INDEX chunks_without_vector ON chunks (id) WHERE model = '';

    CREATE TABLE embedding_cache (
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        embedding BLOB NOT NULL,
        PRIMARY KEY (provider, model, content_hash)
    );

    CREATE VIRTUAL TABLE chunks_fts USING fts5(
        content, content=chunks, content_rowid=id,
        tokenize='porter unicode61 remove_diacritics 2'
    );

    CREATE TABLE chunks_vec (chunk_id INTEGER PRIMARY KEY, embedding BLOB NOT NULL)
    """,
    """
    CREATE TABLE refusals (
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        content_hash TEXT NOT NULL,
        reason TEXT NOT NULL,
        at INTEGER NOT NULL,
        PRIMARY KEY (provider, model, content_hash)
    ) WITHOUT ROWID;

    CREATE INDEX chunks_lacking ON chunks (source, id) WHERE model = '';

    DELETE FROM embedding_cache WHERE embedding = zeroblob(length(embedding));
    UPDATE embedding_cache SET model = model || '@' || (length(embedding) / 4);

    INSERT INTO meta SELECT 'vector size', length(embedding) / 4 FROM chunks_vec
    GROUP BY length(embedding) ORDER BY count(*) DESC LIMIT 1;
    DELETE FROM chunks_vec WHERE embedding = zeroblob(length(embedding))
    OR length(embedding) <> 4 * (SELECT value FROM meta WHERE key = 'vector size');
    UPDATE chunks SET model = '' WHERE model <> '' AND id NOT IN (SELECT chunk_id FROM chunks_vec)
    """,
    """
    CREATE TABLE totals (name TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID;
    INSERT INTO totals SELECT 'passages', count(*) FROM chunks;
    INSERT INTO totals SELECT 'lacking', count(*) FROM chunks WHERE model = '';
    CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
        UPDATE totals SET rows = rows + 1
        WHERE name = 'passages' OR (name = 'lacking' AND NEW.model = '');
    END;
    CREATE TRIGGER chunk_removed AFTER DELETE ON chunks BEGIN
        UPDATE totals SET rows = rows - 1
        WHERE name = 'passages' OR (name = 'lacking' AND OLD.model = '');
    END;
    CREATE TRIGGER chunk_embedded AFTER UPDATE OF model ON chunks
    WHEN (OLD.model = '') <> (NEW.model = '') BEGIN
        UPDATE totals SET rows = rows + (NEW.model = '') - (OLD.model = '') WHERE name = 'lacking';
    END;
    CREATE INDEX files_of_source ON files (source, session)
    """,
    """
    CREATE INDEX files_failed ON files (path, error) WHERE error IS NOT NULL;
    CREATE INDEX files_counted ON files (source, chunk_count) WHERE error IS NULL;
    CREATE TRIGGER file_added AFTER INSERT ON files WHEN NEW.source = 'memory' BEGIN
        DELETE FROM meta WHERE key = 'scanned';
    END;
    CREATE TRIGGER file_removed AFTER DELETE ON files WHEN OLD.source = 'memory' BEGIN
        DELETE FROM meta WHERE key = 'scanned';
    END;
    CREATE TRIGGER file_changed AFTER UPDATE ON files WHEN NEW.source = 'memory' BEGIN
        DELETE FROM meta WHERE key = 'scanned';
    END
    """,
    "CREATE INDEX chunks_hashed ON chunks (hash) WHERE model = ''",
    """
    ALTER TABLE files ADD COLUMN block INTEGER;
    ALTER TABLE files ADD COLUMN block_place INTEGER;
    ALTER TABLE files ADD COLUMN block_line INTEGER
    """,
)
