"""What every store must do, as functions of a lab: the real stores pass, sabotaged ones fail."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, cast

import pytest
from msgspec.structs import replace

from holdfast.codec import decode
from holdfast.events import Input, RunEnded, RunQueued, SessionCreated, TextDone
from holdfast.folds.transcript import fold
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    FenceLost,
    IdempotencyKey,
    IfRunOpen,
    JournalError,
    KeyConflict,
    Record,
    Replayed,
    Store,
    StoreDamaged,
    StoreFailed,
)
from holdfast.values import HistoryMessage, LogEnd
from journal.labs import Lab, SqliteLab
from journal.sample import AT_MS, begin, created, delta, ended, message, say, seqs
from scene import Scene

Check: TypeAlias = Callable[[Lab], Awaitable[None]]


async def first_seqs(store: Store, count: int, *, after: int = 0, session_id: str = "s1") -> list[int]:
    """What a follower gives until it comes to the seq that stands so many places after its cursor."""
    found: list[int] = []
    async for batch in store.follow(session_id, after=after):
        assert batch, "each step gives a batch that is not empty"
        found += seqs(batch)
        if found[-1] >= after + count:
            break
    return found


async def check_a_lost_fence_writes_nothing(lab: Lab) -> None:
    """P1: who lost the store cannot append for its runs, and nothing of the attempt is readable."""
    old = await lab.open()
    lost = await begin(old, run_id="r1")
    await old.append_run("s1", [delta("mine")], fence=lost)
    new = await lab.open()
    with pytest.raises(FenceLost):
        await old.append_run("s1", [delta("stale")], fence=lost)
    held = await new.claim("s1")
    assert held.number > lost.number
    assert await new.append_run("s1", [delta("ours")], fence=held) == Appended(4, 4)
    with pytest.raises(FenceLost):
        await new.append_run("s1", [delta("stale")], fence=lost)
    assert [record.event for record in await new.read("s1", after=2)] == [delta("mine"), delta("ours")]
    await old.close()
    await new.close()


async def check_a_condition_has_one_winner(lab: Lab) -> None:
    """P4: of two endings that are appended at once, one is in the log."""
    store = await lab.open()
    fence = await begin(store, run_id="r1")
    open_run = IfRunOpen("r1")
    outcomes = await asyncio.gather(
        *[
            store.append_run("s1", [ended("r1", outcome=outcome)], fence=fence, when=[open_run])
            for outcome in ("cancelled", "completed", "failed")
        ]
    )
    assert sorted(isinstance(outcome, Appended) for outcome in outcomes) == [False, False, True]
    assert Declined(open_run) in outcomes
    endings = [record for record in await store.read("s1") if isinstance(record.event, RunEnded)]
    assert len(endings) == 1
    run = await store.run("r1")
    assert run is not None
    assert run.status == "ended"
    await store.close()


async def check_a_key_has_one_effect(lab: Lab) -> None:
    """P2: the same input sent several times under one key is in the log once, also after a restart."""
    store = await lab.open()
    await begin(store)
    idempotency_key = IdempotencyKey("key", "digest", b"the answer", AT_MS + 1_000)
    outcomes = await asyncio.gather(
        *[store.append("s1", [message("x")], idempotency_key=idempotency_key) for _ in range(3)]
    )
    assert sorted(outcomes, key=repr) == [
        Appended(2, 2),
        Replayed(b"the answer"),
        Replayed(b"the answer"),
    ]
    await store.close()
    store = await lab.open()
    assert await store.append("s1", [message("x")], idempotency_key=idempotency_key) == Replayed(
        b"the answer"
    )
    other = IdempotencyKey("key", "other digest", b"", AT_MS + 1_000)
    assert await store.append("s1", [message("y")], idempotency_key=other) == KeyConflict()
    assert await store.last_seq("s1") == 2
    await store.close()


async def check_a_follower_misses_and_repeats_nothing(lab: Lab) -> None:
    """P7: from any cursor a follower gives every later event once, from the file, memory or to come."""
    store = await lab.open(window_bytes_max=20_000)
    fence = await begin(store)
    await say(store, 40, fence=fence)
    total = 81
    live = [
        asyncio.ensure_future(first_seqs(store, total - after, after=after))
        for after in (0, 1, 20, 40, 41, 60)
    ]
    await asyncio.sleep(0)
    await say(store, 40, fence=fence)
    for after, found in zip((0, 1, 20, 40, 41, 60), live, strict=True):
        assert await found == list(range(after + 1, total + 1))
    for after in range(0, total, 16):
        assert await first_seqs(store, total - after, after=after) == list(range(after + 1, total + 1))
    await store.close()


async def check_nothing_refused_is_ever_shown(lab: Lab, *, break_disk: Callable[[], None]) -> None:
    """P1: while the disk fails, no follower is shown what was not saved."""
    store = await lab.open()
    fence = await begin(store)
    seen: list[Record] = []
    caught_up = asyncio.Event()

    async def watch() -> None:
        follower = store.follow("s1")
        async for batch in follower:
            seen.extend(batch)
            caught_up.set()

    watching = asyncio.ensure_future(watch())
    await caught_up.wait()
    break_disk()
    with pytest.raises(JournalError):
        await store.append_run("s1", [delta("never saved")], fence=fence)
    await store.close()
    await watching
    assert [record.event for record in seen if record.seq > 1] == []


async def check_thinning_takes_no_text_from_anyone(lab: Lab) -> None:
    """P1: whoever has read any part of the log before, and reads on after it, has what was there."""
    store = await lab.open()
    scene = Scene(ms=AT_MS)
    scene.put(SessionCreated, epoch="e")
    scene.send("hi", run_id="r1")
    scene.call()
    scene.pieces("one ", "two ", "three")
    scene.of_run(TextDone, segment=0, text="one two three")
    scene.pieces("and ", "then it ", "was stopped", segment=1)
    scene.ends("cancelled")
    await store.append("s1", cast("list[Input]", [event for _, event in scene.log]))
    async for _ in store.thin("s1", before_ms=scene.ms + 1):
        pass
    left = [(record.seq, record.event) for record in await store.read("s1")]
    for cursor in range(len(scene.log)):
        assert fold([*scene.log[:cursor], *left]) == fold(scene.log)
    assert len(left) == len(scene.log) - 2
    await store.close()


async def check_a_purge_leaves_the_histories_of_others_whole(lab: Lab) -> None:
    """P2: what two runs were given is there for the one that stays."""
    store = await lab.open()
    history = tuple(HistoryMessage(role="user", content=f"{nth} " * 2_000) for nth in range(20))
    queued = RunQueued(at_ms=AT_MS, run_id="kept", message_id="m1", history=history)
    await store.append("kept", [created(), queued])
    await store.append("gone", [created(), replace(queued, run_id="gone")])
    await store.purge("gone")
    (found,) = await store.read_each([("kept", 0)], limit=10)
    assert not isinstance(found, StoreDamaged)
    assert found[-1].event == queued
    await store.close()


async def drain(store: Store, session_id: str, *, after: int = 0) -> list[Record]:
    """Everything that a follower gives until it ends."""
    return [record async for batch in store.follow(session_id, after=after) for record in batch]


async def check_what_was_accepted_outlives_its_file(lab: Lab) -> None:
    """P2: inputs that were accepted after the database lost its name are there at the next start."""
    assert isinstance(lab, SqliteLab)
    store = await lab.open()
    await begin(store)
    await asyncio.to_thread(lab.path.unlink)
    accepted = 0
    for nth in range(3):
        try:
            accepted += isinstance(await store.append("s1", [message(f"{nth}")]), Appended)
        except StoreFailed:
            break
    await store.close()
    try:
        store = await lab.open()
    except StoreDamaged as damage:
        raise AssertionError("what was accepted is gone") from damage
    assert await store.last_seq("s1") == 1 + accepted
    await store.close()


async def check_what_was_shown_outlives_its_file(lab: Lab) -> None:
    """P1: what a follower was shown around the loss of the database's name is there at the next start."""
    assert isinstance(lab, SqliteLab)
    store = await lab.open()
    fence = await begin(store, run_id="r1")
    await say(store, 3, fence=fence)
    shown = await first_seqs(store, 5)
    await asyncio.to_thread(lab.path.unlink)
    with suppress(StoreFailed):
        await store.append_run("s1", [delta("more")], fence=fence)
        shown += await first_seqs(store, 1, after=shown[-1])
    await store.close()
    try:
        store = await lab.open()
    except StoreDamaged as damage:
        raise AssertionError("what was shown is gone") from damage
    assert seqs(await store.read("s1")) == shown
    await store.close()


async def check_time_never_goes_back(lab: Lab) -> None:
    """P7: whoever was quicker with an earlier time, or has a wrong clock, the times of a log only grow."""
    store = await lab.open()
    fence = await begin(store, run_id="r1")
    await store.append("s1", [message("late", message_id="m2", at_ms=AT_MS + 500)])
    await store.append_run(
        "s1", [delta("early", at_ms=AT_MS + 400), delta("x", at_ms=AT_MS + 600)], fence=fence
    )
    await store.append("s1", [message("wrong", message_id="m3", at_ms=AT_MS - 3_600_000)])
    told = [record.event.at_ms for record in await store.read("s1")]
    await store.close()
    again = await lab.open()
    await again.append("s1", [message("after", message_id="m4", at_ms=AT_MS)])
    records = await again.read("s1")
    await again.close()
    assert told[-4:] == [AT_MS + 500, AT_MS + 500, AT_MS + 600, AT_MS + 600]
    assert records[-1].event == message("after", message_id="m4", at_ms=AT_MS + 600), (
        "only its time is raised"
    )
    assert decode(records[-1].body) == records[-1].event, "readers see what is stored"


async def check_a_log_that_took_the_place_of_another_is_not_purged_for_it(store: Store) -> None:
    """P2: who decided before another server purged the old log means that one, however long the new is."""
    await begin(store)
    await store.append("s1", [message("old")])
    decided = LogEnd(created().epoch, 2)
    assert await store.purge("s1", only=decided)
    await store.append("s1", [replace(created(), epoch="another")])
    assert not await store.purge("s1", only=decided)
    await store.append("s1", [message("new", message_id="m2")])
    assert not await store.purge("s1", only=decided)
    assert await store.last_seq("s1") == 2
    assert await store.purge("s1", only=LogEnd("another", 2))
