-- Taking each word of a deleted text out of the index at once takes seconds for a long session, in one
-- transaction; after a purge the index is merged anew in small steps, and that leaves nothing of it either.
INSERT INTO search (search, rank) VALUES ('secure-delete', 0);
