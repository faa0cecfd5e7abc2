-- `reads` are the types of events that a node can read, and `event_types` those that were ever written. A type is
-- written only if every node reads it, and a node starts only if it reads every type that was written.
ALTER TABLE nodes ADD COLUMN reads       text[] NOT NULL DEFAULT '{}';
ALTER TABLE store ADD COLUMN event_types text[] NOT NULL DEFAULT '{}';
