"""Stores for tests that aren't about secrets, and one that passes everything on to another."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.features.postgres import store as postgres
from holdfast.journal import memory
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.sqlite import store as sqlite
from holdfast.redaction import NO_SECRETS, Redactor

if TYPE_CHECKING:
    from holdfast.interfaces.journal import Store

    _Store = memory.MemoryStore  # any type that has all methods
else:
    _Store = object


class MemoryStore(memory.MemoryStore):
    def __init__(
        self, disk: MemoryDisk | None = None, *, redactor: Redactor = NO_SECRETS, **more: Any
    ) -> None:
        super().__init__(redactor, disk, **more)


class SqliteStore(sqlite.SqliteStore):
    def __init__(self, path: Path, redactor: Redactor = NO_SECRETS, **more: Any) -> None:
        super().__init__(path, redactor, **more)

    @classmethod
    async def open(cls, path: Path, redactor: Redactor = NO_SECRETS, **more: Any) -> Self:
        return await super().open(path, redactor, **more)

    @classmethod
    async def open_readable(cls, path: Path, redactor: Redactor = NO_SECRETS, **more: Any) -> Self:
        return await super().open_readable(path, redactor, **more)


class PostgresStore(postgres.PostgresStore):
    def __init__(self, dsn: str, redactor: Redactor = NO_SECRETS, **more: Any) -> None:
        super().__init__(dsn, redactor, **more)

    @classmethod
    async def open_readable(cls, dsn: str, redactor: Redactor = NO_SECRETS, **more: Any) -> Self:
        return await super().open_readable(dsn, redactor, **more)

    @classmethod
    async def open(cls, dsn: str, redactor: Redactor = NO_SECRETS, **more: Any) -> Self:
        return await super().open(dsn, redactor, **more)


class WrappedStore(_Store):
    """Passes everything on to another store; a test changes a method."""

    def __init__(self, inner: "Store") -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
