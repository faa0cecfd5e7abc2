"""Lists and look-ups beside the logs, as new as the newest event."""

from typing import Any

import pytest

from holdfast import events as e
from holdfast.folds.rows import AskRow, RunRow, SessionRow
from holdfast.interfaces.index import RunQuery, SessionCursor, SessionQuery, StoredResponse
from holdfast.interfaces.journal import Fence, IdempotencyKey, Store, StoreDamaged
from journal.sample import AT_MS, answered, asked, begin, created, ended, message, queued, started

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def listed(store: Store, query: SessionQuery | None = None) -> list[str]:
    return [found.row.session_id for found in await store.sessions(query or SessionQuery())]


async def test_a_session_row_is_as_new_as_its_log(store: Store) -> None:
    await store.append("s1", [created(), message("first line\nmore", at_ms=AT_MS + 5)])
    assert await store.session("s1") == SessionRow(
        session_id="s1",
        epoch="e1",
        title="first line",
        preview="first line\nmore",
        created_ms=AT_MS,
        updated_ms=AT_MS + 5,
        messages=1,
    )
    await store.append("s1", [e.SessionRenamed(at_ms=AT_MS + 9, title="a name")])
    row = await store.session("s1")
    assert row is not None
    assert (row.title, row.titled, row.updated_ms) == ("a name", True, AT_MS + 5)


async def test_sessions_are_listed_newest_first_and_pinned_ones_before(store: Store) -> None:
    for nth in range(5):
        await store.append(f"s{nth}", [created(at_ms=AT_MS + nth)])
    await store.append("s1", [e.SessionPinned(at_ms=AT_MS + 50)])
    await store.append("s0", [message("late", at_ms=AT_MS + 99)])
    assert await listed(store) == ["s1", "s0", "s4", "s3", "s2"]
    await store.append("s1", [e.SessionUnpinned(at_ms=AT_MS + 100)])
    assert await listed(store) == ["s0", "s4", "s3", "s2", "s1"]


async def test_pages_continue_where_the_last_one_ended(store: Store) -> None:
    for nth in range(7):
        await store.append(f"s{nth}", [created(at_ms=AT_MS + nth // 2)])
    await store.append("s2", [e.SessionPinned(at_ms=AT_MS)])
    pages: list[list[str]] = []
    before: SessionCursor | None = None
    while found := await store.sessions(SessionQuery(limit=3, before=before)):
        pages.append([one.row.session_id for one in found])
        row = found[-1].row
        before = SessionCursor(row.pinned, row.updated_ms, row.session_id)
    assert pages == [["s2", "s6", "s5"], ["s4", "s3", "s1"], ["s0"]]


async def test_archived_deleted_and_hidden_sessions_have_lists_of_their_own_or_none(store: Store) -> None:
    for session_id, source in (("a", "api"), ("b", "api"), ("c", "api"), ("d", "openai")):
        await store.append(session_id, [created(source=source)])
    await store.append("b", [e.SessionArchived(at_ms=AT_MS)])
    await store.append("c", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    assert await listed(store) == ["a"]
    assert await listed(store, SessionQuery(archived=True)) == ["b"]
    assert await listed(store, SessionQuery(sources_hidden=())) == ["d", "a"]
    deleted = await store.session("c")
    assert deleted is not None
    assert deleted.purge_at_ms == AT_MS + 1
    await store.append("b", [e.SessionUnarchived(at_ms=AT_MS)])
    await store.append("c", [e.SessionRestored(at_ms=AT_MS)])
    assert await listed(store) == ["c", "b", "a"]


async def test_a_list_counts_open_runs_and_open_asks(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    await store.append("s1", [queued("r2")])
    await store.append_run("s1", [started("r1"), asked("a1"), asked("a2")], fence=fence)
    (one,) = await store.sessions(SessionQuery())
    assert (one.open_runs, one.open_asks, one.begun_runs) == (2, 2, 1)
    await store.append("s1", [answered("a1")])
    await store.append_run("s1", [ended("r1")], fence=fence)
    (one,) = await store.sessions(SessionQuery())
    assert (one.open_runs, one.open_asks, one.begun_runs) == (1, 1, 0)


async def test_one_session_is_shown_as_the_list_shows_it_also_while_deleted(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    await store.append_run("s1", [asked("a1")], fence=fence)
    assert [await store.listed("s1")] == list(await store.sessions(SessionQuery()))
    await store.append("s1", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    deleted = await store.listed("s1")
    assert deleted is not None
    assert (deleted.row.purge_at_ms, deleted.open_runs, deleted.open_asks) == (AT_MS + 1, 1, 1)
    assert await store.listed("nowhere") is None


async def test_leftovers_are_deleted_sessions_and_old_ones_of_a_source(store: Store) -> None:
    for session_id, source, at_ms in (
        ("a", "openai", 1),
        ("b", "openai", 9),
        ("c", "api", 1),
        ("d", "api", 9),
        ("e", "openai", 1),
    ):
        await store.append(session_id, [created(source=source, at_ms=at_ms)])
    await store.append("e", [message("late", at_ms=9)])
    await store.append("d", [e.SessionDeleted(at_ms=9, purge_at_ms=99)])
    found = await store.sessions_to_purge(source="openai", before_ms=9)
    assert sorted(row.session_id for row in found) == ["a", "d"]
    await store.append("a", [e.SessionPinned(at_ms=9)])
    found = await store.sessions_to_purge(source="openai", before_ms=9)
    assert sorted(row.session_id for row in found) == ["d"], "what a person pinned is kept"
    await store.append("f", [created(source="openai", at_ms=7)])
    times = [await store.updated_ms(source="openai", nth=nth) for nth in (1, 3, 4)]
    assert times == [9, 7, -1]


async def test_sizes_are_those_of_events_and_blobs_newest_change_first(store: Store) -> None:
    blob = await store.put_blob(b"x" * 5_000)
    for session_id, at_ms, text in (
        ("a", 1, "short"),
        ("b", 3, "long " * 200),
        ("c", 3, "short"),
        ("d", 2, ""),
    ):
        more = [message(text, at_ms=at_ms, blob=blob if session_id == "a" else "")] if text else []
        await store.append(session_id, [created(source="api", at_ms=at_ms), *more])
    await store.append("d", [e.SessionPinned(at_ms=2)])
    await store.append("other", [created(source="page", at_ms=9)])
    found = await store.session_sizes("api")
    assert [size.session_id for size in found] == ["c", "b", "a"], "pinned sessions don't count"
    events = {
        size.session_id: sum(len(record.body) for record in await store.read(size.session_id))
        for size in found
    }
    assert {size.session_id: size.bytes for size in found} == events | {"a": events["a"] + 5_000}
    assert list(await store.session_sizes("api", before=found[0], limit=1)) == [found[1]]
    assert not await store.session_sizes("api", before=found[2])


async def test_an_answer_is_found_by_its_key_until_it_expires(store: Store) -> None:
    idempotency_key = IdempotencyKey("key", "digest", b"answer", AT_MS + 10)
    await store.append("s1", [created()], idempotency_key=idempotency_key)
    assert await store.stored_response("key", now_ms=AT_MS + 9) == StoredResponse("digest", b"answer")
    assert await store.stored_response("key", now_ms=AT_MS + 10) is None
    assert await store.stored_response("other", now_ms=AT_MS) is None


async def test_a_run_is_found_by_its_id(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    assert await store.run("r9") is None
    await store.append_run("s1", [started("r1", at_ms=AT_MS + 1)], fence=fence)
    await store.append("s1", [e.StopRequested(at_ms=AT_MS + 2, run_id="r1")])
    stopping = await store.run("r1")
    assert stopping == RunRow(
        run_id="r1",
        session_id="s1",
        status="stopping",
        first_seq=2,
        last_seq=4,
        created_ms=AT_MS,
        updated_ms=AT_MS + 2,
    )
    await store.append_run("s1", [ended("r1", outcome="cancelled")], fence=fence)
    run = await store.run("r1")
    assert run is not None
    assert (run.status, run.outcome) == ("ended", "cancelled")


async def test_runs_are_listed_newest_first_by_page_session_and_status(store: Store) -> None:
    for session_id, run_ids in (("s1", ("r1", "r2", "r3")), ("s2", ("r4", "r5"))):
        fence = await begin(store, session_id)
        for run_id in run_ids:
            await store.append(session_id, [queued(run_id, at_ms=AT_MS + int(run_id[1]))])
        await store.append_run(session_id, [ended(run_ids[0])], fence=fence)

    async def ids(query: RunQuery) -> list[str]:
        return [run.run_id for run in await store.runs(query)]

    assert await ids(RunQuery()) == ["r5", "r4", "r3", "r2", "r1"]
    assert await ids(RunQuery(limit=2, before=(AT_MS + 4, "r4"))) == ["r3", "r2"]
    assert await ids(RunQuery(session_id="s1")) == ["r3", "r2", "r1"]
    assert await ids(RunQuery(session_id="s1", before=(AT_MS + 3, "r3"), limit=1)) == ["r2"]
    assert await ids(RunQuery(status="ended")) == ["r4", "r1"]
    assert await ids(RunQuery(status="queued", session_id="s2")) == ["r5"]


async def test_runs_are_listed_by_how_they_ended_and_by_whether_they_wait_for_a_person(store: Store) -> None:
    fences: dict[str, Fence] = {}
    for session_id, run_ids in (("s1", ("r1", "r2", "r3")), ("s2", ("r4", "r5"))):
        fences[session_id] = await begin(store, session_id)
        for run_id in run_ids:
            await store.append(session_id, [queued(run_id, at_ms=AT_MS + int(run_id[1]))])
    await store.append_run("s1", [ended("r1", outcome="failed")], fence=fences["s1"])
    await store.append_run("s1", [ended("r2", outcome="refused")], fence=fences["s1"])
    await store.append_run("s2", [ended("r4", outcome="budget")], fence=fences["s2"])
    await store.append_run("s1", [asked("a1", run_id="r3")], fence=fences["s1"])

    async def ids(**wanted: Any) -> list[str]:
        return [run.run_id for run in await store.runs(RunQuery(**wanted))]

    assert await ids(outcomes=("failed", "budget")) == ["r4", "r1"]
    assert await ids(outcomes=("failed", "budget"), limit=1, before=(AT_MS + 4, "r4")) == ["r1"]
    assert await ids(outcomes=("refused",), session_id="s2") == []
    assert await ids(asking="person") == await ids(asking="person", session_id="s1") == ["r3"]
    assert await ids(asking="nobody") == ["r5", "r4", "r2", "r1"]
    assert await ids(asking="client") == []


async def test_a_run_that_waits_for_its_client_waits_for_no_person(store: Store) -> None:
    """P8: its calls are in no list of approvals, and the session needs nobody."""
    fence = await begin(store, run_id="r1")
    calls = e.ClientToolsAsked(at_ms=AT_MS, run_id="r1", client_tools_id="c1", tool_call_ids=("t",))
    await store.append_run("s1", [calls], fence=fence)
    assert [run.run_id for run in await store.runs(RunQuery(asking="client"))] == ["r1"]
    assert await store.open_asks() == []
    listed = await store.listed("s1")
    assert listed is not None
    assert listed.open_asks == 0
    await store.append_run("s1", [asked("a1")], fence=fence)
    assert [run.run_id for run in await store.runs(RunQuery(asking="person"))] == ["r1"]
    assert await store.runs(RunQuery(asking="client")) == []


async def test_sessions_are_found_by_how_their_ids_begin(store: Store) -> None:
    for session_id in ("s~9.2", "s", "s~2.2", "t~1.2", "s~2.2~4.3", "sa"):
        await store.append(session_id, [e.SessionCreated(at_ms=AT_MS, epoch="e")])
    await store.append("s~9.2", [e.SessionDeleted(at_ms=AT_MS, purge_at_ms=AT_MS + 1)])
    assert list(await store.session_ids("s~")) == ["s~2.2", "s~2.2~4.3"]
    assert list(await store.session_ids("s~", limit=1)) == ["s~2.2"]


async def test_open_asks_of_one_millisecond_are_listed_as_in_their_logs(store: Store) -> None:
    for session_id, run_id, ids in (("s2", "r2", ("b", "a")), ("s1", "r1", ("d", "c"))):
        fence = await begin(store, session_id, run_id=run_id)
        await store.append_run(session_id, [asked(one, run_id=run_id) for one in ids], fence=fence)
    assert [ask.ask_id for ask in await store.open_asks()] == ["d", "c", "b", "a"]


async def test_open_asks_are_listed_oldest_first_until_settled(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    question = e.QuestionAsked(
        at_ms=AT_MS, run_id="r1", question_id="q1", tool_call_id="t", text="?", expires_at_ms=AT_MS + 60
    )
    later = [asked("a1", at_ms=AT_MS + 1), asked("a2", at_ms=AT_MS + 2)]
    await store.append_run("s1", [question, *later], fence=fence)
    assert [ask.ask_id for ask in await store.open_asks()] == ["q1", "a1", "a2"]
    assert [ask.ask_id for ask in await store.open_asks(limit=1)] == ["q1"]
    assert await store.open_ask_count() == 3
    assert len(await store.open_asks(session_id="s1")) == 3
    assert [*await store.open_asks(session_id="s2"), *await store.open_asks(source="child")] == []
    assert await store.ask("q1") == AskRow(
        ask_id="q1",
        session_id="s1",
        run_id="r1",
        kind="question",
        seq=3,
        asked_ms=AT_MS,
        expires_at_ms=AT_MS + 60,
    )
    await store.append_run("s1", [e.QuestionExpired(at_ms=AT_MS, run_id="r1", question_id="q1")], fence=fence)
    await store.append("s1", [answered("a1")])
    withdrawn = e.ApprovalWithdrawn(at_ms=AT_MS, run_id="r1", approval_id="a1", cause="stop")
    await store.append_run("s1", [withdrawn], fence=fence)
    states = {ask_id: await store.ask(ask_id) for ask_id in ("q1", "a1", "a2")}
    assert {ask_id: ask.state for ask_id, ask in states.items() if ask} == {
        "q1": "expired",
        "a1": "answered",
        "a2": "open",
    }
    assert await store.ask("a9") is None


async def test_events_copied_into_a_fork_move_nothing_of_the_original(store: Store) -> None:
    fence = await begin(store, run_id="r1")
    await store.append_run("s1", [asked("a1")], fence=fence)
    await store.append("s2", [created(), queued("r1")])
    await store.append_run("s2", [asked("a1"), ended("r1")], fence=await store.claim("s2"))
    await store.append("s2", [answered("a1")])
    run, ask = await store.run("r1"), await store.ask("a1")
    assert run is not None
    assert ask is not None
    assert (run.session_id, run.status, ask.session_id, ask.state) == ("s1", "queued", "s1", "open")


async def test_what_was_said_to_a_run_waits_until_a_run_has_it_or_it_is_taken_back(store: Store) -> None:
    await begin(store, "s1", run_id="r1")
    for nth in (1, 2, 3):
        steer = e.MessageAccepted(at_ms=AT_MS, message_id=f"m{nth}", text="x", mode="steer", run_id="r1")
        await store.append("s1", [steer])
    assert list(await store.undelivered_steers()) == ["s1"]
    fence = await store.claim("s1")
    dispatched = e.MessageDispatched(at_ms=AT_MS, run_id="r1", message_id="m1")
    await store.append_run("s1", [started("r1"), dispatched, ended("r1")], fence=fence)
    await store.append("s1", [e.MessageRemoved(at_ms=AT_MS, message_id="m2")])
    assert list(await store.undelivered_steers()) == ["s1"]
    await store.append_run("s1", [e.RunQueued(at_ms=AT_MS, run_id="r2", message_id="m3")], fence=fence)
    assert list(await store.undelivered_steers()) == []


async def test_many_logs_are_read_in_one_go_as_each_would_be_read_alone(store: Store) -> None:
    for nth in range(3):
        await store.append(f"s{nth}", [created(), *(message(f"{nth} {at}") for at in range(nth))])
    places = [("s2", 1), ("none", 0), ("s0", 0), ("s1", 9), ("s2", 0)]
    together = await store.read_each(places, limit=2)
    for (session_id, after), found in zip(places, together, strict=True):
        assert not isinstance(found, StoreDamaged)
        alone = await store.read(session_id, after=after, limit=2)
        assert [(one.seq, one.body) for one in found] == [(one.seq, one.body) for one in alone]


async def test_logs_of_a_source_are_listed_oldest_first_without_deleted_ones(store: Store) -> None:
    for session_id, source, at_ms in (
        ("b", "trigger", 1),
        ("a", "trigger", 2),
        ("c", "api", 1),
        ("d", "trigger", 3),
    ):
        await store.append(session_id, [created(source=source, at_ms=at_ms)])
    await store.append("d", [e.SessionDeleted(at_ms=9, purge_at_ms=99)])
    assert [row.session_id for row in await store.logs("trigger")] == ["b", "a"]
    assert list(await store.logs("nothing")) == []
    assert await listed(store) == ["c"], "they aren't conversations"
