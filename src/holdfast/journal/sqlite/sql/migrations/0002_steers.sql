-- Messages for an active run that haven't reached it. If the run ended first, the next start gives them a new run.
ALTER TABLE sessions ADD COLUMN steers TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_steered ON sessions (key) WHERE steers <> '';
