"""The doctor's checks of the store: integrity, spooled output, and the cost of saving.

The store as checks of the doctor read it.
"""

import asyncio
import fcntl
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from holdfast import events as e
from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.cli.doctor.machine import existing
from holdfast.config.settings import Settings
from holdfast.host.stores import shared_backend
from holdfast.interfaces.journal import JournalError, ReadableStore
from holdfast.journal.spool import read_spool, spool_files
from holdfast.journal.sqlite.integrity import Checked, Progress, check_store
from holdfast.journal.sqlite.reader import SqliteReader
from holdfast.journal.sqlite.store import SqliteStore
from holdfast.redaction import NO_SECRETS
from holdfast.values import Durability

WRITES_MAX, WRITES_S = 200, 1.0
BLOCK, BLOCKS = b"\0" * 4096, 64
SLOW_MS = 50.0
SESSION = "doctor"


def integrity(settings: Settings, *, on_progress: Progress) -> tuple[DoctorFinding, Checked]:
    """Whether everything in the store can be read and is unchanged."""
    path = settings.store_path
    if not os.path.exists(path):  # noqa: PTH110  # never raises
        return ok("store", "none yet"), Checked()
    advice = (
        f"stop the server, copy {settings.data_dir} unchanged, and restore a backup "
        "(see docs/operations.md); Holdfast never repairs a store silently"
    )
    try:
        checked = check_store(path, on_progress=on_progress)
    except JournalError as error:
        return fault("store", str(error), advice), Checked()
    if checked.faults:
        return fault("store", "; ".join(checked.faults), advice, faults=checked.faults), checked
    sizes = (one.stat().st_size for one in (path, path.with_name(f"{path.name}-wal")) if one.exists())
    mib = sum(sizes) / 1024 / 1024
    read = f"{counted(checked.events, 'event')} and {counted(checked.blobs, 'blob')}"
    text = f"intact: {read} checked, {mib:.1f} MiB"
    return ok("store", text, events=checked.events, blobs=checked.blobs), checked


def spool(settings: Settings) -> DoctorFinding:
    """Whether output waits outside the store."""
    try:
        files = spool_files(settings.spool_dir)
        records = sum(1 for file in files for _ in read_spool(file))
    except OSError as error:
        return fault("spool", f"can't read {settings.spool_dir}: {error.strerror}", "give this user access")
    if not files:
        return ok("spool", "empty")
    wait = "waits" if records == 1 else "wait"
    text = f"{counted(records, 'append')} {wait} in {counted(len(files), 'file')} of {settings.spool_dir}"
    return note("spool", text, "nothing to do: the server stores them on its next start", records=records)


def saving(settings: Settings) -> DoctorFinding:
    """How long it takes on this disk to save an event before it's shown (P1)."""
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=existing(settings.data_dir)) as name:
            folder = Path(name)
            raw_ms = _median_ms(_raw(folder / "raw"))
            power_ms = _median_ms(asyncio.run(_commits(folder / "power.db", "power")))
            process_ms = _median_ms(asyncio.run(_commits(folder / "process.db", "process")))
    except (OSError, JournalError) as error:
        return fault("saving", f"a trial write failed: {error}", "check the disk and its permissions")
    facts = {"sync_ms": raw_ms, "commit_ms": power_ms, "commit_without_sync_ms": process_ms}
    text = (
        f"an event is safe on disk after {power_ms:.2f} ms (median; a bare sync takes {raw_ms:.2f} ms); "
        f'with durability = "process" it would take {process_ms:.2f} ms'
    )
    if settings.server.durability == "process":
        advice = 'a power cut can lose the last events; durability = "power" prevents that'
        return note("saving", text, advice, **facts)
    if power_ms > SLOW_MS:
        advice = "this disk is slow; put data_dir on a local SSD, not on a network or USB drive"
        return note("saving", text, advice, **facts)
    return ok("saving", text, **facts)


def _median_ms(took_s: Sequence[float]) -> float:
    return round(statistics.median(took_s) * 1000, 3)


def _raw(path: Path) -> list[float]:
    """How long it takes to sync a block, repeatedly, in a file that doesn't grow."""
    took: list[float] = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.write(file, BLOCK * BLOCKS)
        os.fsync(file)
        began = time.perf_counter()
        while len(took) < WRITES_MAX and time.perf_counter() - began < WRITES_S:
            start = time.perf_counter()
            os.pwrite(file, BLOCK, len(BLOCK) * (len(took) % BLOCKS))
            if sys.platform == "darwin":
                fcntl.fcntl(file, fcntl.F_FULLFSYNC)
            else:
                os.fdatasync(file)
            took.append(time.perf_counter() - start)
    finally:
        os.close(file)
    return took


async def _commits(path: Path, durability: Durability) -> list[float]:
    """How long the real journal takes to append one delta, repeatedly."""
    store = await SqliteStore.open(path, NO_SECRETS, durability=durability)
    took: list[float] = []
    try:
        at_ms = round(time.time() * 1000)
        await store.append(
            SESSION,
            [
                e.SessionCreated(at_ms=at_ms, epoch="0"),
                e.MessageAccepted(at_ms=at_ms, message_id="msg_1", text="hello"),
                e.RunQueued(at_ms=at_ms, run_id="run_1", message_id="msg_1"),
            ],
        )
        fence = await store.claim(SESSION)
        delta = e.TextDelta(at_ms=at_ms, run_id="run_1", segment=1, text="a few words ")
        began = time.perf_counter()
        while len(took) < WRITES_MAX and time.perf_counter() - began < WRITES_S:
            start = time.perf_counter()
            await store.append_run(SESSION, [delta], fence=fence)
            took.append(time.perf_counter() - start)
    finally:
        await store.close()
    return took


@asynccontextmanager
async def store_reader(settings: Settings) -> AsyncGenerator[ReadableStore | None]:
    """The store, to be read; None if there is none yet. Raises a JournalError."""
    if settings.server.store:
        async with shared_backend().reader(settings) as reader:
            yield reader
    elif await asyncio.to_thread(os.path.exists, settings.store_path):  # never raises
        reader = SqliteReader(settings.store_path)
        try:
            yield reader
        finally:
            await reader.close()
    else:
        yield None
