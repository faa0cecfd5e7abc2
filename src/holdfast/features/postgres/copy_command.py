"""`holdfast store copy`: move a store from an SQLite file to a Postgres database, or back."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import Progress, SpinnerColumn

from holdfast.cli.doctor.findings import counted
from holdfast.cli.terminal.output import echo, echo_error
from holdfast.config.load import BadConfiguration, load_configuration
from holdfast.config.value_formats import DATABASE_SCHEMES, shown_database
from holdfast.features.postgres.backend import object_store, require_postgres
from holdfast.features.postgres.copying.copy import Copied, CopyRefused, copy
from holdfast.features.postgres.copying.sqlite_side import FILE, SqliteSource, SqliteTarget
from holdfast.host.lock import DirectoryBusy, DirectoryLock
from holdfast.interfaces.journal import JournalError

if TYPE_CHECKING:
    from holdfast.features.postgres.copying.postgres_side import PostgresSource, PostgresTarget
    from holdfast.features.postgres.objects import BlobBucket

OK, FAILED = 0, 1
ENV = "env:"


def copy_store(source: str, target: str, *, flags: Mapping[str, object] | None = None) -> int:
    """Copy everything and say what was copied; the exit code.

    The configuration, which the flags may name, says where the large blobs of a database are.
    """
    try:
        with ExitStack() as stack:
            objects = object_store(load_configuration(flags or {}).settings.server.blob_store)
            reads = _source(_named(source), stack, objects)
            writes = _target(_named(target), stack, objects)
            copied = asyncio.run(_copy(reads, writes))
    except (BadConfiguration, CopyRefused, DirectoryBusy, JournalError, OSError) as error:
        echo_error(f"holdfast: {error}")
        return FAILED
    sessions, notes = counted(len(copied.logs), "session"), counted(copied.rows["notes"], "note")
    echo(
        f"Copied and verified: {sessions}, {counted(copied.events, 'event')}, "
        f"{counted(len(copied.blobs), 'blob')}, {notes}."
    )
    if copied.missing_blobs:
        echo(f"Skipped {counted(len(copied.missing_blobs), 'blob')}: unreadable in FROM.")
    echo(f"Digest: {copied.digest}")
    return OK


def _named(place: str) -> str:
    """The place itself, or what a variable says, so that no password is on a command line."""
    if not place.startswith(ENV):
        return place
    found = os.environ.get(place.removeprefix(ENV), "")  # noqa: TID251  # this is the edge
    if not found:
        raise CopyRefused(f"the environment variable {place.removeprefix(ENV)} isn't set")
    return found


def _source(
    place: str, stack: ExitStack, objects: "BlobBucket | None"
) -> Callable[[], Awaitable["SqliteSource | PostgresSource"]]:
    if place.startswith(DATABASE_SCHEMES):
        require_postgres()
        from holdfast.features.postgres.copying.postgres_side import PostgresSource

        return partial(PostgresSource.open, place, objects)
    folder = _folder(place)
    if not (folder / FILE).exists():
        raise CopyRefused(f"there is no store in {folder}")
    stack.enter_context(DirectoryLock(folder))
    return partial(SqliteSource.open, folder)


def _target(
    place: str, stack: ExitStack, objects: "BlobBucket | None"
) -> Callable[[], Awaitable["SqliteTarget | PostgresTarget"]]:
    if place.startswith(DATABASE_SCHEMES):
        require_postgres()
        from holdfast.features.postgres.copying.postgres_side import PostgresTarget

        return partial(PostgresTarget.open, place, objects)
    folder = _folder(place)
    stack.enter_context(DirectoryLock(folder))
    return partial(SqliteTarget.open, folder)


def _folder(place: str) -> Path:
    if "://" in place:
        raise CopyRefused(f"{shown_database(place)} is neither a directory nor a postgresql:// URL")
    return Path(place).expanduser().absolute()


async def _copy(
    source: Callable[[], Awaitable["SqliteSource | PostgresSource"]],
    target: Callable[[], Awaitable["SqliteTarget | PostgresTarget"]],
) -> Copied:
    async with AsyncExitStack() as stack:
        bar = Progress("{task.description}", SpinnerColumn(), transient=True, disable=not sys.stdout.isatty())
        stack.enter_context(bar)
        task = bar.add_task("Opening both stores", total=None)

        def on_progress(done: int, total: int) -> None:
            bar.update(task, description=f"Sessions: {done} of {total}")

        reads = await source()
        stack.push_async_callback(reads.close)
        writes = await target()
        stack.push_async_callback(writes.close)
        copied = await copy(reads, writes, on_progress=on_progress)
        if isinstance(writes, SqliteTarget):
            await writes.move()
        return copied
