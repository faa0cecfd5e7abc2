"""The stores that memories are tested on."""

from journal.conftest import postgres_store as postgres_store
from journal.conftest import shared_lab as shared_lab
