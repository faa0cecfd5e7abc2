-- What runs and relayed calls used. The sums by day stay when a session is purged, because budgets depend on them.
CREATE TABLE usage_days (
  day            INTEGER NOT NULL,
  api_key        TEXT    NOT NULL,
  target         TEXT    NOT NULL,
  runs           INTEGER NOT NULL,
  target_runs    INTEGER NOT NULL,
  relayed_calls  INTEGER NOT NULL,
  input_tokens   INTEGER NOT NULL,
  cached_tokens  INTEGER NOT NULL,
  output_tokens  INTEGER NOT NULL,
  cost_usd       REAL,
  unpriced_calls INTEGER NOT NULL,
  PRIMARY KEY (day, api_key, target)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_sessions (
  day            INTEGER NOT NULL,
  session        INTEGER NOT NULL,
  runs           INTEGER NOT NULL,
  relayed_calls  INTEGER NOT NULL,
  input_tokens   INTEGER NOT NULL,
  cached_tokens  INTEGER NOT NULL,
  output_tokens  INTEGER NOT NULL,
  cost_usd       REAL,
  unpriced_calls INTEGER NOT NULL,
  PRIMARY KEY (day, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_sessions_by_session ON usage_sessions (session);

-- Which key started a run, and which targets it has used.
ALTER TABLE runs ADD COLUMN api_key TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN targets TEXT NOT NULL DEFAULT '';
