"""Opens the store that the settings name: an SQLite file, or a Postgres database that servers share."""

import asyncio
from typing import TYPE_CHECKING

from holdfast.config.settings import Settings
from holdfast.config.value_formats import shown_database
from holdfast.interfaces.journal import Store, StoreFailed
from holdfast.journal.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from holdfast.journal.postgres.store import PostgresStore

INSTALL = "pip install 'holdfast[postgres]'"


def store_place(settings: Settings) -> str:
    """Where the store is, for people."""
    return shown_database(settings.server.store) if settings.server.store else str(settings.data_dir)


async def open_store(settings: Settings) -> Store:
    """The store; whoever opens it closes it. It may be readable before it is writable."""
    server = settings.server
    if not server.store:
        return await SqliteStore.open_readable(settings.store_path, durability=server.durability)
    kind = await asyncio.to_thread(_postgres)  # reading its files would block
    return await kind.open_readable(str(server.store), name=settings.node_name, url=server.node_url)


def _postgres() -> "type[PostgresStore]":
    require_postgres()
    from holdfast.journal.postgres.store import PostgresStore

    return PostgresStore


def require_postgres() -> None:
    """Raise a StoreFailed that says what to install, if the library for Postgres is missing."""
    try:
        import asyncpg  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        raise StoreFailed(f"A Postgres store needs one more package. Run: {INSTALL}") from error
