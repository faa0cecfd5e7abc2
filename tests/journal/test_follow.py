"""Following a log: live and replay are one path, and nobody who leaves is remembered."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest

from holdfast.interfaces.journal import Record, Store
from holdfast.journal.follow import QUIET_RECORDS_MAX, Follower
from journal.labs import Lab
from journal.promise_checks import check_a_follower_misses_and_repeats_nothing, drain, first_seqs
from journal.sample import begin, created, delta, message, say, seqs, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_any_cursor_p7_gives_the_same_log(lab: Lab) -> None:
    await check_a_follower_misses_and_repeats_nothing(lab)


async def test_a_batch_is_never_empty_and_its_records_are_in_order(store: Store) -> None:
    fence = await begin(store)
    await say(store, 600, fence=fence)
    found: list[int] = []
    async for batch in store.follow("s1"):
        assert batch
        found += seqs(batch)
        if found[-1] == 601:
            break
    assert all(after == before + 1 for before, after in pairwise([0, *found]))


async def test_a_session_can_be_followed_before_it_exists(store: Store) -> None:
    waiting = asyncio.ensure_future(first_seqs(store, 2, session_id="later"))
    await asyncio.sleep(0)
    await store.append("later", [created(), message("hello")])
    assert await waiting == [1, 2]


async def test_a_cursor_ahead_of_the_log_waits_for_what_comes_after_it(store: Store) -> None:
    fence = await begin(store)
    waiting = asyncio.ensure_future(first_seqs(store, 1, after=3))
    await asyncio.sleep(0)
    await say(store, 3, fence=fence)
    assert await waiting == [4]


async def test_followers_of_one_session_share_its_records(store: Store) -> None:
    fence = await begin(store)
    followers = [store.follow("s1") for _ in range(2)]
    for follower in followers:
        assert seqs(await anext(aiter(follower))) == [1]
    waiting = [asyncio.ensure_future(anext(aiter(follower))) for follower in followers]
    await store.append_run("s1", [delta("x")], fence=fence)
    (one,), (other,) = await asyncio.gather(*waiting)
    assert one is other
    assert one.frame.startswith(b'id: 2\ndata: {"seq":2,"type":"text.delta"')


async def test_who_follows_seldom_gets_deltas_with_the_event_after_them(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    eager, patient = store.follow("s1", after=2), store.follow("s1", after=2, pace="seldom")
    waiting = asyncio.ensure_future(anext(aiter(patient)))
    for nth in range(3):
        step = asyncio.ensure_future(anext(aiter(eager)))
        await asyncio.sleep(0)
        await store.append_run("s1", [delta("x")], fence=fence)
        assert seqs(await step) == [3 + nth]
    assert not waiting.done()
    await store.append_run("s1", [started("r1")], fence=fence)
    assert seqs(await waiting) == [3, 4, 5, 6]


async def test_who_follows_seldom_is_told_before_many_deltas_have_gathered(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    waiting = asyncio.ensure_future(anext(aiter(store.follow("s1", after=2, pace="seldom"))))
    await asyncio.sleep(0)
    for _ in range(QUIET_RECORDS_MAX):
        assert not waiting.done()
        await store.append_run("s1", [delta("x")], fence=fence)
    assert seqs(await waiting) == list(range(3, 3 + QUIET_RECORDS_MAX))


async def test_a_nudge_gives_an_empty_batch_to_who_waits_and_takes_no_record_away(store: Store) -> None:
    fence = await begin(store)
    follower = store.follow("s1", after=1)
    follower.wake()
    waiting = asyncio.ensure_future(anext(aiter(follower)))
    await store.session("s1")
    await asyncio.sleep(0)
    assert not waiting.done()
    follower.wake()
    assert list(await waiting) == []
    waiting = asyncio.ensure_future(anext(aiter(follower)))
    await store.append_run("s1", [delta("x")], fence=fence)
    follower.wake()
    found = [*await waiting] or [*await anext(aiter(follower))]
    assert seqs(found) == [2]


@pytest.mark.parametrize("window_bytes_max", [0, 3_000, 50_000])
async def test_a_slow_follower_reads_what_has_left_the_window(lab: Lab, window_bytes_max: int) -> None:
    store = await lab.open(window_bytes_max=window_bytes_max)
    fence, fence_2 = await begin(store), await begin(store, "s2")
    slow, other = store.follow("s1"), store.follow("s2")
    found = seqs(await anext(aiter(slow)))
    others = seqs(await anext(aiter(other)))
    for _ in range(20):
        await say(store, 5, fence=fence)
        await say(store, 5, session_id="s2", fence=fence_2)
        others += seqs(await anext(aiter(other)))
    while found[-1] < 101:
        found += seqs(await anext(aiter(slow)))
    while others[-1] < 101:
        others += seqs(await anext(aiter(other)))
    assert found == others == list(range(1, 102))
    await store.close()


async def test_many_followers_join_while_many_tasks_write(lab: Lab) -> None:
    store = await lab.open(window_bytes_max=10_000)
    fence = await begin(store)
    total = 1 + 40 * 5
    following: list[asyncio.Future[list[int]]] = []

    async def write(nth: int) -> None:
        following.append(asyncio.ensure_future(first_seqs(store, total - nth, after=nth)))
        await say(store, 5, fence=fence)

    await asyncio.gather(*[write(nth) for nth in range(40)])
    for after, found in enumerate(following):
        assert await found == list(range(after + 1, total + 1))
    await store.close()


async def test_followers_end_when_the_session_is_purged(store: Store) -> None:
    fence = await begin(store)
    await say(store, 3, fence=fence)
    lagging = store.follow("s1")
    ended = asyncio.ensure_future(drain(store, "s1"))
    await asyncio.sleep(0)
    assert len(await anext(aiter(lagging))) == 4
    await store.purge("s1")
    assert seqs(await ended) == [1, 2, 3, 4]
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(lagging))


async def test_a_session_created_anew_after_its_purge_is_another_log(store: Store) -> None:
    fence = await begin(store)
    await say(store, 9, fence=fence)
    ended = asyncio.ensure_future(drain(store, "s1", after=10))
    await asyncio.sleep(0)
    purged, appended = await asyncio.gather(
        store.purge("s1"), store.append("s1", [created(), message("new")])
    )
    assert (purged, appended) == (True, appended)
    assert await ended == []
    assert await first_seqs(store, 2) == [1, 2]
    assert (await store.read("s1", after=1))[0].event == message("new")


async def test_followers_end_when_the_store_is_closed_and_later_ones_at_once(lab: Lab) -> None:
    store = await lab.open()
    await begin(store)
    ended = [asyncio.ensure_future(drain(store, session_id)) for session_id in ("s1", "s1", "s2")]
    await asyncio.sleep(0)
    await store.close()
    assert [seqs(found) for found in await asyncio.gather(*ended)] in ([[1], [1], []], [[], [], []])
    assert await drain(store, "s1") == []


async def test_a_follower_that_is_cancelled_or_abandoned_is_garbage(store: Store) -> None:
    fence = await begin(store)
    tasks = [asyncio.ensure_future(drain(store, "s1", after=1)) for _ in range(20)]
    abandoned = store.follow("s1")
    await anext(aiter(abandoned))
    cancelled = [task.cancel() for task in tasks]
    await asyncio.wait(tasks)
    assert all(cancelled)
    del abandoned, tasks
    gc.collect()
    assert [found for found in gc.get_objects() if isinstance(found, Follower)] == []
    await say(store, 1, fence=fence)
    assert await first_seqs(store, 1, after=1) == [2]


async def test_a_follower_cancelled_in_the_very_moment_of_an_append_hurts_nobody(store: Store) -> None:
    fence = await begin(store)
    followers = [store.follow("s1") for _ in range(3)]
    for follower in followers:
        await anext(aiter(follower))
    waiting = [asyncio.ensure_future(_next_seqs(follower)) for follower in followers]
    await asyncio.sleep(0)
    appending = asyncio.ensure_future(store.append_run("s1", [delta("x")], fence=fence))
    while not appending.done():
        waiting[1].cancel()
        await asyncio.sleep(0)
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert outcomes[0] == outcomes[2] == [2]
    assert isinstance(outcomes[1], asyncio.CancelledError) or outcomes[1] == [2]


async def _next_seqs(follower: AsyncIterator[Sequence[Record]]) -> list[int]:
    return seqs(await anext(aiter(follower)))


async def test_changes_name_each_session_once_a_step_and_deltas_are_no_news(lab: Lab) -> None:
    store = await lab.open()
    fence = await begin(store, "before")
    changes = store.changes()
    for session_id in ("s1", "s2", "s1"):
        await store.append(session_id, [created()])
    await store.append_run("before", [delta("x")], fence=fence)
    assert sorted(await anext(changes)) == ["s1", "s2"]
    waiting = asyncio.ensure_future(_next_change(changes))
    await asyncio.sleep(0)
    await store.append_run("s1", [delta("x")], fence=await store.claim("s1"))
    assert not waiting.done()
    await store.purge("s2")
    assert await waiting == ["s2"]
    waiting = asyncio.ensure_future(_next_change(changes))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    await store.append("s1", [message("after a cancelled step")])
    assert await anext(changes) == ["s1"]
    waiting = asyncio.ensure_future(anext(store.changes(), None))
    await asyncio.sleep(0)
    await store.close()
    assert await waiting is None
    with pytest.raises(StopAsyncIteration):
        await anext(changes)
    with pytest.raises(StopAsyncIteration):
        await anext(store.changes())


async def _next_change(changes: AsyncIterator[Sequence[str]]) -> list[str]:
    return list(await anext(changes))
