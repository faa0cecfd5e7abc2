-- One append statement is made of these parts: `fence`, `locked` and `ready` always, then one part for each kind
-- of row that changes, then `events`. Everything depends on `ready`, so either all of it is written or nothing.
-- A statement with nothing but deltas is made of `fence`, `owned` and `deltas`.

-- name: fence
-- Deleting the node's row or raising its writer waits for this lock, and after that this finds nothing.
-- A server that was started since may have lost commits. Behind a pooler, no broken connection tells of that.
fence AS MATERIALIZED (
  SELECT 1 FROM nodes
  WHERE incarnation = :incarnation AND writer = :writer AND pg_postmaster_start_time() = :started
  FOR KEY SHARE
)

-- name: locked
-- A purge deletes the session's row, so it waits for this lock. A run's events need ownership, too.
locked AS MATERIALIZED (
  SELECT sessions.key
  FROM sessions JOIN unnest(:keys::bigint[], :fences::bigint[]) AS wanted (key, fence)
    ON sessions.key = wanted.key
  WHERE EXISTS (SELECT 1 FROM fence)
    AND (wanted.fence = 0 OR (sessions.owner = :incarnation AND sessions.fence = wanted.fence))
  ORDER BY sessions.key FOR KEY SHARE OF sessions
)

-- name: changing
-- In the order of their keys, because an UPDATE alone locks in any order, and two of them may deadlock.
changing AS MATERIALIZED (
  SELECT key FROM sessions WHERE key = ANY (:changing::bigint[]) AND EXISTS (SELECT 1 FROM fence)
  ORDER BY key FOR NO KEY UPDATE
)

-- name: ready
ready AS MATERIALIZED (
  SELECT 1 FROM fence WHERE (SELECT count(*) FROM locked) = cardinality(:keys::bigint[])
)

-- name: ready_to_change
ready AS MATERIALIZED (
  SELECT 1 FROM fence
  WHERE (SELECT count(*) FROM changing) = cardinality(:changing::bigint[])
    AND (SELECT count(*) FROM locked) = cardinality(:keys::bigint[])
)

-- name: created
created AS (
  INSERT INTO sessions (key, session_id, epoch, title, titled, source, workspace, preview, created_ms,
                        updated_ms, pinned, archived, purge_at_ms, messages, steers, owner, fence, home)
  SELECT new.* FROM ready, json_to_recordset(:created::json) AS new (
    key bigint, session_id text, epoch text, title text, titled boolean, source text, workspace text,
    preview text, created_ms bigint, updated_ms bigint, pinned boolean, archived boolean, purge_at_ms bigint,
    messages bigint, steers text, owner bigint, fence bigint, home text)
)

-- name: changed
-- The epoch stays as it is: it is given once, and what a node knows of it may be out of date (`renew_epoch`).
changed AS (
  UPDATE sessions
  SET title = new.title, titled = new.titled, source = new.source,
      workspace = new.workspace, preview = new.preview, created_ms = new.created_ms,
      updated_ms = new.updated_ms, pinned = new.pinned, archived = new.archived,
      purge_at_ms = new.purge_at_ms, messages = new.messages, steers = new.steers, home = new.home
  FROM ready, json_to_recordset(:changed::json) AS new (
    key bigint, title text, titled boolean, source text, workspace text, preview text,
    created_ms bigint, updated_ms bigint, pinned boolean, archived boolean, purge_at_ms bigint,
    messages bigint, steers text, home text)
  WHERE sessions.key = new.key
)

-- name: usage
used AS (
  INSERT INTO usage_days (day, api_key, target, runs, target_runs, relayed_calls, input_tokens, cached_tokens,
                          output_tokens, cost_usd, unpriced_calls)
  SELECT new.* FROM ready, json_to_recordset(:usage::json) AS new (
    day bigint, api_key text, target text, runs bigint, target_runs bigint, relayed_calls bigint,
    input_tokens bigint, cached_tokens bigint, output_tokens bigint, cost_usd double precision,
    unpriced_calls bigint)
  ORDER BY day, api_key COLLATE "C", target COLLATE "C"
  ON CONFLICT (day, api_key, target) DO UPDATE
  SET runs = usage_days.runs + excluded.runs, target_runs = usage_days.target_runs + excluded.target_runs,
      relayed_calls = usage_days.relayed_calls + excluded.relayed_calls,
      input_tokens = usage_days.input_tokens + excluded.input_tokens,
      cached_tokens = usage_days.cached_tokens + excluded.cached_tokens,
      output_tokens = usage_days.output_tokens + excluded.output_tokens,
      cost_usd = CASE WHEN excluded.cost_usd IS NULL THEN usage_days.cost_usd
                      ELSE coalesce(usage_days.cost_usd, 0) + excluded.cost_usd END,
      unpriced_calls = usage_days.unpriced_calls + excluded.unpriced_calls
)

-- name: session_usage
used_by_session AS (
  INSERT INTO usage_sessions (day, session, runs, relayed_calls, input_tokens, cached_tokens, output_tokens,
                              cost_usd, unpriced_calls)
  SELECT new.* FROM ready, json_to_recordset(:session_usage::json) AS new (
    day bigint, session bigint, runs bigint, relayed_calls bigint, input_tokens bigint, cached_tokens bigint,
    output_tokens bigint, cost_usd double precision, unpriced_calls bigint)
  ORDER BY day, session
  ON CONFLICT (day, session) DO UPDATE
  SET runs = usage_sessions.runs + excluded.runs,
      relayed_calls = usage_sessions.relayed_calls + excluded.relayed_calls,
      input_tokens = usage_sessions.input_tokens + excluded.input_tokens,
      cached_tokens = usage_sessions.cached_tokens + excluded.cached_tokens,
      output_tokens = usage_sessions.output_tokens + excluded.output_tokens,
      cost_usd = CASE WHEN excluded.cost_usd IS NULL THEN usage_sessions.cost_usd
                      ELSE coalesce(usage_sessions.cost_usd, 0) + excluded.cost_usd END,
      unpriced_calls = usage_sessions.unpriced_calls + excluded.unpriced_calls
)

-- name: runs
runs_put AS (
  INSERT INTO runs (run_id, session, status, outcome, model, first_seq, last_seq, created_ms, updated_ms,
                    api_key, targets)
  SELECT new.* FROM ready, json_to_recordset(:runs::json) AS new (
    run_id text, session bigint, status text, outcome text, model text, first_seq bigint, last_seq bigint,
    created_ms bigint, updated_ms bigint, api_key text, targets text)
  ORDER BY run_id COLLATE "C"
  ON CONFLICT (run_id) DO UPDATE
  SET status = excluded.status, outcome = excluded.outcome, model = excluded.model,
      last_seq = excluded.last_seq, updated_ms = excluded.updated_ms, targets = excluded.targets
  WHERE runs.session = excluded.session
)

-- name: asks
asks_put AS (
  INSERT INTO asks (ask_id, session, run_id, kind, state, seq, asked_ms, expires_at_ms)
  SELECT new.* FROM ready, json_to_recordset(:asks::json) AS new (
    ask_id text, session bigint, run_id text, kind text, state text, seq bigint, asked_ms bigint,
    expires_at_ms bigint)
  ORDER BY ask_id COLLATE "C"
  ON CONFLICT (ask_id) DO UPDATE SET state = excluded.state WHERE asks.session = excluded.session
)

-- name: once
once_put AS (
  INSERT INTO once (key, session, digest, answer, expires_at_ms)
  SELECT new.*
  FROM ready, unnest(:once_key::text[], :once_session::bigint[], :once_digest::text[], :once_answer::bytea[],
                     :once_expires_at_ms::bigint[]) AS new
)

-- name: texts
texts_put AS (
  INSERT INTO texts (session, seq, part, parts, text, words)
  SELECT session, seq, part, parts, text, words::tsvector
  FROM ready, unnest(:text_session::bigint[], :text_seq::bigint[], :text_part::integer[],
                     :text_parts::integer[], :text_text::text[], :text_words::text[])
                AS new (session, seq, part, parts, text, words)
  ON CONFLICT (session, seq, part) DO UPDATE SET text = excluded.text, words = excluded.words
)

-- name: blobs
blobs_locked AS MATERIALIZED (
  SELECT name FROM blobs WHERE name = ANY (:blob_names::text[]) AND EXISTS (SELECT 1 FROM ready)
  ORDER BY name FOR NO KEY UPDATE
),
blobs_named AS (
  UPDATE blobs SET promised = greatest(promised - new.count, 0), touched_at = clock_timestamp()
  FROM blobs_locked JOIN unnest(:blob_names::text[], :blob_counts::integer[]) AS new (name, count)
    ON new.name = blobs_locked.name
  WHERE blobs.name = new.name
),
refs_put AS (
  INSERT INTO blob_refs (blob, session)
  SELECT new.* FROM ready, unnest(:ref_blob::text[], :ref_session::bigint[]) AS new
  WHERE (SELECT count(*) FROM blobs_locked) >= 0  -- so the locks come first, and a sweep skips these blobs
  ON CONFLICT DO NOTHING
)

-- name: owned
-- For deltas: `locked`, where every session must be this node's. One index scan finds the rows. Numbers of fences
-- only grow, so if a session had another one now, their sum would be larger. The sum with 0 keeps the planner from
-- the index of owners: by that, a statement would look at every session that the node owns.
locked AS MATERIALIZED (
  SELECT sessions.fence FROM sessions
  WHERE sessions.key = ANY (:session::bigint[]) AND sessions.owner + 0 = :incarnation
    AND EXISTS (SELECT 1 FROM fence)
  ORDER BY sessions.key FOR KEY SHARE OF sessions
)

-- name: deltas
INSERT INTO events (session, seq, crc, body)
SELECT new.*
FROM unnest(:session::bigint[], :seq::bigint[], :crc::bigint[], :body::bytea[]) AS new
WHERE (SELECT count(*) = :sessions::bigint AND sum(fence)::bigint = :fences::bigint FROM locked)

-- name: events
INSERT INTO events (session, seq, crc, body)
SELECT new.*
FROM ready, unnest(:session::bigint[], :seq::bigint[], :crc::bigint[], :body::bytea[]) AS new
