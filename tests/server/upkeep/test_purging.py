"""Purges at awkward moments: what somebody wants again stays, and what nobody wants does not go on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from holdfast import events as e
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.codec import UnreadableEvent
from holdfast.folds.phases import IllegalEvent
from holdfast.folds.rows import RunRow, SessionRow
from holdfast.interfaces.index import RunQuery
from holdfast.interfaces.journal import JournalError, StoreDamaged, StoreFailed, StoreLocked
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.runner.supervisor import RunnerLimits
from holdfast.server.upkeep.purging import AT_ONCE, SWEEP_S
from holdfast.values import ImagePart, LogEnd
from server.upkeep.purged_stores import Counting, OneIsBad
from serving import PATIENT, Setting, limited, served, target_of
from stores import MemoryStore
from tables import for_each_row

LATER_MS = 1 << 52


def old() -> e.SessionCreated:
    return e.SessionCreated(at_ms=1, epoch="e", source="openai")


class UsedAtTheLastMoment(MemoryStore):
    """Somebody goes on in an old session just when it was found to be old."""

    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await super().sessions_to_purge(source=source, before_ms=before_ms)
        if found:
            said = e.MessageAccepted(at_ms=2, message_id="m", text="are you still there?")
            await self.append("used", [said])
        return found


async def test_an_old_session_that_is_used_again_while_old_ones_are_purged_stays() -> None:
    """P2: a message that was accepted is kept."""
    disk = MemoryDisk()
    store = UsedAtTheLastMoment(disk)
    for session_id in ("used", "not used"):
        await store.append(session_id, [old()])
    followed = aiter(store.follow("not used", after=1))
    async with ChaosServer() as chaos, served(target_of(chaos), store=store):
        assert [records async for records in followed] == []  # it ends with the session
    assert list(disk.logs) == ["used"]


class Overwriting(MemoryStore):
    """Takes long to overwrite what was purged."""

    def __init__(self) -> None:
        super().__init__()
        self.is_gone, self.is_done = asyncio.Event(), asyncio.Event()

    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        gone = await super().purge(session_id, only=only, then=then)
        self.is_gone.set()
        await self.is_done.wait()
        return gone


async def test_a_session_under_an_id_that_was_just_purged_has_nothing_of_the_old_one() -> None:
    """P2, P11: what is sent to it is heard, also while the words of the old one are overwritten."""
    store = Overwriting()
    async with (
        ChaosServer([Say("old")], [Say("new")]) as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        await server.ended(await server.start("hi", session_id="s"))
        deleting = asyncio.create_task(server.call("DELETE", "/api/sessions/s?now=true"))
        await store.is_gone.wait()
        run_id = await server.start("hello", session_id="s")
        assert (await server.ended(run_id))["output"] == "new"
        store.is_done.set()
        assert (await deleting).status == 200
    await store.close()


async def test_runs_of_a_session_whose_deletion_a_crash_cut_short_are_stopped() -> None:
    """P5: nothing goes on in what is deleted, also if its runs were not asked to end before the crash."""
    store = MemoryStore()
    said = e.MessageAccepted(at_ms=1, message_id="m", text="hi")
    queued = e.RunQueued(at_ms=1, run_id="r", message_id="m")
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e"), said, queued])
    await store.append("s", [e.SessionDeleted(at_ms=1, purge_at_ms=LATER_MS)])
    async with ChaosServer([Hang()]) as chaos, served(target_of(chaos, patience=PATIENT), store=store):
        async for records in store.follow("s"):
            ends = [record.event for record in records if isinstance(record.event, e.RunEnded)]
            if ends:
                assert (ends[0].outcome, ends[0].cause) == ("cancelled", "deleted")
                break
    await store.close()


class UndeletedMeanwhile(MemoryStore):
    """Somebody takes a session back while its runs are asked to end."""

    undelete: Callable[[], Awaitable[object]] | None = None

    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        undelete, self.undelete = self.undelete, None
        if undelete is not None:
            await undelete()
        return await super().runs(query)


async def test_a_session_that_is_taken_back_while_it_is_deleted_for_good_stays() -> None:
    """P2: who was told that it is back finds it."""
    disk = MemoryDisk()
    store = UndeletedMeanwhile(disk)
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos), store=store) as server:
        await server.ended(await server.start(session_id="s"))
        taken_back: list[int] = []

        async def undelete() -> None:
            taken_back.append((await server.post("/api/sessions/s/undelete"))[0])

        store.undelete = undelete
        await server.call("DELETE", "/api/sessions/s?now=true")
    assert (taken_back, list(disk.logs)) == ([200], ["s"])


async def test_a_response_goes_with_its_session_and_comes_back_with_it() -> None:
    """P11: nobody goes on after what was deleted, and a copy of it is made nowhere."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        _, first = await server.post("/v1/responses", {"input": "one"})
        more = {"input": "more", "previous_response_id": first["id"]}
        session_id = (await server.call("POST", "/v1/responses", body=more)).headers["X-Hermes-Session-Id"]
        await server.call("DELETE", f"/api/sessions/{session_id}")
        shown = await server.call("GET", f"/v1/responses/{first['id']}")
        gone_on = [await server.call("POST", f"/v1/{path}", body=more) for path in ("responses", "runs")]
        assert [one.status for one in (shown, *gone_on)] == [404] * 3
        assert {one.code for one in (shown, *gone_on)} == {"response_not_found"}
        assert len(chaos.seen.requests) == 2
        await server.post(f"/api/sessions/{session_id}/undelete")
        assert (await server.get(f"/v1/responses/{first['id']}"))[0] == 200


@for_each_row(
    "unread",
    [
        StoreDamaged("integrity check failed at session bad seq 2"),
        UnreadableEvent("no event", where="session bad seq 2", body=b"{"),
        IllegalEvent("the run is unknown", event=e.QueuePaused(at_ms=1), seq=2),
    ],
    ids=["damaged", "unreadable", "illegal"],
)
async def test_a_deleted_session_whose_log_cannot_be_read_goes_and_holds_up_no_other(
    unread: Exception,
) -> None:
    """P3: when it is due, and when somebody deletes it for good."""
    store = OneIsBad(unread=unread)
    for session_id in ("bad", "good"):
        await store.put_run(session_id, e.SessionDeleted(at_ms=1, purge_at_ms=1))
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        await store.are_gone.wait()
        await store.put_run("bad")
        assert (await server.call("DELETE", "/api/sessions/bad?now=true")).status == 200
    assert not store.disk.logs


@for_each_row("unremoved", [StoreFailed("the disk failed"), ZeroDivisionError("a bug")])
async def test_a_session_that_cannot_be_purged_now_holds_up_no_other(unremoved: Exception) -> None:
    """P3: however many are due, and whatever is wrong with the one; those who come later go too."""
    store = OneIsBad(unremoved=unremoved)
    for session_id in ("bad", *(f"good {nth}" for nth in range(AT_ONCE))):
        deleted = e.SessionDeleted(at_ms=1, purge_at_ms=1)
        await store.append(session_id, [e.SessionCreated(at_ms=1, epoch="e"), deleted])
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        await store.are_gone.wait()
        store.unremoved = None
        await server.post("/api/sessions", {"id": "s"})
        store.are_gone.clear()
        await server.call("DELETE", "/api/sessions/s?now=true")
        await store.are_gone.wait()
        assert (await server.get("/api/sessions/s"))[0] == 404


async def test_bytes_that_no_event_came_to_name_are_gone_after_a_start_a_week_later() -> None:
    """P2, P11: an upload that nobody sent; what a session shows stays, and so does what is younger."""
    disk = MemoryDisk()
    store = Counting(disk)
    shown, old, young, new = [await store.offer_blob(data) for data in (b"shown", b"old", b"young", b"new")]
    image = ImagePart(blob=shown, media_type="image/png")
    said = e.MessageAccepted(at_ms=1, message_id="m", text="", parts=(image,))
    await store.append("s", [e.SessionCreated(at_ms=1, epoch="e"), said])
    day_s, now_s = 86_400.0, disk.blobs_touched_s[new]
    disk.blobs_touched_s |= {shown: 1.0, old: now_s - 7.1 * day_s, young: now_s - 6.9 * day_s}
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        await store.until("blobs", 1)
        found = [await server.call("GET", f"/api/blobs/{name}") for name in (shown, old, young, new)]
        assert [answer.status for answer in found] == [200, 404, 200, 200]
    await store.close()


class Later(SystemClock):
    """A clock that can be put forward."""

    ahead_s = 0.0

    def monotonic_s(self) -> float:
        return super().monotonic_s() + self.ahead_s


async def test_blobs_are_looked_through_once_a_day_however_often_something_is_deleted() -> None:
    store, clock = Counting(), Later()
    setting = Setting(store=store, clock=clock)
    async with ChaosServer() as chaos, served(target_of(chaos), setting=setting) as server:
        await store.until("blobs", 1)
        for deleted in (1, 2, 3):
            await server.post("/api/sessions", {"id": "s"})
            await server.call("DELETE", "/api/sessions/s?now=true")
            await store.until("sessions", 1 + deleted)
        assert store.looks.count("blobs") == 1
        clock.ahead_s = SWEEP_S
        await server.post("/api/sessions", {"id": "s"})
        await server.call("DELETE", "/api/sessions/s?now=true")
        await store.until("blobs", 2)
    await store.close()


class Behind(Counting):
    """A store that does not take writes yet, so that nobody has looked for what an earlier life left."""

    def __init__(self) -> None:
        super().__init__()
        self.takes_writes = asyncio.Event()

    @property
    def trouble(self) -> JournalError | None:
        return None if self.takes_writes.is_set() else StoreLocked("another process has the file")

    async def writable(self) -> None:
        await self.takes_writes.wait()


async def test_no_blob_goes_before_the_events_of_an_earlier_life_are_there_that_may_name_it() -> None:
    store = Behind()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        for look in (1, 2):
            await store.until("sessions", look)
            await server.post("/api/sessions", {"id": "s"})
            await server.call("DELETE", "/api/sessions/s?now=true")
        assert "blobs" not in store.looks
        store.takes_writes.set()
        for _ in range(1000):
            if "blobs" in store.looks:
                break
            await server.post("/api/sessions", {"id": "s"})
            await server.call("DELETE", "/api/sessions/s?now=true")
        assert "blobs" in store.looks
    await store.close()


async def test_sessions_are_kept_by_age_and_number_of_their_source() -> None:
    """P2: pinned sessions stay, those of other sources, and those with an open run."""
    disk = MemoryDisk()
    store = MemoryStore(disk)
    now_ms = SystemClock().now_ms()
    waiting = e.RunQueued(at_ms=1, run_id="r", message_id="m")
    for session_id, source, age_days, more in (
        ("old", "automation", 9, []),
        ("pinned", "automation", 9, [e.SessionPinned(at_ms=1)]),
        ("open", "automation", 9, [e.MessageAccepted(at_ms=1, message_id="m", text="hi"), waiting]),
        ("young", "automation", 1, []),
        ("page, old", "page", 9, []),
        ("first", "api", 3, []),
        ("second", "api", 2, []),
        ("third", "api", 1, []),
    ):
        at_ms = now_ms - age_days * 86_400_000
        await store.append(session_id, [e.SessionCreated(at_ms=at_ms, epoch="e", source=source), *more])
    setting = limited(sessions_kept_s={"automation": 7 * 86_400.0}, sessions_max={"api": 2})
    setting = replace(setting, runner=RunnerLimits(resume_runs="asked"))
    ends = [aiter(store.follow(one, after=1)) for one in ("old", "first")]
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=setting):
        for followed in ends:
            assert [records async for records in followed] == []
    assert sorted(disk.logs) == ["open", "page, old", "pinned", "second", "third", "young"]


async def test_the_newest_sessions_that_fit_into_a_source_s_bytes_stay() -> None:
    """P2: pinned sessions don't count, and the newest one stays even if it alone is too large."""
    disk = MemoryDisk()
    store = MemoryStore(disk)
    for session_id, source, at_ms, text_bytes in (
        ("oldest", "api", 1, 10),
        ("old", "api", 2, 2_000),
        ("pinned", "api", 3, 9_000),
        ("young", "api", 4, 2_000),
        ("newest", "api", 5, 10),
        ("before", "page", 1, 10),
        ("large", "page", 2, 9_000),
        ("other", "chat", 1, 9_000),
    ):
        accepted = e.MessageAccepted(at_ms=at_ms, message_id="m", text="x" * text_bytes)
        events = [e.SessionCreated(at_ms=at_ms, epoch="e", source=source), accepted]
        pin = [e.SessionPinned(at_ms=at_ms)] if session_id == "pinned" else []
        await store.append(session_id, [*events, *pin])
    setting = limited(sessions_bytes={"api": 4_000, "page": 4_000})
    setting = replace(setting, runner=RunnerLimits(resume_runs="asked"))
    ends = [aiter(store.follow(one, after=2)) for one in ("oldest", "old", "before")]
    async with ChaosServer() as chaos, served(target_of(chaos), store=store, setting=setting):
        for followed in ends:
            assert [records async for records in followed] == []
    assert sorted(disk.logs) == ["large", "newest", "other", "pinned", "young"]
