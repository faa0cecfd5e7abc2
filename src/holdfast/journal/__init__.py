"""Where events are kept: in memory, or in one SQLite file."""

from holdfast.interfaces import Store
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.journal.sqlite import SqliteStore

# The type checker proves here that both keep to the seam.
IMPLEMENTATIONS: tuple[type[Store], ...] = (MemoryStore, SqliteStore)

__all__ = ["IMPLEMENTATIONS", "MemoryDisk", "MemoryStore", "SqliteStore"]
