"""What the stores have in common: the tables that are copied row by row, and what a copy reads and writes."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from msgspec import Struct

from holdfast.interfaces.journal import JournalError, Record

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
