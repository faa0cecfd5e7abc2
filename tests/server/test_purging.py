"""Purges at awkward moments: what somebody wants again stays, and what nobody wants does not go on."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from holdfast import events as e
from holdfast.chaos import ChaosServer, Hang, Say
from holdfast.interfaces import RunQuery
from holdfast.journal.memory import MemoryDisk, MemoryStore
from holdfast.rows import RunRow, SessionRow
from serving import PATIENT, served, target_of

LATER_MS = 1 << 52


def old() -> e.SessionCreated:
    return e.SessionCreated(at_ms=1, epoch="e", source="openai")


class UsedAtTheLastMoment(MemoryStore):
    """Somebody goes on in an old session just when it was found to be old."""

    async def leftovers(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        found = await super().leftovers(source=source, before_ms=before_ms)
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
        self, session_id: str, *, last_seq: int | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        gone = await super().purge(session_id, last_seq=last_seq, then=then)
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
