-- One row about the store itself: its owner, and its number of commits.
CREATE TABLE store (
  id      INTEGER PRIMARY KEY CHECK (id = 1),
  fence   INTEGER NOT NULL,
  commits INTEGER NOT NULL
) STRICT;
INSERT INTO store (id, fence, commits) VALUES (1, 0, 0);

-- One row per session. AUTOINCREMENT: the key of a purged session is never given out again.
CREATE TABLE sessions (
  key         INTEGER PRIMARY KEY AUTOINCREMENT,
  session_id  TEXT    NOT NULL UNIQUE,
  epoch       TEXT    NOT NULL,
  title       TEXT    NOT NULL,
  titled      INTEGER NOT NULL,
  source      TEXT    NOT NULL,
  workspace   TEXT    NOT NULL,
  preview     TEXT    NOT NULL,
  created_ms  INTEGER NOT NULL,
  updated_ms  INTEGER NOT NULL,
  pinned      INTEGER NOT NULL,
  archived    INTEGER NOT NULL,
  purge_at_ms INTEGER NOT NULL,
  messages    INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_listed ON sessions (archived, pinned, updated_ms, session_id) WHERE purge_at_ms = 0;

-- The logs, clustered so that reading one is one walk along the tree. crc is CRC-32 of body.
CREATE TABLE events (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  crc     INTEGER NOT NULL,
  body    BLOB    NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  run_id     TEXT    NOT NULL PRIMARY KEY,
  session    INTEGER NOT NULL,
  status     TEXT    NOT NULL,
  outcome    TEXT,
  model      TEXT    NOT NULL,
  first_seq  INTEGER NOT NULL,
  last_seq   INTEGER NOT NULL,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_by_time ON runs (created_ms, run_id);
CREATE INDEX runs_by_session ON runs (session, created_ms);
CREATE INDEX runs_open ON runs (session) WHERE status <> 'ended';

-- Approvals and questions.
CREATE TABLE asks (
  ask_id        TEXT    NOT NULL PRIMARY KEY,
  session       INTEGER NOT NULL,
  run_id        TEXT    NOT NULL,
  kind          TEXT    NOT NULL,
  state         TEXT    NOT NULL,
  seq           INTEGER NOT NULL,
  asked_ms      INTEGER NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX asks_open ON asks (session, asked_ms) WHERE state = 'open';
CREATE INDEX asks_by_session ON asks (session);

-- Idempotency keys; they are deleted when `session` is purged.
CREATE TABLE once (
  key           TEXT    NOT NULL PRIMARY KEY,
  session       INTEGER NOT NULL,
  digest        TEXT    NOT NULL,
  answer        BLOB    NOT NULL,
  expires_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX once_by_expiry ON once (expires_at_ms);
CREATE INDEX once_by_session ON once (session);

CREATE TABLE notes (
  key   TEXT NOT NULL PRIMARY KEY,
  value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Which session names which blob; a blob that no row names can be deleted.
CREATE TABLE blob_refs (
  blob    TEXT    NOT NULL,
  session INTEGER NOT NULL,
  PRIMARY KEY (blob, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_by_session ON blob_refs (session);

-- Full text. rowid = session key * 2^32 + seq, so a session's texts are one range; seq 0 is the title.
CREATE VIRTUAL TABLE search USING fts5 (text, tokenize = "unicode61 remove_diacritics 2");
-- A deleted text leaves the full-text index at once, not at some later merge.
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
