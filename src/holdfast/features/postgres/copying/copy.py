"""Copies everything from one store to another, and reads it back to be sure."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.codec import UnreadableEvent
from holdfast.folds.rows import search_text
from holdfast.interfaces.journal import JournalError, Record, StoreDamaged

_pack = msgspec.msgpack.Encoder().encode
Progress = Callable[[int, int], None]

Row: TypeAlias = tuple[Any, ...]

ROWS_AT_ONCE = 1_000
# Events are copied with their logs, and search text is made from them. Each table's first columns, as many as
# KEYS says, are its primary key.
TABLES: Mapping[str, tuple[str, ...]] = {
    "sessions": (
        *("key", "session_id", "epoch", "title", "titled", "source", "workspace", "preview"),
        *("created_ms", "updated_ms", "pinned", "archived", "purge_at_ms", "messages", "steers"),
        *("thinned_seq", "thinned_ms"),
    ),
    "spans": ("session", "seq", "length"),
    "runs": (
        *("run_id", "session", "status", "outcome", "model", "first_seq", "last_seq"),
        *("created_ms", "updated_ms", "api_key", "targets"),
    ),
    "asks": ("ask_id", "session", "run_id", "kind", "state", "seq", "asked_ms", "expires_at_ms"),
    "once": ("key", "session", "digest", "answer", "expires_at_ms"),
    "notes": ("key", "value"),
    "blob_refs": ("blob", "session"),
    "usage_days": (
        *("day", "api_key", "target", "runs", "target_runs", "relayed_calls", "input_tokens"),
        *("cached_tokens", "output_tokens", "cost_usd", "unpriced_calls"),
    ),
    "usage_sessions": (
        *("day", "session", "runs", "relayed_calls", "input_tokens", "cached_tokens", "output_tokens"),
        *("cost_usd", "unpriced_calls"),
    ),
}
KEYS: Mapping[str, int] = {"spans": 2, "blob_refs": 2, "usage_days": 3, "usage_sessions": 2}  # 1 if not here
BOOLEANS = frozenset({"titled", "pinned", "archived"})
OWN_NOTES = "journal/"  # notes that a store keeps for itself


class CopyRefused(JournalError):
    """Nothing was copied; the text says why and what to do."""


class CopiedLog(Struct, frozen=True):
    """A session's log, with the texts in it by which it can be found; seq 0 is the title."""

    key: int
    records: Sequence[Record]
    texts: Mapping[int, str]


class CopySource(Protocol):
    """A store that is read; nobody writes to it meanwhile."""

    def rows(self, table: str) -> AsyncIterator[Sequence[Row]]:
        """The rows of a table by primary key, with texts and numbers as any store can have them."""
        ...

    async def log(self, key: int, session_id: str, *, after: int) -> Sequence[Record]:
        """The next events of a log; raises StoreDamaged if one is not what was written."""
        ...

    async def blob_names(self) -> Sequence[str]:
        """The names of all blobs, in order."""
        ...

    async def blob(self, name: str) -> bytes | None:
        """The bytes of a blob; None if they are gone."""
        ...


class CopyTarget(CopySource, Protocol):
    """An empty store that is written; what it holds counts once it is finished."""

    async def put_rows(self, table: str, rows: Sequence[Row]) -> None:
        """Write rows of a table."""
        ...

    async def put_log(self, log: CopiedLog) -> None:
        """Write the next events of a log."""
        ...

    async def put_blob(self, name: str, data: bytes) -> None:
        """Write a blob."""
        ...

    async def finish(self) -> None:
        """Make everything permanent."""
        ...


def order_of(table: str) -> str:
    """The columns that rows are read by."""
    return ", ".join(TABLES[table][: KEYS.get(table, 1)])


def plain(table: str, rows: Iterable[Sequence[Any]]) -> list[Row]:
    """The rows in the form that any store can have: no U+0000 in a text, and 0 and 1 for false and true."""
    columns = TABLES[table]
    return [tuple(map(_plain, columns, row)) for row in rows]


def _plain(column: str, value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    return int(value) if column in BOOLEANS else value


@dataclass
class Copied:
    """The contents of a store: a digest of each log and table, and their size."""

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
    """Read a store from beginning to end, and return its contents."""
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
