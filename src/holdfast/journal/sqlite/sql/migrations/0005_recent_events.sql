-- The newest events, in the order of their arrival: a commit that writes to many logs touches one page here,
-- and one for each log in `events`. They are moved there in large groups.
CREATE TABLE recent (
  arrival INTEGER PRIMARY KEY,
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  crc     INTEGER NOT NULL,
  body    BLOB    NOT NULL
) STRICT;

CREATE VIEW log AS
  SELECT session, seq, crc, body FROM events
  UNION ALL
  SELECT session, seq, crc, body FROM recent;

-- The last arrival of an event, or of a commit without any.
ALTER TABLE store RENAME COLUMN commits TO arrivals;
