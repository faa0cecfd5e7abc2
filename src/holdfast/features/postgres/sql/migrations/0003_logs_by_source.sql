-- What acts by itself is found by the source of its log.
CREATE INDEX sessions_by_source ON sessions (source, created_ms);
