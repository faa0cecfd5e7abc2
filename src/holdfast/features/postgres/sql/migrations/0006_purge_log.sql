-- As `purge_session`, but only if the session's log is still this one and ends there: under the same id another server
-- may have begun a new log since, which may be shorter. Returns -1 if it isn't.
CREATE FUNCTION purge_log(id text, log_epoch text, newest bigint, node_incarnation bigint, node_writer bigint)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  found_key bigint;
  found_epoch text;
BEGIN
  -- In the order in which `purge_session` takes its locks.
  PERFORM 1 FROM nodes WHERE incarnation = node_incarnation AND writer = node_writer FOR KEY SHARE;
  SELECT key, epoch INTO found_key, found_epoch FROM sessions WHERE session_id = id FOR UPDATE;
  IF FOUND AND (
    found_epoch <> log_epoch OR (SELECT coalesce(max(seq), 0) FROM events WHERE session = found_key) <> newest
  ) THEN
    RETURN -1;
  END IF;
  RETURN purge_session(id, NULL, node_incarnation, node_writer);
END
$$;
