"""Cancelled at every await: an append happens whole or not at all, and no task or thread is left."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fakes.cancel import CancelAt
from holdfast.interfaces.journal import Appended, Store
from journal.labs import Lab, SqliteLab, until
from journal.promise_checks import first_seqs
from journal.sample import begin, delta, message, say

Scenario = Callable[[Store], Coroutine[object, object, Any]]


async def _append(store: Store) -> object:
    return await store.append("s1", [message("one"), message("two")])


async def _append_run(store: Store) -> object:
    return await store.append_run("s1", [delta("one"), delta("two")], fence=await store.claim("s1"))


async def _follow(store: Store) -> object:
    writing = asyncio.ensure_future(_append(store))
    try:
        return await first_seqs(store, 3)
    finally:
        await asyncio.wait([writing])


async def _read(store: Store) -> object:
    return await store.read("s1")


async def _search(store: Store) -> object:
    return await store.search("one")


async def _purge(store: Store) -> object:
    return await store.purge("s1")


async def _blob(store: Store) -> object:
    return await store.blob(await store.put_blob(b"data"))


@pytest.mark.parametrize("scenario", [_append, _append_run, _follow, _read, _search, _purge, _blob])
async def test_cancelling_any_call_at_any_await_leaves_nothing(lab: Lab, scenario: Scenario) -> None:
    threads = set(threading.enumerate())
    store = await lab.open()
    await begin(store)
    tasks = asyncio.all_tasks()
    for nth in count(1):
        await store.purge("s1")
        await begin(store)
        attempt = CancelAt(scenario(store), nth)
        task = await attempt.in_own_task()
        if task.cancelled():
            # Whatever is handed in later is written later, so what was cancelled is decided by now.
            await store.put_note("later", b"")
            # Whole or not at all, and the log goes on without a gap.
            assert await store.last_seq("s1") in {0, 1, 3}
            if await store.last_seq("s1"):
                last = await store.last_seq("s1")
                assert await store.append("s1", [message("on")]) == Appended(last + 1, last + 1)
        await until(lambda: asyncio.all_tasks() <= tasks)
        if not attempt.reached:
            break
    await store.close()
    await until(lambda: set(threading.enumerate()) <= threads)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_cancelling_a_close_at_any_await_leaves_nothing(lab: Lab) -> None:
    threads = set(threading.enumerate())
    for nth in count(1):
        store = await lab.open()
        await store.purge("s1")
        await begin(store)
        attempt = CancelAt(store.close(), nth)
        await attempt.in_own_task()
        await store.close()
        await until(lambda: set(threading.enumerate()) <= threads)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        if not attempt.reached:
            break


async def test_cancelling_an_opening_at_any_await_leaves_nothing(tmp_path: Path) -> None:
    lab = SqliteLab(tmp_path)
    threads = set(threading.enumerate())
    for nth in count(1):
        attempt = CancelAt(lab.open(), nth, nth + 1)
        task = await attempt.in_own_task()
        if not task.cancelled():
            await (await task).close()
        await until(lambda: asyncio.all_tasks() == {asyncio.current_task()})
        await until(lambda: set(threading.enumerate()) <= threads)
        if attempt.suspensions < nth:
            break
    store = await lab.open()
    await say(store, 1, fence=await begin(store))
    assert await store.last_seq("s1") == 2
    await store.close()
