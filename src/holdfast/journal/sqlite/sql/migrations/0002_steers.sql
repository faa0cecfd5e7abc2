-- Messages for a run under way that no run has yet; a start gives them a run if theirs has ended without them.
ALTER TABLE sessions ADD COLUMN steers TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_steered ON sessions (key) WHERE steers <> '';
