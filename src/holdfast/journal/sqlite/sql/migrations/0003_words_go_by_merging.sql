-- Taking each word of a deleted text out of the index at once takes seconds for a long session, in one
-- transaction; after a purge, the index is merged in small steps instead, which also leaves no trace.
INSERT INTO search (search, rank) VALUES ('secure-delete', 0);
