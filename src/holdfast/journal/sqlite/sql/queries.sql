-- name: data_version
PRAGMA data_version

-- name: state
SELECT fence, max(arrivals, coalesce((SELECT max(arrival) FROM recent), 0)), (SELECT count(*) FROM recent)
FROM store WHERE id = 1

-- name: arrivals
SELECT max(arrivals, coalesce((SELECT max(arrival) FROM recent), 0)) FROM store WHERE id = 1

-- name: commits
SELECT commits FROM store WHERE id = 1

-- name: count_arrivals
UPDATE store SET arrivals = :arrivals WHERE id = 1

-- name: raise_fence
UPDATE store SET fence = fence + 1 WHERE id = 1 RETURNING fence

-- name: head
SELECT key, max(coalesce((SELECT max(seq) FROM events WHERE events.session = sessions.key), 0),
                coalesce((SELECT max(seq) FROM recent WHERE recent.session = sessions.key), 0)),
       (SELECT count(*) FROM runs WHERE runs.session = sessions.key AND status <> 'ended'),
       (SELECT count(*) FROM asks
        WHERE asks.session = sessions.key AND state = 'open' AND kind <> 'client_tools'),
       (SELECT count(*) FROM runs
        WHERE runs.session = sessions.key AND status <> 'ended' AND status <> 'queued'),
       session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE session_id = :session_id

-- name: newest
SELECT substr(body, 1, 200) FROM log WHERE session = :session AND seq = :seq

-- name: insert_session
INSERT INTO sessions (session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
                      pinned, archived, purge_at_ms, messages, steers)
VALUES (:session_id, :epoch, :title, :titled, :source, :workspace, :preview, :created_ms, :updated_ms,
        :pinned, :archived, :purge_at_ms, :messages, :steers)
ON CONFLICT (session_id) DO NOTHING
RETURNING key

-- name: update_session
UPDATE sessions
SET epoch = :epoch, title = :title, titled = :titled, source = :source, workspace = :workspace,
    preview = :preview, created_ms = :created_ms, updated_ms = :updated_ms, pinned = :pinned,
    archived = :archived, purge_at_ms = :purge_at_ms, messages = :messages,
    steers = :steers
WHERE session_id = :session_id

-- name: insert_event
INSERT INTO recent (arrival, session, seq, crc, body) VALUES (?, ?, ?, ?, ?)

-- name: insert_large
INSERT INTO events (session, seq, crc, body) VALUES (?, ?, ?, ?)

-- name: move_events
INSERT INTO events (session, seq, crc, body) SELECT session, seq, crc, body FROM recent ORDER BY session, seq

-- name: is_recent
SELECT 1 FROM recent WHERE session = :session AND seq <= :upto_seq LIMIT 1

-- name: empty_recent
DELETE FROM recent

-- name: read_events
SELECT seq, crc, body FROM log
WHERE session = (SELECT key FROM sessions WHERE session_id = :session_id) AND seq > :after
ORDER BY seq LIMIT :limit

-- name: last_seq
SELECT max(coalesce((SELECT max(seq) FROM events WHERE events.session = sessions.key), 0),
           coalesce((SELECT max(seq) FROM recent WHERE recent.session = sessions.key), 0))
FROM sessions WHERE session_id = :session_id

-- name: run
SELECT run_id, session_id, status, outcome, model, first_seq, last_seq, runs.created_ms, runs.updated_ms,
       api_key, targets
FROM runs JOIN sessions ON sessions.key = runs.session
WHERE run_id = :run_id

-- name: put_run
INSERT INTO runs (run_id, session, status, outcome, model, first_seq, last_seq, created_ms, updated_ms,
                  api_key, targets)
VALUES (:run_id, (SELECT key FROM sessions WHERE session_id = :session_id), :status, :outcome, :model,
        :first_seq, :last_seq, :created_ms, :updated_ms, :api_key, :targets)
ON CONFLICT (run_id) DO UPDATE
SET status = excluded.status, outcome = excluded.outcome, model = excluded.model,
    last_seq = excluded.last_seq, updated_ms = excluded.updated_ms, targets = excluded.targets

-- name: runs
SELECT run_id, session_id, status, outcome, model, first_seq, last_seq, runs.created_ms, runs.updated_ms,
       api_key, targets
FROM runs JOIN sessions ON sessions.key = runs.session
WHERE (:status IS NULL OR status = :status)
  AND (:outcomes IS NULL OR outcome IN (SELECT value FROM json_each(:outcomes)))
  AND (:asking IS NULL OR :asking = coalesce((
        SELECT iif(min(kind = 'client_tools'), 'client', 'person') FROM asks
        WHERE asks.session = runs.session AND asks.run_id = runs.run_id AND state = 'open'
        GROUP BY run_id), 'nobody'))
  AND (:before_ms IS NULL OR (runs.created_ms, run_id) < (:before_ms, :before_id))
ORDER BY runs.created_ms DESC, run_id DESC LIMIT :limit

-- name: runs_of_session
SELECT run_id, session_id, status, outcome, model, first_seq, last_seq, runs.created_ms, runs.updated_ms,
       api_key, targets
FROM runs JOIN sessions ON sessions.key = runs.session
WHERE runs.session = (SELECT key FROM sessions WHERE session_id = :session_id)
  AND (:status IS NULL OR status = :status)
  AND (:outcomes IS NULL OR outcome IN (SELECT value FROM json_each(:outcomes)))
  AND (:asking IS NULL OR :asking = coalesce((
        SELECT iif(min(kind = 'client_tools'), 'client', 'person') FROM asks
        WHERE asks.session = runs.session AND asks.run_id = runs.run_id AND state = 'open'
        GROUP BY run_id), 'nobody'))
  AND (:before_ms IS NULL OR (runs.created_ms, run_id) < (:before_ms, :before_id))
ORDER BY runs.created_ms DESC, run_id DESC LIMIT :limit

-- name: add_usage
INSERT INTO usage_days (day, api_key, target, runs, target_runs, relayed_calls, input_tokens, cached_tokens,
                        output_tokens, cost_usd, unpriced_calls)
VALUES (:day, :api_key, :target, :runs, :target_runs, :relayed_calls, :input_tokens, :cached_tokens,
        :output_tokens, :cost_usd, :unpriced_calls)
ON CONFLICT (day, api_key, target) DO UPDATE
SET runs = runs + excluded.runs, target_runs = target_runs + excluded.target_runs,
    relayed_calls = relayed_calls + excluded.relayed_calls,
    input_tokens = input_tokens + excluded.input_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cost_usd = iif(excluded.cost_usd IS NULL, cost_usd, coalesce(cost_usd, 0.0) + excluded.cost_usd),
    unpriced_calls = unpriced_calls + excluded.unpriced_calls

-- name: add_session_usage
INSERT INTO usage_sessions (day, session, runs, relayed_calls, input_tokens, cached_tokens, output_tokens,
                            cost_usd, unpriced_calls)
VALUES (:day, :session, :runs, :relayed_calls, :input_tokens, :cached_tokens, :output_tokens, :cost_usd,
        :unpriced_calls)
ON CONFLICT (day, session) DO UPDATE
SET runs = runs + excluded.runs, relayed_calls = relayed_calls + excluded.relayed_calls,
    input_tokens = input_tokens + excluded.input_tokens,
    cached_tokens = cached_tokens + excluded.cached_tokens,
    output_tokens = output_tokens + excluded.output_tokens,
    cost_usd = iif(excluded.cost_usd IS NULL, cost_usd, coalesce(cost_usd, 0.0) + excluded.cost_usd),
    unpriced_calls = unpriced_calls + excluded.unpriced_calls

-- name: usage
SELECT CASE :by WHEN 'day' THEN CAST(day AS TEXT) WHEN 'target' THEN target WHEN 'key' THEN api_key ELSE '' END
         AS name,
       '', sum(iif(:by = 'target', target_runs, runs)), sum(relayed_calls), sum(input_tokens),
       sum(cached_tokens), sum(output_tokens), sum(cost_usd), sum(unpriced_calls)
FROM usage_days
WHERE day BETWEEN :first_day AND :last_day AND (:api_key IS NULL OR api_key = :api_key)
GROUP BY name
ORDER BY iif(:by = 'day', min(day), 0), sum(cost_usd) DESC, sum(input_tokens + output_tokens) DESC, name
LIMIT :limit

-- name: usage_of_sessions
SELECT session_id, title, sum(runs), sum(relayed_calls), sum(input_tokens), sum(cached_tokens),
       sum(output_tokens), sum(cost_usd), sum(unpriced_calls)
FROM usage_sessions JOIN sessions ON sessions.key = usage_sessions.session
WHERE day BETWEEN :first_day AND :last_day AND purge_at_ms = 0
GROUP BY usage_sessions.session
ORDER BY sum(cost_usd) DESC, sum(input_tokens + output_tokens) DESC, session_id
LIMIT :limit

-- name: ask
SELECT ask_id, session_id, run_id, kind, state, seq, asked_ms, expires_at_ms
FROM asks JOIN sessions ON sessions.key = asks.session
WHERE ask_id = :ask_id

-- name: put_ask
INSERT INTO asks (ask_id, session, run_id, kind, state, seq, asked_ms, expires_at_ms)
VALUES (:ask_id, (SELECT key FROM sessions WHERE session_id = :session_id), :run_id, :kind, :state, :seq,
        :asked_ms, :expires_at_ms)
ON CONFLICT (ask_id) DO UPDATE SET state = excluded.state

-- name: open_asks
SELECT ask_id, session_id, run_id, kind, state, seq, asked_ms, expires_at_ms
FROM asks JOIN sessions ON sessions.key = asks.session
WHERE state = 'open' AND kind <> 'client_tools'
  AND (:session_id = '' OR session_id = :session_id) AND (:source = '' OR source = :source)
ORDER BY asked_ms, session_id, seq LIMIT :limit

-- name: session_ids
SELECT session_id FROM sessions
WHERE session_id >= :prefix AND session_id < :end AND purge_at_ms = 0 ORDER BY session_id LIMIT :limit

-- name: open_ask_count
SELECT count(*) FROM asks WHERE state = 'open' AND kind <> 'client_tools'

-- name: session
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE session_id = :session_id

-- name: sessions
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers,
       (SELECT count(*) FROM runs WHERE runs.session = sessions.key AND status <> 'ended'),
       (SELECT count(*) FROM asks
        WHERE asks.session = sessions.key AND state = 'open' AND kind <> 'client_tools'),
       (SELECT count(*) FROM runs
        WHERE runs.session = sessions.key AND status <> 'ended' AND status <> 'queued')
FROM sessions
WHERE purge_at_ms = 0 AND archived = :archived
  AND (:before_id IS NULL OR (pinned, updated_ms, session_id) < (:before_pinned, :before_ms, :before_id))
  AND source NOT IN (SELECT value FROM json_each(:sources_hidden))
ORDER BY pinned DESC, updated_ms DESC, session_id DESC LIMIT :limit

-- name: listed_session
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers,
       (SELECT count(*) FROM runs WHERE runs.session = sessions.key AND status <> 'ended'),
       (SELECT count(*) FROM asks
        WHERE asks.session = sessions.key AND state = 'open' AND kind <> 'client_tools'),
       (SELECT count(*) FROM runs
        WHERE runs.session = sessions.key AND status <> 'ended' AND status <> 'queued')
FROM sessions WHERE session_id = :session_id

-- name: logs
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE source = :source AND purge_at_ms = 0 ORDER BY created_ms, session_id

-- name: undelivered_steers
SELECT session_id FROM sessions WHERE steers <> '' AND purge_at_ms = 0 ORDER BY key

-- name: claimable
SELECT session_id FROM sessions
WHERE purge_at_ms = 0
  AND (steers <> '' OR EXISTS (SELECT 1 FROM runs WHERE runs.session = sessions.key AND status <> 'ended'))
ORDER BY key LIMIT :limit

-- name: sessions_to_purge
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE purge_at_ms > 0 OR (source = :source AND pinned = 0 AND updated_ms < :before_ms)

-- name: updated_ms
SELECT updated_ms FROM sessions WHERE source = :source AND pinned = 0 AND purge_at_ms = 0
ORDER BY updated_ms DESC LIMIT 1 OFFSET :before

-- name: session_sizes
SELECT session_id, updated_ms,
       (SELECT coalesce(sum(length(body)), 0) FROM events WHERE events.session = sessions.key)
         + (SELECT coalesce(sum(length(body)), 0) FROM recent WHERE recent.session = sessions.key),
       (SELECT json_group_array(blob) FROM blob_refs WHERE blob_refs.session = sessions.key)
FROM sessions
WHERE source = :source AND pinned = 0 AND purge_at_ms = 0
  AND (:before_id IS NULL OR (updated_ms, session_id) < (:before_ms, :before_id))
ORDER BY updated_ms DESC, session_id DESC LIMIT :limit

-- name: unthinned
SELECT session_id FROM sessions
WHERE purge_at_ms = 0 AND created_ms < :before_ms AND thinned_ms < min(updated_ms, :before_ms)
ORDER BY key LIMIT :limit

-- name: thinned
SELECT key, thinned_seq, max(coalesce((SELECT max(seq) FROM events WHERE events.session = sessions.key), 0),
                             coalesce((SELECT max(seq) FROM recent WHERE recent.session = sessions.key), 0))
FROM sessions WHERE session_id = :session_id

-- name: put_thinned
UPDATE sessions SET thinned_seq = max(thinned_seq, :upto_seq), thinned_ms = max(thinned_ms, :upto_ms)
WHERE key = :session

-- name: read_to_thin
SELECT seq, crc, body FROM log WHERE session = :session AND seq > :after ORDER BY seq LIMIT :limit

-- name: read_stretch
SELECT seq, crc, body, coalesce(length, 1) FROM events LEFT JOIN spans USING (session, seq)
WHERE session = :session AND seq BETWEEN :first AND :last ORDER BY seq

-- name: join_stretch
UPDATE events SET crc = :crc, body = :body WHERE session = :session AND seq = :first;
DELETE FROM events WHERE session = :session AND seq > :first AND seq <= :last;
DELETE FROM spans WHERE session = :session AND seq > :first AND seq <= :last;
INSERT OR REPLACE INTO spans (session, seq, length) VALUES (:session, :first, :length)

-- name: once
SELECT digest, answer FROM once WHERE key = :key AND expires_at_ms > :now_ms

-- name: put_once
INSERT OR REPLACE INTO once (key, session, digest, answer, expires_at_ms)
VALUES (:key, :session, :digest, :answer, :expires_at_ms)

-- name: expire_once
DELETE FROM once WHERE key IN (SELECT key FROM once WHERE expires_at_ms <= :now_ms LIMIT 1000)

-- name: note
SELECT value FROM notes WHERE key = :key

-- name: notes
SELECT key, value FROM notes WHERE key >= :prefix AND key < :prefix || char(0x10FFFF) ORDER BY key

-- name: put_note
INSERT INTO notes (key, value) VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value

-- name: add_note
INSERT INTO notes (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING RETURNING 1

-- name: swap_note
UPDATE notes SET value = :value WHERE key = :key AND value = :expected RETURNING 1

-- name: drop_note
DELETE FROM notes WHERE key = :key

-- name: put_blob_ref
INSERT OR IGNORE INTO blob_refs (blob, session) VALUES (?, ?)

-- name: blob_is_named
SELECT EXISTS (SELECT 1 FROM blob_refs WHERE blob = :blob)

-- name: blobs_of_session_alone
SELECT blob FROM blob_refs AS mine
WHERE session = :session
  AND NOT EXISTS (SELECT 1 FROM blob_refs AS other WHERE other.blob = mine.blob AND other.session <> :session)

-- name: piece
SELECT id FROM pieces WHERE hash = :hash

-- name: insert_piece
INSERT INTO pieces (hash, prev, refs, body) VALUES (:hash, :prev, 0, :body) RETURNING id

-- name: refer_to_piece
UPDATE pieces SET refs = refs + 1 WHERE id = :piece

-- name: put_piece_ref
INSERT INTO piece_refs (session, seq, piece) VALUES (:session, :seq, :piece)

-- name: pieces_up_to
WITH RECURSIVE chain (prev, body, back) AS (
  SELECT prev, body, 0 FROM pieces WHERE id = :piece
  UNION ALL
  SELECT pieces.prev, pieces.body, back + 1 FROM chain JOIN pieces ON pieces.id = chain.prev
)
SELECT body FROM chain ORDER BY back DESC

-- name: pieces_of_session
SELECT piece FROM piece_refs WHERE session = :session

-- name: release_piece
UPDATE pieces SET refs = refs - 1 WHERE id = :piece RETURNING refs, prev

-- name: delete_piece
DELETE FROM pieces WHERE id = :piece

-- name: delete_piece_refs
DELETE FROM piece_refs WHERE session = :session

-- name: delete_search_text
DELETE FROM search WHERE rowid = ?

-- name: insert_search_text
INSERT INTO search (rowid, text) VALUES (?, ?)

-- name: search_hits
SELECT search.rowid FROM search JOIN sessions ON sessions.key = search.rowid >> 32
WHERE search MATCH :words AND search.rowid < :below AND purge_at_ms = 0
  AND (:archived IS NULL OR archived = :archived)
ORDER BY search.rowid DESC LIMIT :limit

-- name: search_session
SELECT rowid FROM search
WHERE search MATCH :words
  AND rowid > (SELECT key << 32 FROM sessions WHERE session_id = :session_id AND purge_at_ms = 0)
  AND rowid <= (SELECT (key << 32) + 0xFFFFFFFF FROM sessions WHERE session_id = :session_id)
ORDER BY rowid DESC LIMIT :limit

-- name: search_passages
-- The plus keeps SQLite from asking the full-text index once for each rowid.
SELECT search.rowid, sessions.session_id, sessions.title, snippet(search, 0, char(2), char(3), '…', 16)
FROM search JOIN sessions ON sessions.key = search.rowid >> 32
WHERE search MATCH :words AND search.rowid BETWEEN :lowest AND :highest
  AND +search.rowid IN (SELECT value FROM json_each(:rowids))
ORDER BY search.rowid DESC

-- name: merge_search
INSERT INTO search (search, rank) VALUES ('merge', :pages)

-- name: insert_signpost
INSERT OR REPLACE INTO search (rowid, text) VALUES (-1, '-')

-- name: delete_signpost
DELETE FROM search WHERE rowid = -1

-- name: wiped
DELETE FROM notes WHERE key = 'journal/wiping'

-- name: purge
DELETE FROM search WHERE rowid BETWEEN :session << 32 AND (:session << 32) + 0xFFFFFFFF;
DELETE FROM events WHERE session = :session;
DELETE FROM recent WHERE session = :session;
DELETE FROM spans WHERE session = :session;
DELETE FROM runs WHERE session = :session;
DELETE FROM asks WHERE session = :session;
DELETE FROM once WHERE session = :session;
DELETE FROM blob_refs WHERE session = :session;
DELETE FROM usage_sessions WHERE session = :session;
DELETE FROM notes WHERE key >= :notes_from AND key < :notes_to;
DELETE FROM sessions WHERE key = :session;
INSERT OR REPLACE INTO notes (key, value) VALUES ('journal/wiping', x'')
