-- Deltas that were joined: the event at seq stands for so many seqs, its own among them. Any other gap is a loss.
CREATE TABLE spans (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  length  INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;

-- How far a log was looked through for deltas to join: up to which ending of a run, and for endings until when.
ALTER TABLE sessions ADD COLUMN thinned_seq INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN thinned_ms INTEGER NOT NULL DEFAULT 0;
