"""Opens the store that the settings name: an SQLite file, or a Postgres database that servers share."""

import asyncio
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from holdfast.agent.placement import Placement
from holdfast.config.server import BlobStoreSettings
from holdfast.config.settings import Settings
from holdfast.config.value_formats import shown_database
from holdfast.host.lock import identity_of
from holdfast.interfaces.journal import Store, StoreFailed
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.policy.tool_names import BUILT_IN, mcp_labels
from holdfast.redaction import Redactor

if TYPE_CHECKING:
    from holdfast.journal.postgres.node import NodeEntry
    from holdfast.journal.postgres.objects import BlobBucket
    from holdfast.journal.postgres.store import PostgresStore
    from holdfast.tools.shell.lease_watchdog import LeaseWatchdog

INSTALL = "pip install 'holdfast[postgres]'"


def store_place(settings: Settings) -> str:
    """Where the store is, for people."""
    return shown_database(settings.server.store) if settings.server.store else str(settings.data_dir)


async def open_store(
    settings: Settings, redactor: Redactor, watchdog: "LeaseWatchdog | None" = None
) -> Store:
    """The store; whoever opens it closes it. It may be readable before it is writable.

    `watchdog` is told whenever the lease of a store that servers share is renewed.
    """
    server = settings.server
    if not server.store:
        return await SqliteStore.open_readable(settings.store_path, redactor, durability=server.durability)
    kind = await asyncio.to_thread(_postgres)  # reading its files would block
    from holdfast.journal.postgres.tuning import PostgresTuning

    entry = await asyncio.to_thread(_entry, settings, watchdog)
    return await kind.open_readable(
        str(server.store),
        redactor,
        name=settings.node_name,
        entry=entry,
        tuning=PostgresTuning(direct=str(server.store_direct)),
        objects=await asyncio.to_thread(object_store, server.blob_store),
    )


def object_store(settings: BlobStoreSettings) -> "BlobBucket | None":
    """The bucket for large blobs, if there is one; raises StoreFailed if it can't be used at all. Blocks."""
    if not settings.bucket:
        return None
    from holdfast.journal.postgres.objects import Bucket, open_objects

    return open_objects(
        Bucket(
            name=settings.bucket,
            endpoint=settings.endpoint,
            region=settings.region,
            prefix=settings.prefix,
            access_key_id=str(settings.access_key_id),
            secret_access_key=str(settings.secret_access_key),
        )
    )


def _entry(settings: Settings, watchdog: "LeaseWatchdog | None") -> "NodeEntry":
    """What this server says about itself to the others; the data directory is locked already. Blocks."""
    from holdfast.journal.postgres.node import NodeEntry

    entry = NodeEntry(
        url=settings.server.node_url,
        homes=placement_of(settings).all,
        identity=identity_of(settings.data_dir),
        offers=capabilities_of(settings),
    )
    return entry if watchdog is None else replace(entry, renewed=watchdog.renewed)


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


def placement_of(settings: Settings) -> Placement:
    """The homes of sessions that this server can continue; a store of one server needs none."""
    return Placement(settings.node_name, settings.volumes) if settings.server.store else Placement()


def _postgres() -> "type[PostgresStore]":
    require_postgres()
    from holdfast.journal.postgres.store import PostgresStore

    return PostgresStore


def require_postgres() -> None:
    """Raise a StoreFailed that says what to install, if the library for Postgres is missing."""
    try:
        import asyncpg  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ModuleNotFoundError as error:
        raise StoreFailed(f"A Postgres store needs an extra package. Run: {INSTALL}") from error
