-- Deltas that were joined: the event at seq replaces this many seqs, including its own. Any other gap is a loss.
CREATE TABLE spans (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  length  INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- How far a log was searched for deltas to join: up to which run's end, and for ends before which time.
ALTER TABLE sessions ADD COLUMN thinned_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN thinned_ms INTEGER NOT NULL DEFAULT 0;
