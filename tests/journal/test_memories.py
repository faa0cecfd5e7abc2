"""Memories on every store: people and agents who write at the same time, from several servers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest

from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.tools.memory.memories import Memories, MemoryEdit, NotRemembered, user_scope
from journal.labs import Lab

ME = user_scope("me")


@pytest.fixture
async def two(lab: Lab, store: Store) -> AsyncIterator[tuple[Memories, Memories]]:
    """The same memory at two servers."""
    other = await lab.open()
    yield Memories(store, SystemClock()), Memories(other, SystemClock())
    await other.close()


async def propose(memories: Memories, change_id: str, text: str) -> None:
    edit = MemoryEdit(change_id=change_id, document="document", new=text, reason="r")
    await memories.propose(ME, edit, because=())


async def outcome(deed: Awaitable[object]) -> str:
    try:
        await deed
    except NotRemembered as error:
        return str(error)
    return "done"


async def test_of_two_verdicts_one_counts_and_the_other_is_told(two: tuple[Memories, Memories]) -> None:
    """P8: also if they come at the same time at two servers."""
    here, there = two
    for nth in range(10):
        await propose(here, f"c{nth}", f"fact {nth}")
        accepted, rejected = await asyncio.gather(
            outcome(here.decide(ME, accept=[f"c{nth}"], by="ann")),
            outcome(there.decide(ME, reject=[f"c{nth}"], by="bob")),
        )
        memory = await here.load(ME)
        is_there = f"fact {nth}" in memory.document.split("\n")
        assert [accepted, rejected].count("done") == 1, (accepted, rejected)
        assert is_there == (accepted == "done")
        assert not memory.proposals
        assert (await there.load(ME)).texts == memory.texts


async def test_writes_at_two_servers_all_count_and_a_repeated_one_counts_once(
    two: tuple[Memories, Memories],
) -> None:
    """P2, P6."""
    edits = [MemoryEdit(change_id=f"c{nth}", document=f"note {nth}", new=f"fact {nth}") for nth in range(6)]
    writes = [memories.write(ME, edit, how="auto") for edit in edits for memories in two]
    await asyncio.gather(*writes)
    memory = await two[1].load(ME)
    assert memory.texts == {f"note {nth}": f"fact {nth}" for nth in range(6)}
    assert len(memory.history) == 6


async def test_a_change_that_outlives_a_forgetting_is_made_once(two: tuple[Memories, Memories]) -> None:
    """P2: whoever wrote it looks for it in the new log, under the same id."""
    here, there = two
    await here.put(ME, "secret", "Tom", by="me")
    edit = MemoryEdit(change_id="c1", document="note", new="kept")
    await there.write(ME, edit, how="auto")
    await here.forget(ME, "Tom")
    assert (await there.write(ME, edit, how="auto")).texts == {"note": "kept"}


async def test_what_is_written_while_something_is_forgotten_is_kept_or_refused(
    two: tuple[Memories, Memories],
) -> None:
    """P2, P11: no write that succeeded is lost with the log, and no forgotten text comes back."""
    here, there = two
    for nth in range(5):
        await here.put(ME, "secret", f"Tom {nth}", by="me")
        edit = MemoryEdit(change_id=f"c{nth}", document=f"note {nth}", new="kept")
        forgotten, written = await asyncio.gather(
            outcome(here.forget(ME, "Tom")), outcome(there.write(ME, edit, how="auto"))
        )
        memory = await there.load(ME)
        assert (forgotten, written) == ("done", "done")
        assert "secret" not in memory.texts
        assert all(memory.texts[f"note {earlier}"] == "kept" for earlier in range(nth + 1))
