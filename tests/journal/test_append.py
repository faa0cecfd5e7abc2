"""Appending: order, conditions, keys, the fence."""

import asyncio

import pytest
from msgspec.structs import replace

from holdfast import events as e
from holdfast.codec import encode
from holdfast.interfaces.index import RunQuery, SessionQuery
from holdfast.interfaces.journal import (
    Appended,
    Declined,
    IdempotencyKey,
    IfAskOpen,
    IfRunKnown,
    IfRunOpen,
    IfRunsOpenBelow,
    IfSessionKnown,
    IfSessionNew,
    IfUntitled,
    KeyConflict,
    Replayed,
    Store,
    StoreClosed,
    UnknownSession,
)
from holdfast.values import LogEnd
from journal.labs import Lab
from journal.promise_checks import (
    check_a_condition_has_one_winner,
    check_a_key_has_one_effect,
    check_a_log_that_took_the_place_of_another_is_not_purged_for_it,
    check_a_lost_fence_writes_nothing,
    check_time_never_goes_back,
)
from journal.sample import (
    AT_MS,
    answered,
    asked,
    begin,
    created,
    delta,
    ended,
    message,
    queued,
    seqs,
    started,
)
from stores import MemoryStore, SqliteStore

pytestmark = pytest.mark.asyncio(loop_scope="module")


def stores_satisfy_the_contract(memory: MemoryStore, sqlite: SqliteStore) -> tuple[Store, Store]:
    """Never called: the type checker refuses this file if a store lacks a method of the contract."""
    return memory, sqlite


async def test_events_get_the_next_seqs_and_come_back_as_the_same_bytes(store: Store) -> None:
    first = await store.append("s1", [created(), message("hello")])
    second = await store.append("s1", [message("again")])
    assert (first, second) == (Appended(1, 2), Appended(3, 3))
    records = await store.read("s1")
    assert seqs(records) == [1, 2, 3]
    assert [record.body for record in records] == [
        encode(event) for event in (created(), message("hello"), message("again"))
    ]
    assert records[1].event == message("hello")
    assert records[1].session_id == "s1"


async def test_each_session_has_its_own_seqs(store: Store) -> None:
    await begin(store, "s1")
    await begin(store, "s2")
    assert await store.append("s2", [message("x")]) == Appended(2, 2)
    assert await store.last_seq("s1") == 1


async def test_read_starts_after_the_cursor_and_stops_at_the_limit(store: Store) -> None:
    await store.append("s1", [created(), *[message(str(nth)) for nth in range(9)]])
    assert seqs(await store.read("s1", after=4)) == [5, 6, 7, 8, 9, 10]
    assert seqs(await store.read("s1", after=4, limit=2)) == [5, 6]
    assert await store.read("s1", after=10) == []
    assert await store.read("s1", after=2**70) == []
    assert seqs(await store.read("s1", after=-5, limit=1)) == [1]
    assert list(await store.read("s1", limit=0)) == []


async def test_an_unknown_session_has_no_events_and_no_row(store: Store) -> None:
    assert list(await store.read("nowhere")) == []
    assert await store.last_seq("nowhere") == 0
    assert await store.session("nowhere") is None


async def test_a_log_begins_with_session_created(store: Store) -> None:
    with pytest.raises(UnknownSession, match="no session 's1'"):
        await store.append("s1", [message("hello")])
    assert await store.session("s1") is None
    assert await store.append("s1", [created()]) == Appended(1, 1)


async def test_an_append_without_events_is_a_bug_of_the_caller(store: Store) -> None:
    with pytest.raises(AssertionError, match="at least one event"):
        await store.append("s1", [])


async def test_a_declined_append_leaves_nothing(store: Store) -> None:
    await begin(store)
    declined = await store.append("s1", [message("lost")], when=[IfSessionNew()])
    assert declined == Declined(IfSessionNew())
    assert await store.last_seq("s1") == 1
    assert await store.search("lost") in ([], ())


async def test_conditions_on_the_session(store: Store) -> None:
    new, known = IfSessionNew(), IfSessionKnown()
    assert await store.append("s1", [created()], when=[known]) == Declined(known)
    assert await store.append("s1", [created()], when=[new]) == Appended(1, 1)
    assert await store.append("s1", [created()], when=[known, new]) == Declined(new)
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)], when=[known])
    assert await store.append("s1", [message("x")], when=[known]) == Declined(known)
    await store.append("s1", [e.SessionRestored(at_ms=AT_MS)])
    assert isinstance(await store.append("s1", [message("x")], when=[known]), Appended)


async def test_conditions_on_a_run_and_an_ask_hold_in_their_own_session_only(store: Store) -> None:
    fence = await begin(store, "s1", run_id="r1")
    await begin(store, "s2")
    await store.append_run("s1", [started("r1"), asked("a1")], fence=fence)
    run, ask = IfRunOpen("r1"), IfAskOpen("a1")
    assert await store.append("s2", [answered("a1")], when=[ask]) == Declined(ask)
    assert await store.append("s2", [message("x")], when=[run]) == Declined(run)
    assert isinstance(await store.append("s1", [answered("a1")], when=[run, ask]), Appended)
    assert await store.append("s1", [answered("a1")], when=[ask]) == Declined(ask)
    unknown = IfRunOpen("r9")
    assert await store.append("s1", [message("x")], when=[unknown]) == Declined(unknown)


async def test_a_run_is_known_in_its_own_session_after_its_end_and_while_that_is_deleted(
    store: Store,
) -> None:
    fence = await begin(store, "s1", run_id="r1")
    await begin(store, "s2")
    await store.append_run("s1", [started("r1"), ended("r1")], fence=fence)
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 9)])
    known, unknown = IfRunKnown("r1"), IfRunKnown("r9")
    assert isinstance(await store.append("s1", [message("x")], when=[known]), Appended)
    assert await store.append("s2", [message("y")], when=[known]) == Declined(known)
    assert await store.append("s1", [message("y")], when=[unknown]) == Declined(unknown)


async def test_an_ask_can_be_answered_until_its_expiry(store: Store) -> None:
    """P8: whether or not its run has said by then that it has expired."""
    fence = await begin(store, "s1", run_id="r1")
    ask = replace(asked("a1"), expires_at_ms=AT_MS + 10)
    await store.append_run("s1", [started("r1"), ask], fence=fence)
    late = IfAskOpen("a1", AT_MS + 10)
    assert await store.append("s1", [answered("a1", at_ms=AT_MS + 10)], when=[late]) == Declined(late)
    just = IfAskOpen("a1", AT_MS + 9)
    assert isinstance(await store.append("s1", [answered("a1")], when=[just]), Appended)


async def test_a_log_that_has_gone_on_is_not_purged(store: Store) -> None:
    """P2: what was accepted after the decision to purge is kept, and its readers read on."""
    await begin(store)
    following = aiter(store.follow("s1", after=1))
    await store.append("s1", [message("wait")])
    assert not await store.purge("s1", only=LogEnd(created().epoch, 1))
    assert [record.seq for record in await anext(following)] == [2]
    await store.append("s1", [message("more", message_id="m2")])
    assert [record.seq for record in await anext(following)] == [3]
    assert await store.session("s1") is not None
    assert await store.purge("s1", only=LogEnd(created().epoch, 3))
    assert await store.session("s1") is None
    assert await store.purge("s1", only=LogEnd(created().epoch, 3))


async def test_a_log_that_took_the_place_of_another_is_not_purged_for_it(store: Store) -> None:
    """P2: who decided before another server purged the old log means that one, however long the new is."""
    await check_a_log_that_took_the_place_of_another_is_not_purged_for_it(store)


async def test_a_limit_of_open_runs_holds_for_appends_that_are_handed_in_together(store: Store) -> None:
    """P2: of many that want the session for themselves one gets it, and the next once that run has ended."""
    alone = IfRunsOpenBelow(1)
    assert isinstance(await store.append("s1", [created()], when=[alone]), Appended)
    told = await asyncio.gather(*[store.append("s1", [queued(f"r{nth}")], when=[alone]) for nth in range(9)])
    assert sorted(type(one).__name__ for one in told) == ["Appended"] + ["Declined"] * 8
    assert Declined(alone) in told
    (run,) = await store.runs(RunQuery(session_id="s1"))
    two = IfRunsOpenBelow(2)
    assert isinstance(await store.append("s1", [queued("r10")], when=[two]), Appended)
    assert await store.append("s1", [queued("r11")], when=[two]) == Declined(two)
    fence = await store.claim("s1")
    await store.append_run("s1", [started(run.run_id), ended(run.run_id), ended("r10")], fence=fence)
    assert isinstance(await store.append("s1", [queued("r12")], when=[alone]), Appended)
    assert isinstance(await store.append("s2", [created(), queued("r13")], when=[alone]), Appended)


async def test_a_title_of_the_model_never_replaces_one_that_was_given(store: Store) -> None:
    untitled, named = IfUntitled(), e.SessionRenamed(at_ms=1, title="Given", by="model")
    assert await store.append("s1", [named], when=[untitled]) == Declined(untitled)
    await store.append("s1", [created(), message("first line")])
    assert isinstance(await store.append("s1", [named], when=[untitled]), Appended)
    assert await store.append("s1", [named], when=[untitled]) == Declined(untitled)
    await store.append("s2", [created()])
    await store.append("s2", [e.SessionDeleted(at_ms=1, purge_at_ms=9)])
    assert await store.append("s2", [named], when=[untitled]) == Declined(untitled)


async def test_one_ending_p4_stop_against_done_has_one_winner(lab: Lab) -> None:
    await check_a_condition_has_one_winner(lab)


async def test_an_ended_run_is_not_opened_again_by_a_late_stop(store: Store) -> None:
    fence = await begin(store, "s1", run_id="r1")
    await store.append_run("s1", [started("r1"), ended("r1")], fence=fence)
    await store.append("s1", [e.StopRequested(at_ms=AT_MS, run_id="r1")])
    run = await store.run("r1")
    assert run is not None
    assert (run.status, run.outcome, run.last_seq) == ("ended", "completed", 5)
    again = await store.append_run("s1", [ended("r1")], fence=fence, when=[IfRunOpen("r1")])
    assert again == Declined(IfRunOpen("r1"))


async def test_accepted_once_p2_the_same_key_has_one_effect(lab: Lab) -> None:
    await check_a_key_has_one_effect(lab)


async def test_a_key_is_free_again_after_its_time_and_after_a_purge(store: Store) -> None:
    await begin(store)
    idempotency_key = IdempotencyKey("k", "d1", b"one", AT_MS + 10)
    other = IdempotencyKey("k", "d2", b"two", AT_MS + 50)
    assert isinstance(await store.append("s1", [message("a")], idempotency_key=idempotency_key), Appended)
    assert await store.append("s1", [message("b", at_ms=AT_MS + 9)], idempotency_key=other) == KeyConflict()
    assert isinstance(
        await store.append("s1", [message("b", at_ms=AT_MS + 10)], idempotency_key=other), Appended
    )
    await store.purge("s1")
    assert isinstance(await store.append("s1", [created()], idempotency_key=other), Appended)


async def test_a_declined_append_does_not_use_up_its_key(store: Store) -> None:
    await begin(store)
    idempotency_key = IdempotencyKey("k", "d", b"", AT_MS + 10)
    condition = IfRunOpen("r1")
    assert await store.append(
        "s1", [message("a")], when=[condition], idempotency_key=idempotency_key
    ) == Declined(condition)
    await store.append("s1", [queued("r1")])
    assert isinstance(
        await store.append("s1", [message("a")], when=[condition], idempotency_key=idempotency_key), Appended
    )
    # The key speaks before the condition: the answer of the first time is given even if it no longer holds.
    ending = await store.append_run("s1", [ended("r1")], fence=await store.claim("s1"))
    assert isinstance(ending, Appended)
    assert await store.append(
        "s1", [message("a")], when=[condition], idempotency_key=idempotency_key
    ) == Replayed(b"")


async def test_a_lost_fence_writes_nothing_p1(lab: Lab) -> None:
    await check_a_lost_fence_writes_nothing(lab)


async def test_inputs_need_no_fence_and_a_new_owner_sees_them(lab: Lab) -> None:
    old = await lab.open()
    await begin(old)
    new = await lab.open()
    await new.append("s1", [message("by the new one")])
    assert await old.append("s1", [message("by the old one")]) == Appended(3, 3)
    assert await new.append("s1", [message("and on")]) == Appended(4, 4)
    assert [record.event for record in await new.read("s1", after=1)] == [
        message("by the new one"),
        message("by the old one"),
        message("and on"),
    ]
    await old.close()
    await new.close()


async def test_many_tasks_append_at_once_and_no_seq_is_used_twice(store: Store) -> None:
    sessions = [f"s{nth}" for nth in range(5)]
    fences = {session_id: await begin(store, session_id) for session_id in sessions}

    async def write(session_id: str, nth: int) -> Appended:
        events = [delta(f"{nth}.{part}") for part in range(1 + nth % 3)]
        appended = await store.append_run(session_id, events, fence=fences[session_id])
        assert isinstance(appended, Appended)
        return appended

    for_session = {
        session_id: await asyncio.gather(*[write(session_id, nth) for nth in range(60)])
        for session_id in sessions
    }
    for session_id, appended in for_session.items():
        given = [seq for one in appended for seq in range(one.first_seq, one.last_seq + 1)]
        assert sorted(given) == list(range(2, 2 + 120))
        assert seqs(await store.read(session_id)) == list(range(1, 122))


async def test_a_bad_event_fails_alone(store: Store) -> None:
    """What cannot be encoded or bound is its caller's error, also among others in one commit."""
    await begin(store)
    outcomes = await asyncio.gather(
        store.append("s1", [message("before")]),
        store.append("\ud800", [created()]),
        store.append("s1", [message("\ud800")]),
        store.append("s1", [message("after")]),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], Appended)
    assert isinstance(outcomes[2], Exception)
    assert isinstance(outcomes[3], Appended)
    assert await store.last_seq("s1") == 3


async def test_after_close_everything_is_refused(lab: Lab) -> None:
    store = await lab.open()
    fence = await begin(store)
    await store.close()
    await store.close()
    for refused in (
        store.append("s1", [message("x")]),
        store.append_run("s1", [delta("x")], fence=fence),
        store.read("s1"),
        store.last_seq("s1"),
        store.session("s1"),
        store.sessions(SessionQuery()),
        store.runs(RunQuery()),
        store.search("x"),
        store.note("k"),
        store.put_note("k", b""),
        store.drop_note("k"),
        store.put_blob(b""),
        store.blob("0" * 64),
        store.purge("s1"),
    ):
        with pytest.raises(StoreClosed, match="closed"):
            await refused


async def test_close_finishes_what_was_accepted(lab: Lab) -> None:
    store = await lab.open()
    await begin(store)
    pending = [asyncio.ensure_future(store.append("s1", [message(str(nth))])) for nth in range(50)]
    await asyncio.sleep(0)
    await store.close()
    outcomes = await asyncio.gather(*pending)
    assert all(isinstance(outcome, Appended) for outcome in outcomes)
    again = await lab.open()
    assert await again.last_seq("s1") == 51
    await again.close()


async def test_the_times_of_a_log_never_go_back(lab: Lab) -> None:
    """P7: see the check."""
    await check_time_never_goes_back(lab)
