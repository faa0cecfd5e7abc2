"""Where stores come from in these tests: a lab is one disk, on which any number of stores can be opened."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from holdfast.features.postgres.connection import Database
from holdfast.features.postgres.node import end_node
from holdfast.features.postgres.objects import BlobBucket
from holdfast.features.postgres.tuning import PostgresTuning
from holdfast.interfaces.journal import Store
from holdfast.journal.follow import WINDOW_BYTES_MAX
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.sqlite.tuning import Tuning
from stores import MemoryStore, PostgresStore, SqliteStore


class Lab(Protocol):
    """One disk; each store opened on it is like one more process."""

    async def open(self, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> Store:
        """A store that owns the disk from now on; its opener closes it."""
        ...


@dataclass
class MemoryLab:
    disk: MemoryDisk = field(default_factory=MemoryDisk)

    async def open(self, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> Store:
        return MemoryStore(self.disk, window_bytes_max=window_bytes_max)


@dataclass
class SqliteLab:
    folder: Path
    vfs: str | None = None
    kind: type[SqliteStore] = SqliteStore
    tuning: Tuning | None = None
    stores: list[SqliteStore] = field(default_factory=list[SqliteStore])

    @property
    def path(self) -> Path:
        return self.folder / "journal.db"

    async def open(self, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> Store:
        store = await self.kind.open(
            self.path, vfs=self.vfs, window_bytes_max=window_bytes_max, tuning=self.tuning
        )
        self.stores.append(store)
        return store

    async def close(self) -> None:
        """Close every store that a failed check left open; its threads would write into later tests."""
        for store in self.stores:
            await store.close()


# A database on a busy machine is slow, and not away.
PATIENT_TUNING = PostgresTuning(connect_s=60, write_s=60, resolve_s=60)


@dataclass
class PostgresLab:
    dsn: str
    tuning: PostgresTuning = PATIENT_TUNING
    kind: type[PostgresStore] = PostgresStore
    direct: str = ""
    objects: BlobBucket | None = None
    stores: list[PostgresStore] = field(default_factory=list[PostgresStore])

    async def open(self, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> Store:
        """A node that owns everything from now on: the others are taken for dead."""
        store = await self.join(window_bytes_max=window_bytes_max)
        await self.take_over(store)
        return store

    async def join(self, *, window_bytes_max: int = WINDOW_BYTES_MAX) -> PostgresStore:
        """One more node beside those that are there."""
        store = await self.kind.open(
            self.dsn,
            name=f"node-{len(self.stores) + 1}",
            objects=self.objects,
            tuning=replace(self.tuning, window_bytes_max=window_bytes_max, direct=self.direct),
        )
        self.stores.append(store)
        return store

    async def close(self) -> None:
        """Close every store, whoever forgot to."""
        for store in self.stores:
            await store.close()

    async def take_over(self, store: Store) -> None:
        """End every other node, as if its lease had run out."""
        tuning = self.tuning
        for node in await store.nodes():
            if node.name != store.node.name:
                await end_node(
                    Database(self.dsn, tuning), node.incarnation, ended="replaced", lock_s=tuning.lock_s
                )


@asynccontextmanager
async def opened(lab: Lab) -> AsyncGenerator[Store]:
    """A store of this lab alone."""
    store = await lab.open()
    yield store
    await store.close()


@asynccontextmanager
async def emptied(store: Store) -> AsyncGenerator[Store]:
    """A store that others have used, without the sessions, notes and blobs that they left in it."""
    deleted = [row.session_id for row in await store.sessions_to_purge(source="", before_ms=0)]
    for session_id in {*await store.session_ids(""), *deleted}:
        await store.purge(session_id)
    for key in await store.notes(""):
        await store.drop_note(key)
    await store.sweep_blobs(unnamed_for_s=-60.0)
    yield store


async def until(holds: Callable[[], bool]) -> None:
    """Let other tasks and threads run until something holds that nobody tells us of."""
    while not holds():  # noqa: ASYNC110  # threads ring no asyncio.Event when they end
        await asyncio.sleep(0)


def memory_lab(_folder: Path) -> Lab:
    return MemoryLab()


# A new backend joins the conformance suite with one line here.
LABS: dict[str, Callable[[Path], Lab]] = {
    "memory": memory_lab,
    "sqlite": SqliteLab,
}
