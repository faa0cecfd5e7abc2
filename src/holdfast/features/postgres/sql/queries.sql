-- name: register
-- Only if no process uses the name.
WITH life AS (INSERT INTO lives (name) VALUES (:name) RETURNING incarnation)
INSERT INTO nodes (incarnation, writer, name, url, homes, identity, offers, reads, expires_at)
SELECT incarnation, 1, :name, :url, :homes::text[], :identity, :offers::text[], :reads::text[],
       clock_timestamp() + make_interval(secs => :lease_s)
FROM life
RETURNING incarnation

-- name: event_types
SELECT unnest(event_types) FROM store

-- name: nodes_that_cannot_read
-- A node of a version that doesn't say what it reads has an empty list, and isn't waited for.
SELECT name FROM nodes
WHERE cardinality(reads) > 0 AND NOT reads @> :tags::text[] AND expires_at > clock_timestamp()
ORDER BY name

-- name: add_event_types
UPDATE store SET event_types = ARRAY(SELECT unnest(event_types) UNION SELECT unnest(:tags::text[]) ORDER BY 1)
WHERE NOT event_types @> :tags::text[]

-- name: node_named
SELECT incarnation, url, identity, expires_at, expires_at < clock_timestamp() AS is_expired
FROM nodes WHERE name = :name

-- name: beat
-- The empty notice tells every listener that its connection works.
WITH beat AS (
  UPDATE nodes SET expires_at = clock_timestamp() + make_interval(secs => :lease_s)
  WHERE incarnation = :incarnation RETURNING 1
),
told AS MATERIALIZED (SELECT pg_notify(:channel, ''))
SELECT name, url, incarnation, homes, extract(epoch FROM expires_at - clock_timestamp())::float8 AS lease_left_s,
       EXISTS (SELECT 1 FROM beat) AS is_renewed, extract(epoch FROM clock_timestamp())::float8 AS now_s
FROM nodes, told ORDER BY name

-- name: nodes
SELECT name, url, incarnation, homes, offers, extract(epoch FROM expires_at - clock_timestamp())::float8 AS lease_left_s,
       (SELECT count(*) FROM sessions WHERE owner = incarnation) AS sessions
FROM nodes ORDER BY name

-- name: end_node
-- Waits for a statement of the node that is in flight. 'expired' needs a lease that has run out.
WITH gone AS (
  DELETE FROM nodes
  WHERE incarnation = :incarnation AND (:ended <> 'expired' OR expires_at < clock_timestamp())
  RETURNING incarnation
)
UPDATE lives SET ended_at = clock_timestamp(), ended = :ended FROM gone WHERE lives.incarnation = gone.incarnation

-- name: terminate_blockers
SELECT pg_terminate_backend(pid) FROM unnest(pg_blocking_pids(:pid::integer)) AS pid

-- name: terminate
SELECT pg_terminate_backend(:pid::integer)

-- name: raise_writer
-- Waits for a statement that the last connection left in flight, or voids it.
-- With the name, because a failover can take numbers back and give them again.
UPDATE nodes SET writer = writer + 1 WHERE incarnation = :incarnation AND name = :name RETURNING writer

-- name: server_started
SELECT pg_postmaster_start_time()

-- name: why_nothing
SELECT EXISTS (SELECT 1 FROM nodes WHERE incarnation = :incarnation AND writer = :writer) AS is_alive,
       pg_postmaster_start_time() = :started AS is_same_server

-- name: find_written
SELECT nth
FROM unnest(:session_ids::text[], :seqs::bigint[], :crcs::bigint[])
       WITH ORDINALITY AS ours (session_id, seq, crc, nth)
JOIN sessions USING (session_id)
JOIN events ON events.session = sessions.key AND events.seq = ours.seq AND events.crc = ours.crc

-- name: renew_epoch
WITH renewed AS (UPDATE sessions SET epoch = :epoch WHERE session_id = :session_id RETURNING key)
UPDATE events SET crc = :crc, body = :body FROM renewed WHERE events.session = renewed.key AND seq = 1

-- name: is_node_alive
SELECT EXISTS (SELECT 1 FROM nodes WHERE incarnation = :incarnation AND writer = :writer)

-- name: count_written
SELECT count(*)
FROM events JOIN unnest(:session::bigint[], :seq::bigint[], :crc::bigint[]) AS ours (session, seq, crc)
  USING (session, seq, crc)

-- name: notify
SELECT pg_notify(:channel, :payload)

-- name: session_keys
SELECT nextval(pg_get_serial_sequence('sessions', 'key')) FROM generate_series(1, :count::integer)

-- name: logs_by_key
SELECT key, session_id, epoch FROM sessions WHERE key = ANY (:keys::bigint[])

-- name: logs_by_id
SELECT key, session_id, epoch FROM sessions WHERE session_id = ANY (:session_ids::text[])

-- name: claim
-- Returns whether the earlier owner, if it did not release the session, ended in a crash.
WITH fence AS MATERIALIZED (
  SELECT 1 FROM nodes WHERE incarnation = :incarnation AND writer = :writer FOR KEY SHARE
),
unowned AS MATERIALIZED (
  SELECT key, owner AS earlier FROM sessions
  WHERE session_id = :session_id AND EXISTS (SELECT 1 FROM fence)
    AND (owner IS NULL OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.incarnation = owner))
    AND (home = '' OR home = ANY (:homes::text[]) OR :to_settle)
  FOR NO KEY UPDATE
)
UPDATE sessions SET owner = :incarnation, fence = nextval('fences')
FROM unowned LEFT JOIN lives ON lives.incarnation = unowned.earlier
WHERE sessions.key = unowned.key
RETURNING fence, coalesce(lives.ended <> 'closed', false) AS crashed

-- name: owner
SELECT owner, fence, home, name, url
FROM sessions LEFT JOIN nodes ON nodes.incarnation = owner
WHERE session_id = :session_id

-- name: place
SELECT coalesce(name, '') AS owner, coalesce(url, '') AS url, home,
       home <> '' AND NOT EXISTS (SELECT 1 FROM nodes AS near WHERE home = ANY (near.homes)) AS is_away,
       coalesce((SELECT (extract(epoch FROM max(ended_at)) * 1000)::bigint FROM lives
                 WHERE 'node:' || lives.name = home), 0) AS away_since_ms
FROM sessions LEFT JOIN nodes ON nodes.incarnation = owner
WHERE session_id = :session_id

-- name: reserve_fence
SELECT nextval('fences')

-- name: release
UPDATE sessions SET owner = NULL
WHERE session_id = :session_id AND owner = :incarnation AND fence = :fence
RETURNING key

-- name: claimable
-- Also what this node owns and isn't busy with: a claim or a release whose answer was lost.
SELECT session_id FROM sessions
WHERE purge_at_ms = 0
  AND (owner IS NULL OR NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.incarnation = owner)
       OR (owner = :incarnation AND session_id <> ALL (:busy::text[])))
  AND key IN (SELECT session FROM runs WHERE status <> 'ended' UNION SELECT key FROM sessions WHERE steers <> '')
  AND (home = '' OR home = ANY (:homes::text[])
       OR key IN (SELECT session FROM runs WHERE status = 'stopping'))
ORDER BY key LIMIT :limit

-- name: heads
SELECT key, session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers, owner, fence, home,
       coalesce(last.seq, 0) AS last_seq, last.newest,
       (SELECT count(*) FROM runs WHERE runs.session = sessions.key AND status <> 'ended') AS open_runs,
       (SELECT count(*) FROM asks
        WHERE asks.session = sessions.key AND state = 'open' AND kind <> 'client_tools') AS open_asks,
       (SELECT count(*) FROM runs
        WHERE runs.session = sessions.key AND status <> 'ended' AND status <> 'queued') AS begun_runs
FROM sessions LEFT JOIN LATERAL (
    SELECT seq, substring(body from 1 for 200) AS newest FROM events
    WHERE events.session = sessions.key ORDER BY seq DESC LIMIT 1
) AS last ON true
WHERE session_id = ANY (:session_ids::text[])

-- name: last_seqs
SELECT session_id, (SELECT coalesce(max(seq), 0) FROM events WHERE events.session = sessions.key) AS last_seq
FROM sessions WHERE session_id = ANY (:session_ids::text[])

-- name: runs_by_id
SELECT run_id, session_id, status, outcome, model, first_seq, last_seq, runs.created_ms, runs.updated_ms,
       api_key, targets
FROM runs JOIN sessions ON sessions.key = runs.session
WHERE run_id = ANY (:run_ids::text[])

-- name: asks_by_id
SELECT ask_id, session_id, run_id, kind, state, seq, asked_ms, expires_at_ms
FROM asks JOIN sessions ON sessions.key = asks.session
WHERE ask_id = ANY (:ask_ids::text[])

-- name: once_by_key
SELECT key, digest, answer, expires_at_ms FROM once WHERE key = ANY (:keys::text[])

-- name: expire_once
-- Those named, which are about to be used again, and some others.
DELETE FROM once
WHERE key = ANY (:keys::text[])
   OR key IN (SELECT key FROM once WHERE expires_at_ms <= :now_ms ORDER BY key LIMIT 1000 FOR UPDATE SKIP LOCKED)

-- name: read_events
SELECT seq, crc, body FROM events
WHERE session = (SELECT key FROM sessions WHERE session_id = :session_id) AND seq > :after
ORDER BY seq LIMIT :limit

-- name: read_each
SELECT nth, seq, crc, body
FROM unnest(:session_ids::text[], :afters::bigint[]) WITH ORDINALITY AS place (session_id, after, nth)
JOIN sessions USING (session_id)
CROSS JOIN LATERAL (
  SELECT seq, crc, body FROM events
  WHERE events.session = sessions.key AND seq > place.after ORDER BY seq LIMIT :limit
) AS found
ORDER BY nth, seq

-- name: runs
SELECT run_id, session_id, status, outcome, model, first_seq, last_seq, runs.created_ms, runs.updated_ms,
       api_key, targets
FROM runs JOIN sessions ON sessions.key = runs.session
WHERE (:session_id = '' OR runs.session = (SELECT key FROM sessions WHERE session_id = :session_id))
  AND (:status::text IS NULL OR status = :status)
  AND (:outcomes::text[] IS NULL OR outcome = ANY (:outcomes))
  AND (:asking::text IS NULL OR :asking = coalesce((
        SELECT CASE WHEN bool_and(kind = 'client_tools') THEN 'client' ELSE 'person' END FROM asks
        WHERE asks.session = runs.session AND asks.run_id = runs.run_id AND state = 'open'
        HAVING count(*) > 0), 'nobody'))
  AND (:before_ms::bigint IS NULL OR (runs.created_ms, run_id) < (:before_ms, :before_id::text))
ORDER BY runs.created_ms DESC, run_id DESC LIMIT :limit

-- name: open_asks
SELECT ask_id, session_id, run_id, kind, state, seq, asked_ms, expires_at_ms
FROM asks JOIN sessions ON sessions.key = asks.session
WHERE state = 'open' AND kind <> 'client_tools'
  AND (:session_id::text = '' OR session_id = :session_id) AND (:source::text = '' OR source = :source)
ORDER BY asked_ms, session_id, seq LIMIT :limit

-- name: session_ids
SELECT session_id FROM sessions
WHERE session_id >= :prefix AND session_id < :end AND purge_at_ms = 0 ORDER BY session_id LIMIT :limit

-- name: open_ask_count
SELECT count(*) FROM asks WHERE state = 'open' AND kind <> 'client_tools'

-- name: sessions
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers,
       (SELECT count(*) FROM runs WHERE runs.session = sessions.key AND status <> 'ended') AS open_runs,
       (SELECT count(*) FROM asks
        WHERE asks.session = sessions.key AND state = 'open' AND kind <> 'client_tools') AS open_asks,
       (SELECT count(*) FROM runs
        WHERE runs.session = sessions.key AND status <> 'ended' AND status <> 'queued') AS begun_runs
FROM sessions
WHERE purge_at_ms = 0 AND archived = :archived
  AND (:before_id::text IS NULL
       OR (pinned, updated_ms, session_id) < (:before_pinned::boolean, :before_ms::bigint, :before_id))
  AND source <> ALL (:sources_hidden::text[])
ORDER BY pinned DESC, updated_ms DESC, session_id DESC LIMIT :limit

-- name: changed_since
-- The newest first, so that a node that begins to ask does not get everything there ever was.
SELECT session_id, updated_ms FROM sessions
WHERE archived = false AND pinned IN (false, true) AND purge_at_ms = 0 AND updated_ms > :since_ms
ORDER BY updated_ms DESC LIMIT :limit

-- name: logs
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE source = :source AND purge_at_ms = 0 ORDER BY created_ms, session_id

-- name: undelivered_steers
SELECT session_id FROM sessions WHERE steers <> '' AND purge_at_ms = 0 ORDER BY key

-- name: sessions_to_purge
SELECT session_id, epoch, title, titled, source, workspace, preview, created_ms, updated_ms,
       pinned, archived, purge_at_ms, messages, steers
FROM sessions WHERE purge_at_ms > 0 OR (source = :source AND NOT pinned AND updated_ms < :before_ms)

-- name: updated_ms
SELECT updated_ms FROM sessions WHERE source = :source AND NOT pinned AND purge_at_ms = 0
ORDER BY updated_ms DESC LIMIT 1 OFFSET :before

-- name: session_sizes
SELECT session_id, updated_ms,
       ((SELECT coalesce(sum(octet_length(body)), 0) FROM events WHERE events.session = sessions.key)
          + (SELECT coalesce(sum(blobs.bytes), 0) FROM blob_refs JOIN blobs ON blobs.name = blob_refs.blob
             WHERE blob_refs.session = sessions.key))::bigint
FROM sessions
WHERE source = :source AND NOT pinned AND purge_at_ms = 0
  AND (:before_id::text IS NULL OR (updated_ms, session_id) < (:before_ms::bigint, :before_id))
ORDER BY updated_ms DESC, session_id DESC LIMIT :limit

-- name: unthinned
SELECT session_id FROM sessions
WHERE purge_at_ms = 0 AND created_ms < :before_ms AND thinned_ms < least(updated_ms, :before_ms)
ORDER BY key LIMIT :limit

-- name: thinned
SELECT key, thinned_seq, (SELECT coalesce(max(seq), 0) FROM events WHERE events.session = sessions.key) AS last_seq
FROM sessions WHERE session_id = :session_id

-- name: read_to_thin
SELECT seq, crc, body FROM events WHERE session = :session AND seq > :after ORDER BY seq LIMIT :limit

-- name: read_stretch
SELECT seq, crc, body FROM events WHERE session = :session AND seq BETWEEN :first AND :last ORDER BY seq

-- name: join_stretches
-- A stretch that another node joined meanwhile is no longer complete, and is skipped.
WITH locked AS MATERIALIZED (SELECT key FROM sessions WHERE key = :session FOR NO KEY UPDATE),
complete AS MATERIALIZED (
  SELECT stretch.*,
         (SELECT sum(coalesce(length, 1)) FROM events LEFT JOIN spans USING (session, seq)
          WHERE session = :session AND seq BETWEEN stretch.first AND stretch.last) AS length
  FROM locked, unnest(:firsts::bigint[], :lasts::bigint[], :crcs::bigint[], :bodies::bytea[])
         AS stretch (first, last, crc, body)
  WHERE (SELECT count(*) FROM events WHERE session = :session AND seq BETWEEN stretch.first AND stretch.last)
        = stretch.last - stretch.first + 1
),
joined AS (
  UPDATE events SET crc = complete.crc, body = complete.body
  FROM complete WHERE session = :session AND seq = complete.first
),
old_spans AS (
  DELETE FROM spans USING complete WHERE session = :session AND seq > complete.first AND seq <= complete.last
),
spans_put AS (
  INSERT INTO spans (session, seq, length) SELECT :session, first, length FROM complete
  ON CONFLICT (session, seq) DO UPDATE SET length = excluded.length
),
examined AS (
  UPDATE sessions
  SET thinned_seq = greatest(thinned_seq, :upto_seq), thinned_ms = greatest(thinned_ms, :upto_ms)
  FROM locked WHERE sessions.key = locked.key
)
DELETE FROM events USING complete WHERE session = :session AND seq > complete.first AND seq <= complete.last

-- name: purge
SELECT purge_session(:session_id, NULL, :incarnation, :writer)

-- name: purge_only
SELECT purge_log(:session_id, :epoch, :last_seq, :incarnation, :writer)

-- name: note
SELECT value FROM notes WHERE key = :key

-- name: notes
SELECT key, value FROM notes WHERE starts_with(key, :prefix) ORDER BY key

-- name: put_note
INSERT INTO notes (key, value) VALUES (:key, :value)
ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = notes.version + 1

-- name: add_note
INSERT INTO notes (key, value) VALUES (:key, :value) ON CONFLICT (key) DO NOTHING

-- name: swap_note
UPDATE notes SET value = :value, version = version + 1 WHERE key = :key AND value = :expected

-- name: drop_note
DELETE FROM notes WHERE key = :key

-- name: put_blob
WITH blob AS (
  INSERT INTO blobs (name, bytes, touched_at, promised, offered)
  VALUES (:name, :bytes, clock_timestamp(), :promised, :offered)
  ON CONFLICT (name) DO UPDATE
  SET touched_at = excluded.touched_at, promised = blobs.promised + excluded.promised,
      offered = blobs.offered + excluded.offered
  RETURNING name
)
INSERT INTO blob_pieces (name, nth, data)
SELECT name, nth, data FROM blob, unnest(:pieces::bytea[]) WITH ORDINALITY AS piece (data, nth)
ON CONFLICT (name, nth) DO UPDATE SET data = excluded.data WHERE blob_pieces.data <> excluded.data

-- name: keep_blob
UPDATE blobs
SET promised = promised + 1, offered = greatest(offered - 1, 0), touched_at = clock_timestamp()
WHERE name = :name
RETURNING name

-- name: blob
SELECT bytes, data, object.key, object.place
FROM blobs LEFT JOIN blob_pieces USING (name) LEFT JOIN blob_objects AS object ON object.blob = name
WHERE name = :name ORDER BY nth

-- name: blob_place
SELECT EXISTS (SELECT FROM blob_pieces WHERE name = :name) AS has_pieces,
       (SELECT key FROM blob_objects WHERE blob = :name) AS key

-- name: begin_object
INSERT INTO blob_objects (key, place, due_at)
VALUES (:key, :place, clock_timestamp() + make_interval(secs => :kept_s))
ON CONFLICT DO NOTHING

-- name: put_object
SELECT put_blob_object(:key, :name, :bytes, :promised, :offered, :broken)

-- name: due_objects
SELECT key FROM blob_objects WHERE blob IS NULL AND due_at <= clock_timestamp() ORDER BY due_at LIMIT 100

-- name: forget_objects
DELETE FROM blob_objects WHERE key = ANY (:keys::text[]) AND blob IS NULL

-- name: objects_to_check
SELECT key, blob, bytes FROM blob_objects JOIN blobs ON name = blob
WHERE NOT EXISTS (SELECT FROM blob_pieces AS piece WHERE piece.name = blob) ORDER BY blob LIMIT :limit

-- name: blobs_in_objects
SELECT place, count(*) AS blobs, sum(bytes)::bigint AS bytes
FROM blob_objects JOIN blobs ON name = blob
WHERE NOT EXISTS (SELECT FROM blob_pieces AS piece WHERE piece.name = blob)
GROUP BY place ORDER BY place

-- name: sweep_blobs
-- An append that names a blob touches its row, so a blob that was named meanwhile is no longer old.
WITH old AS MATERIALIZED (
  SELECT name FROM blobs
  WHERE touched_at < now() - make_interval(secs => :unnamed_for_s)
    AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = name)
  ORDER BY name LIMIT 100 FOR UPDATE SKIP LOCKED
),
gone AS (DELETE FROM blobs USING old WHERE blobs.name = old.name RETURNING blobs.name),
pieces AS (DELETE FROM blob_pieces USING old WHERE blob_pieces.name = old.name)
SELECT count(*) FROM gone

-- name: usage
SELECT CASE :by::text WHEN 'day' THEN day::text WHEN 'target' THEN target WHEN 'key' THEN api_key ELSE '' END COLLATE "C"
         AS name,
       '' AS label, sum(CASE :by WHEN 'target' THEN target_runs ELSE runs END)::bigint, sum(relayed_calls)::bigint,
       sum(input_tokens)::bigint, sum(cached_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_usd),
       sum(unpriced_calls)::bigint
FROM usage_days
WHERE day BETWEEN :first_day AND :last_day AND (:api_key::text IS NULL OR api_key = :api_key)
GROUP BY 1
ORDER BY CASE :by WHEN 'day' THEN min(day) ELSE 0 END, sum(cost_usd) DESC NULLS LAST,
         sum(input_tokens + output_tokens) DESC, 1
LIMIT :limit

-- name: usage_of_sessions
SELECT session_id, title, sum(runs)::bigint, sum(relayed_calls)::bigint, sum(input_tokens)::bigint,
       sum(cached_tokens)::bigint, sum(output_tokens)::bigint, sum(cost_usd), sum(unpriced_calls)::bigint
FROM usage_sessions JOIN sessions ON sessions.key = usage_sessions.session
WHERE day BETWEEN :first_day AND :last_day AND purge_at_ms = 0
GROUP BY sessions.key
ORDER BY sum(cost_usd) DESC NULLS LAST, sum(input_tokens + output_tokens) DESC, session_id
LIMIT :limit

-- name: search
-- A text in one row has all words there. The words of one in several rows may be spread over them.
WITH hits AS MATERIALIZED (
  SELECT session, seq FROM texts WHERE parts = 1 AND words @@ :all_words::text::tsquery
  UNION ALL
  SELECT session, seq
  FROM texts JOIN unnest(:each_word::text[]) AS one (word) ON words @@ one.word::tsquery
  WHERE parts > 1
  GROUP BY session, seq HAVING count(DISTINCT one.word) = :words
)
SELECT hits.session, seq, session_id, title
FROM hits JOIN sessions ON sessions.key = hits.session
WHERE (hits.session, seq) < (:below_session::bigint, :below_seq::bigint) AND purge_at_ms = 0
  AND (:session_id = '' OR (session_id = :session_id AND seq > 0))
  AND (:archived::boolean IS NULL OR archived = :archived)
ORDER BY hits.session DESC, seq DESC LIMIT :limit

-- name: texts
SELECT session, seq, text
FROM texts JOIN unnest(:sessions::bigint[], :seqs::bigint[]) AS wanted (session, seq) USING (session, seq)
WHERE part = 0
