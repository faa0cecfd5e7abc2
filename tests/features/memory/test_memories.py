"""Memories on every store: people and agents who write at the same time, from several servers."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import pytest_asyncio
from typing_extensions import override

from holdfast.features.memory.memories import Memories, MemoryEdit, NotRemembered, user_scope
from holdfast.interfaces.journal import Store
from holdfast.interfaces.system_clock import SystemClock
from holdfast.values import LogEnd
from journal.labs import LABS, Lab, PostgresLab, SqliteLab, emptied, opened
from stores import PostgresStore, WrappedStore

pytestmark = pytest.mark.asyncio(loop_scope="module")

ME = user_scope("me")


Stores = tuple[Store, Store]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def postgres_stores(shared_lab: PostgresLab, postgres_store: Store) -> AsyncIterator[Stores]:
    other = await shared_lab.join()
    yield postgres_store, other
    await other.close()


@pytest.fixture(params=[*LABS, "postgres"])
def opening(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Stores]]:
    if request.param == "postgres":
        return partial(both_emptied, request.getfixturevalue("postgres_stores"))
    return partial(both_opened, LABS[request.param](tmp_path))


@asynccontextmanager
async def both_emptied(stores: Stores) -> AsyncGenerator[Stores]:
    async with emptied(stores[0]):
        yield stores


@asynccontextmanager
async def both_opened(lab: Lab) -> AsyncGenerator[Stores]:
    async with opened(lab) as one:
        if isinstance(lab, SqliteLab):
            yield one, one
            return
        async with opened(lab) as other:
            yield one, other


@pytest_asyncio.fixture(loop_scope="module")
async def stores(opening: Callable[[], AbstractAsyncContextManager[Stores]]) -> AsyncIterator[Stores]:
    """Two of one disk, or the same twice where a disk has only one."""
    async with opening() as made:
        yield made


@pytest.fixture
def store(stores: Stores) -> Store:
    return stores[0]


@pytest.fixture
def two(stores: Stores) -> tuple[Memories, Memories]:
    """The same memory at two servers."""
    return Memories(stores[0], SystemClock()), Memories(stores[1], SystemClock())


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


class Interrupted(WrappedStore):
    """A store at which something else happens once, right before or after a purge or a note is written."""

    def __init__(self, inner: Store, where: str, deed: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self._where = where
        self._deed = deed

    async def _at(self, where: str) -> None:
        if where == self._where:
            self._where = ""
            await self._deed()

    @override
    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        done = "finishing" if not value else "intending"
        await self._at(f"before {done}")
        swapped = await self._inner.swap_note(key, value, expected=expected)
        await self._at(f"after {done}")
        return swapped

    @override
    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        purged = await self._inner.purge(session_id, only=only, then=then)
        await self._at("after purging")
        return purged


PLACES = ["before intending", "after intending", "after purging", "before finishing", "after finishing"]


@pytest.mark.parametrize("where", PLACES)
async def test_two_who_forget_at_the_same_time_both_forget_and_lose_nothing_else(
    two: tuple[Memories, Memories], store: Store, where: str
) -> None:
    """P2, P11: wherever the other one comes in between, with a write of its own before and behind."""
    here, there = two
    await here.put(ME, "document", "knows Tom\nknows Ann\nlikes tea", by="me")

    async def meanwhile() -> None:
        await there.write(ME, MemoryEdit(change_id="c1", document="before", new="kept"), how="auto")
        await there.forget(ME, "Ann")
        await there.write(ME, MemoryEdit(change_id="c2", document="behind", new="kept"), how="auto")

    await Memories(Interrupted(store, where, meanwhile), SystemClock()).forget(ME, "Tom")
    texts = {"document": "likes tea", "before": "kept", "behind": "kept"}
    assert (await here.load(ME)).texts == texts
    assert (await there.load(ME)).texts == texts


async def test_what_is_forgotten_is_gone_though_someone_else_writes_down_what_is_left(
    two: tuple[Memories, Memories], store: Store
) -> None:
    """P11: the other one knew the memory as it was, and says last what of it is to stay."""
    here, _ = two
    await here.put(ME, "document", "knows Tom", by="me")
    await here.put(ME, "document", "knows Tom\nknows Ann\nlikes tea", by="me")
    intended, goes_on = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        intended.set()
        await goes_on.wait()

    other = Memories(Interrupted(store, "after intending", hold), SystemClock())
    async with asyncio.TaskGroup() as group:

        async def meanwhile() -> None:
            group.create_task(other.forget(ME, "Ann"))
            await intended.wait()

        await Memories(Interrupted(store, "after intending", meanwhile), SystemClock()).forget(ME, "Tom")
        assert "Tom" not in (await here.load(ME)).document
        goes_on.set()
    assert (await here.load(ME)).texts == {"document": "likes tea"}


async def test_who_forgets_everything_forgets_what_another_kept(
    two: tuple[Memories, Memories], store: Store
) -> None:
    """P11."""
    here, there = two
    await here.put(ME, "document", "knows Tom\nlikes tea", by="me")
    deed = partial(there.forget, ME, "Tom")
    await Memories(Interrupted(store, "after intending", deed), SystemClock()).forget(ME, "")
    assert (await there.load(ME)).texts == {}


async def test_a_run_is_never_shown_what_was_forgotten(stores: Stores) -> None:
    """Where other nodes write, nothing is kept, as notices can be late. Elsewhere, nothing is read twice."""
    store = stores[0]
    is_shared = isinstance(store, PostgresStore)
    here = Memories(store, SystemClock())
    there = Memories(stores[1] if is_shared else store, SystemClock())
    assert (await here.shown(ME) is await here.shown(ME)) is not is_shared
    for nth in range(3):
        edit = MemoryEdit(change_id=f"c{nth}", document="document", new="likes tea", reason="r")
        await there.write(ME, edit, how="auto")
        assert (await here.shown(ME)).document == "likes tea"
        await there.forget(ME, "likes tea")
        assert (await here.shown(ME)).document == ""
