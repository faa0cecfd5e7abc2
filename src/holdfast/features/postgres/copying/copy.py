"""Copies everything from one store to another, and reads it back to be sure."""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from holdfast.codec import UnreadableEvent
from holdfast.features.postgres.copying.sides import OWN_NOTES, TABLES, CopiedLog, CopySource, CopyTarget, Row
from holdfast.folds.rows import search_text
from holdfast.interfaces.journal import Record, StoreDamaged

_pack = msgspec.msgpack.Encoder().encode
Progress = Callable[[int, int], None]


@dataclass
class Copied:
    """What a store holds: a digest of each log and table, and how much it is."""

    logs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    tables: dict[str, bytes] = field(default_factory=dict[str, bytes])
    blobs: list[str] = field(default_factory=list[str])
    missing_blobs: list[str] = field(default_factory=list[str])
    events: int = 0
    rows: Counter[str] = field(default_factory=Counter[str])

    @property
    def digest(self) -> str:
        """One digest of all of it."""
        whole = sha256(_pack([sorted(self.logs.items()), sorted(self.tables.items()), sorted(self.blobs)]))
        return whole.hexdigest()


async def copy(source: CopySource, target: CopyTarget, *, on_progress: Progress) -> Copied:
    """Copy everything; raises StoreDamaged if the copy isn't the same, or the source can't be read."""
    copied = Copied()
    for name in await source.blob_names():
        data = await source.blob(name)
        if data is None:
            copied.missing_blobs.append(name)
            continue
        await target.put_blob(name, data)
        copied.blobs.append(name)
    for table in TABLES:
        async for rows in _digested(source, table, copied):
            await target.put_rows(table, rows)
    sessions = await _sessions(source)
    for nth, (key, session_id) in enumerate(sessions, 1):
        async for records in _log(source, key, session_id, copied):
            await target.put_log(CopiedLog(key, records, _texts(records)))
        on_progress(nth, len(sessions))
    await target.finish()
    found = await contents(target)
    if found.digest != copied.digest:
        raise StoreDamaged(f"the copy isn't the same as the original: {_difference(copied, found)}")
    return copied


async def contents(side: CopySource) -> Copied:
    """What a store holds, read from beginning to end."""
    found = Copied()
    for name in await side.blob_names():
        data = await side.blob(name)
        if data is not None and sha256(data).hexdigest() == name:
            found.blobs.append(name)
    for table in TABLES:
        async for _ in _digested(side, table, found):
            continue
    for key, session_id in await _sessions(side):
        async for _ in _log(side, key, session_id, found):
            continue
    return found


async def _sessions(side: CopySource) -> list[tuple[int, str]]:
    return [(row[0], row[1]) async for rows in side.rows("sessions") for row in rows]


async def _digested(side: CopySource, table: str, copied: Copied) -> AsyncIterator[list[Row]]:
    digest = sha256()
    async for rows in side.rows(table):
        kept = [row for row in rows if table != "notes" or not row[0].startswith(OWN_NOTES)]
        for row in kept:
            digest.update(_pack(row))
        copied.rows[table] += len(kept)
        yield kept
    copied.tables[table] = digest.digest()


async def _log(side: CopySource, key: int, session_id: str, copied: Copied) -> AsyncIterator[list[Record]]:
    digest, after = sha256(), 0
    while records := await side.log(key, session_id, after=after):
        for record in records:
            digest.update(_pack((record.seq, record.body)))
        copied.events += len(records)
        after = records[-1].seq
        yield list(records)
    copied.logs[session_id] = digest.digest()


def _texts(records: list[Record]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for record in records:
        try:
            found = search_text(record.seq, record.event)
        except UnreadableEvent:
            continue  # it is copied as it is; nobody can find it by its text now either
        if found is not None:
            texts[found.seq] = found.text
    return texts


def _difference(wanted: Copied, found: Copied) -> str:
    for session_id, digest in wanted.logs.items():
        if found.logs.get(session_id) != digest:
            return f"session {session_id}"
    for table, digest in wanted.tables.items():
        if found.tables.get(table) != digest:
            return f"table {table}"
    return f"{len(wanted.blobs)} blobs were written, and {len(found.blobs)} are readable"
