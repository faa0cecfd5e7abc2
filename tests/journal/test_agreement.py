"""Index and log always agree: after any appends every store says the same, and so does a fold of the log."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import apsw
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from holdfast.events import Event, Input
from holdfast.folds import rows
from holdfast.interfaces.index import RunQuery, SessionQuery
from holdfast.interfaces.journal import (
    Condition,
    IfAskOpen,
    IfRunOpen,
    IfSessionKnown,
    IfSessionNew,
    Store,
    UnknownSession,
)
from holdfast.journal.search_terms import fts_query, passage, phrases
from holdfast.journal.sqlite.reader import SqliteReader
from journal.labs import MemoryLab, SqliteLab
from journal.sample import created
from strategies.any_event import any_events

SESSIONS = ["s1", "s2"]
LATE_MS = 1 << 60
CONDITIONS = st.sampled_from(
    [
        IfSessionNew(),
        IfSessionKnown(),
        IfRunOpen("0"),
        IfRunOpen(""),
        IfAskOpen("0"),
    ]
)
Step = tuple[str, str, Sequence[Event], Sequence[Condition]]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "append_run", "purge", "thin", "reopen"]),
        st.sampled_from(SESSIONS),
        st.lists(any_events() | st.builds(created, title=st.text(max_size=9)), min_size=1, max_size=4),
        st.lists(CONDITIONS, max_size=1),
    ),
    max_size=12,
)


async def take(store: Store, step: Step) -> object:
    action, session_id, events, when = step
    try:
        match action:
            case "append_run":
                fence = await store.claim(session_id)
                return await store.append_run(session_id, events, fence=fence, when=when)
            case "purge":
                return await store.purge(session_id)
            case "thin":
                return sum([gone async for gone in store.thin(session_id, before_ms=LATE_MS)])
            case _:
                inputs: list[Input] = [created(), *events]  # pyright: ignore[reportAssignmentType]
                return await store.append(session_id, inputs, when=when)
    except UnknownSession as unknown:
        return type(unknown)


async def picture(store: Store | SqliteReader) -> dict[str, Any]:
    """All that a store says of its sessions."""
    runs = await store.runs(RunQuery(limit=1_000))
    return {
        "logs": {s: [(r.seq, r.body) for r in await store.read(s)] for s in SESSIONS},
        "rows": [await store.session(session_id) for session_id in SESSIONS],
        "ends": [await store.last_seq(session_id) for session_id in SESSIONS],
        "listed": [await store.listed(session_id) for session_id in SESSIONS],
        "list": await store.sessions(SessionQuery(sources_hidden=())),
        "archive": await store.sessions(SessionQuery(archived=True)),
        "runs": runs,
        "each run": [await store.run(run.run_id) for run in runs],
        "asks": await store.open_asks(),
        "unthinned": list(await store.unthinned(before_ms=LATE_MS)),
    }


async def folded(store: Store, session_id: str) -> rows.SessionRow | None:
    """The session's row as the log alone gives it."""
    row = rows.SessionRow(session_id=session_id)
    records = await store.read(session_id)
    for record in records:
        row = rows.apply_to_session(row, record.event)
    return row if records else None


async def play(steps: Sequence[Step], folder: Path) -> None:
    labs = [MemoryLab(), SqliteLab(folder)]
    stores = [await lab.open() for lab in labs]
    for step in steps:
        if step[0] == "reopen":
            await asyncio.gather(*[store.close() for store in stores])
            stores = [await lab.open() for lab in labs]
            continue
        one, other = [await take(store, step) for store in stores]
        assert one == other
    memory, sqlite = [await picture(store) for store in stores]
    assert memory == sqlite
    # The store answers much of it from memory; the file must say the same.
    reader = SqliteReader(folder / "journal.db")
    assert await picture(reader) == sqlite
    await reader.close()
    for session_id, row in zip(SESSIONS, sqlite["rows"], strict=True):
        assert await folded(stores[1], session_id) == row
    await asyncio.gather(*[store.close() for store in stores])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(STEPS)
def test_memory_and_sqlite_say_the_same_after_any_script(steps: Sequence[Step]) -> None:
    with TemporaryDirectory() as folder:
        asyncio.run(play(steps, Path(folder)))


LETTERS = st.text("abAÉéüö09 -_.,'\"*()\t", max_size=24)


@given(LETTERS, LETTERS)
def test_a_query_means_the_same_in_memory_and_in_the_full_text_index(text: str, query: str) -> None:
    """For letters that both know; of characters that Unicode has not assigned each has its own opinion."""
    database = apsw.Connection(":memory:")
    database.execute(
        "CREATE VIRTUAL TABLE search USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2')"
    )
    database.execute("INSERT INTO search VALUES (?)", (text,))
    wanted = phrases(query)
    assume(wanted)
    found = database.execute("SELECT 1 FROM search WHERE search MATCH ?", (fts_query(wanted),)).fetchall()
    assert bool(found) == (passage(text, wanted) is not None)
    database.close()
