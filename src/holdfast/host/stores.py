"""Opens the store that the settings name: an SQLite file, or a store that servers share."""

from collections.abc import Callable

from holdfast.agent.placement import Placement
from holdfast.catalog import FEATURES
from holdfast.config.settings import Settings
from holdfast.config.value_formats import shown_database
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import StoreBackend
from holdfast.interfaces.journal import Store, StoreFailed
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import Redactor


def store_place(settings: Settings) -> str:
    """Where the store is, for people."""
    return shown_database(settings.server.store) if settings.server.store else str(settings.data_dir)


async def open_store(
    settings: Settings, redactor: Redactor, renewed: Callable[[float], None]
) -> tuple[Store, Clock]:
    """Open the store, and its clock; the caller closes it. It may be readable before it is writable.

    `renewed` is called whenever the lease of a store that servers share is renewed.
    """
    if settings.server.store:
        return await shared_backend().open(settings, redactor, renewed)
    durability = settings.server.durability
    store = await SqliteStore.open_readable(settings.store_path, redactor, durability=durability)
    return store, SystemClock()


def shared_backend() -> StoreBackend:
    """Return the backend of stores that servers share; raises StoreFailed if its feature is absent."""
    for feature in FEATURES.values():
        if feature.store:
            return feature.part(feature.store)
    raise StoreFailed("server.store needs the feature postgres, which isn't installed")


def placement_of(settings: Settings) -> Placement:
    """The homes of sessions that this server can continue; a store of one server needs none."""
    return Placement(settings.node_name, settings.volumes) if settings.server.store else Placement()
