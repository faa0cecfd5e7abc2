-- The older parts of histories that runs were given. Each piece follows `prev` (0: it is the first), so
-- histories that begin alike share their first pieces. hash covers the piece and all before it; refs counts
-- the events that end their shared part with it, and the pieces that follow it.
CREATE TABLE pieces (
  id   INTEGER PRIMARY KEY,
  hash BLOB    NOT NULL UNIQUE,
  prev INTEGER NOT NULL,
  refs INTEGER NOT NULL,
  body BLOB    NOT NULL
) STRICT;

-- Which event ends with which piece.
CREATE TABLE piece_refs (
  session INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  piece   INTEGER NOT NULL,
  PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
