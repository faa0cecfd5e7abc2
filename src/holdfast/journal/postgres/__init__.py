"""The store in a Postgres database, shared by any number of nodes."""
