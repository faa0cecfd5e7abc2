"""The stores that memories are tested on."""

from journal import conftest

postgres_store = conftest.postgres_store
shared_lab = conftest.shared_lab
