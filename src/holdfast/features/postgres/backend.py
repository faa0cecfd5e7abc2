"""The database that `server.store` names: how servers open it, and how checks read it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.config.server import BlobStoreSettings
from holdfast.config.settings import Settings
from holdfast.host.lock import identity_of
from holdfast.host.stores import placement_of
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import StoreBackend
from holdfast.interfaces.journal import Record, Store, StoreFailed
from holdfast.interfaces.system_clock import SystemClock
from holdfast.policy.tool_names import BUILT_IN, mcp_labels
from holdfast.redaction import Redactor

if TYPE_CHECKING:
    from holdfast.cli.doctor.findings import DoctorFinding
    from holdfast.features.postgres.objects import BlobBucket
    from holdfast.features.postgres.reader import PostgresReader
    from holdfast.journal.sqlite.integrity import Checked

INSTALL = "pip install 'holdfast[postgres]'"
_HAS_LOGS = "SELECT to_regclass('events') IS NOT NULL"


async def open_store(
    settings: Settings, redactor: Redactor, renewed: Callable[[float], None]
) -> tuple[Store, Clock]:
    """Open the store, and its clock; the caller closes it. It may be readable before it is writable."""
    await asyncio.to_thread(require_postgres)  # reading the library's files would block
    from holdfast.features.postgres.clock import StoreClock
    from holdfast.features.postgres.node import NodeEntry
    from holdfast.features.postgres.store import PostgresStore
    from holdfast.features.postgres.tuning import PostgresTuning

    server = settings.server
    store = await PostgresStore.open_readable(
        str(server.store),
        redactor,
        name=settings.node_name,
        entry=NodeEntry(
            url=server.node_url,
            homes=placement_of(settings).all,
            # The data directory is locked already.
            identity=await asyncio.to_thread(identity_of, settings.data_dir),
            offers=capabilities_of(settings),
            renewed=renewed,
        ),
        tuning=PostgresTuning(direct=str(server.store_direct)),
        objects=await asyncio.to_thread(object_store, server.blob_store),
    )
    return store, StoreClock(SystemClock(), store)


@asynccontextmanager
async def open_reader(settings: Settings) -> "AsyncGenerator[PostgresReader | None]":
    """Read the database without joining its servers."""
    require_postgres()
    from holdfast.features.postgres.connection import Database, Pool
    from holdfast.features.postgres.reader import PostgresReader
    from holdfast.features.postgres.tuning import PostgresTuning

    pool = Pool(Database(str(settings.server.store), PostgresTuning()), "doctor", 1)
    reader = PostgresReader(pool)
    try:
        ((has_logs,),) = await pool.run(lambda connection: connection.fetch(_HAS_LOGS))
        yield reader if has_logs else None
    finally:
        await reader.close()


async def _verify(settings: Settings, fault_of: Callable[[Record], str]) -> "Checked":
    require_postgres()
    from holdfast.features.postgres.copying.postgres_side import verify

    return await verify(settings, fault_of)


async def _back_up(settings: Settings, folder: Path) -> None:
    require_postgres()
    from holdfast.features.postgres.copying.postgres_side import back_up

    await back_up(settings, folder)


async def _restore(settings: Settings, folder: Path) -> None:
    require_postgres()
    from holdfast.features.postgres.copying.postgres_side import restore

    await restore(settings, folder)


def _check(settings: Settings) -> "Sequence[DoctorFinding]":
    from holdfast.features.postgres.doctor import check_database

    return check_database(settings)


def object_store(settings: BlobStoreSettings) -> "BlobBucket | None":
    """The bucket for large blobs, if there is one; raises StoreFailed if it can't be used at all. Blocks."""
    if not settings.bucket:
        return None
    from holdfast.features.postgres.objects import open_objects

    return open_objects(settings)


def capabilities_of(settings: Settings) -> tuple[str, ...]:
    """What this server offers to runs; digests tell two of one name apart, and no secret is in them."""
    targets = [
        f"target:{one.name}={_digest(one.wire, one.base_url, one.model)}" for one in settings.model_targets()
    ]
    models = [f"model:{one.model}" for one in settings.model_targets()]
    label = mcp_labels(server.name for server in settings.mcp_servers)
    servers = [
        f"mcp:{label[one.name]}={_digest(one.command[0] if one.command else one.url.partition('?')[0])}"
        for one in settings.mcp_servers
    ]
    return (*targets, *dict.fromkeys(models), *servers, *(f"tool:{name}" for name in BUILT_IN))


def _digest(*said: str) -> str:
    return sha256("\n".join(said).encode("utf-8", "surrogateescape")).hexdigest()[:12]


def require_postgres() -> None:
    """Raise a StoreFailed that says what to install, if the library for Postgres is missing."""
    try:
        import asyncpg  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        raise StoreFailed(f"A Postgres store needs an extra package. Run: {INSTALL}") from error


BACKEND = StoreBackend(open_store, open_reader, _check, _verify, _back_up, _restore)
