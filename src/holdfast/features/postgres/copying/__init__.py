"""Copies a whole store to another kind of store: an SQLite file to a Postgres database, or the other way."""
