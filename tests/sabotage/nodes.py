"""Small wrong parts of servers that share a store, with the check that must notice each."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.events import RunResumed
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, OutcomeUnknown, Record, Store, StoreUnreachable
from holdfast.interfaces.nodes import Node
from holdfast.interfaces.system_clock import SystemClock
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.journal.retrying_append import RetryingAppend, absorb
from holdfast.journal.shared_notes import SharedNotes
from holdfast.journal.spool import Spool
from holdfast.models.target_states import TargetStates
from holdfast.runner.claims import SessionClaims
from holdfast.server.access.keys import AddedKeys
from holdfast.targets import Target
from holdfast.tools.shell.lease_watchdog import LeaseWatchdog
from holdfast.values import Failure, LogEnd
from journal.cut_store import CutStore
from journal.promise_checks import check_a_log_that_took_the_place_of_another_is_not_purged_for_it
from journal.sample import AT_MS, begin, delta, texts
from sabotage import Sabotage
from stores import MemoryStore
from tools.kept_shell import check_a_command_on_a_volume_is_killed_and_a_local_one_goes_on


async def check_a_write_that_was_cut_off_lands_once(says: type[JournalError]) -> None:
    inner = MemoryStore()
    fence = await begin(inner, run_id="r1")
    store = CutStore(inner, lands=True, says=says)
    writer = RetryingAppend(store, SystemClock(), run=("s1", "r1"), fence=fence, last_seq=1)
    writing = asyncio.create_task(writer.append([delta("x")]))
    await store.was_cut.wait()
    store.is_back.set()
    await writing
    assert texts(await inner.read("s1")) == ["x"]


class NamedStore(MemoryStore):
    """One of several nodes."""

    @property
    def node(self) -> Node:
        return Node(name="one")


class QuickClock(SystemClock):
    """Its seconds pass at once."""

    async def sleep_s(self, seconds: float) -> None:
        del seconds
        await asyncio.sleep(0)


class TellsNobody(SharedNotes):
    """Removes a note and leaves the others with their copies."""

    async def drop_note(self, key: str) -> None:
        await self._store.drop_note(key)


async def check_a_key_revoked_at_one_node_is_revoked_at_the_other(kind: type[SharedNotes]) -> None:
    disk, clock = MemoryDisk(), QuickClock()
    here, there = (kind(NamedStore(disk), "access") for _ in range(2))
    one, other = AddedKeys(here, clock), AddedKeys(there, clock)
    await one.add("laptop")
    looks = asyncio.Semaphore(0)

    async def reread() -> None:
        await other.load()
        looks.release()

    watching = asyncio.create_task(there.watch(clock, reread))
    await looks.acquire()
    assert other.list()
    await one.revoke("laptop")
    for _ in range(10):  # fewer than the looks after which everything is read again anyway
        await asyncio.sleep(0)
    watching.cancel()
    await asyncio.wait([watching])
    assert not other.list()


class LastWins(MemoryStore):
    """Writes a note whatever is stored."""

    async def swap_note(self, key: str, value: bytes, *, expected: bytes | None) -> bool:
        del expected
        await self.put_note(key, value)
        return True


async def check_two_nodes_count_failures_together(kind: type[MemoryStore]) -> None:
    disk, clock = MemoryDisk(), SystemClock()
    target = Target(name="main", model="m", base_url="http://127.0.0.1:1", wire="chat")
    one, other = TargetStates(kind(disk), clock), TargetStates(kind(disk), clock)
    for states in (one, other, one):
        await states.failed(target, Failure(kind="no_first_event", text="silent", rule="x"))
    assert one.breaker_wait_ms(target) > 0


class AbsorbsRegardless(MemoryStore):
    """Doesn't let the spool see that a run was resumed."""

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        records = await super().read(session_id, after=after, limit=limit)
        return [one for one in records if not isinstance(one.event, RunResumed)]


async def check_a_spool_adds_nothing_behind_a_resumption(kind: type[MemoryStore]) -> None:
    disk = MemoryDisk()
    store = kind(disk)
    fence = await begin(store, run_id="r1")
    with TemporaryDirectory() as folder:
        await Spool(Path(folder)).put("s1", "r1", [delta("of the dead node")], after=2)
        resumed = RunResumed(at_ms=AT_MS, run_id="r1", after="crash")
        await store.append_run("s1", [resumed], fence=fence)
        await absorb(store, Path(folder), now_ms=AT_MS)
    assert disk.logs["s1"][-1].event == resumed


def keeps_volumes(volume: Path) -> LeaseWatchdog:
    """Knows which folder several servers share."""
    return LeaseWatchdog(volumes=[volume], silence_s=0.2)


def takes_all_for_local(_volume: Path) -> LeaseWatchdog:
    """Lets every command go on, also one whose session another server continues."""
    return LeaseWatchdog(silence_s=0.2)


async def check_two_servers_never_work_on_the_same_files(
    watchdog_of: Callable[[Path], LeaseWatchdog],
) -> None:
    with TemporaryDirectory() as folder:
        await check_a_command_on_a_volume_is_killed_and_a_local_one_goes_on(watchdog_of, Path(folder))


class PurgesByLength(MemoryStore):
    """Purges a log that is as long as the one that was meant, whichever it is."""

    async def purge(
        self, session_id: str, *, only: LogEnd | None = None, then: Callable[[], None] | None = None
    ) -> bool:
        row = await self.session(session_id)
        if only is not None and row is not None:
            only = LogEnd(row.epoch, only.last_seq)
        return await super().purge(session_id, only=only, then=then)


async def check_a_purge_means_the_log_that_it_was_decided_for(kind: type[MemoryStore]) -> None:
    await check_a_log_that_took_the_place_of_another_is_not_purged_for_it(kind())


class OwnedUnawares(NamedStore):
    """It owns a session of which this process knows nothing: its release was lost with the database."""

    async def claimable(self, *, limit: int = 100, busy: Collection[str] | None = None) -> Sequence[str]:
        return [] if busy is None or "s1" in busy else ["s1"][:limit]


def claims_from_others_only(
    store: Store,
    clock: Clock,
    *,
    room: Callable[[], int],
    busy: Callable[[], Collection[str]],
    wake: Callable[[str], None],
) -> SessionClaims:
    """Takes all that it owns itself for looked after."""
    return SessionClaims(store, clock, room=room, busy=lambda: [*busy(), "s1"], wake=wake)


async def check_what_a_node_owns_unawares_is_worked_on(kind: Callable[..., SessionClaims]) -> None:
    woken: list[str] = []
    claims = kind(OwnedUnawares(), QuickClock(), room=lambda: 1, busy=list, wake=woken.append)
    await claims.look()
    assert "s1" in woken


SABOTAGES = (
    Sabotage("P2", check_a_purge_means_the_log_that_it_was_decided_for, MemoryStore, PurgesByLength),
    Sabotage("P6", check_what_a_node_owns_unawares_is_worked_on, SessionClaims, claims_from_others_only),
    Sabotage("P6", check_two_servers_never_work_on_the_same_files, keeps_volumes, takes_all_for_local),
    Sabotage("P4", check_a_spool_adds_nothing_behind_a_resumption, MemoryStore, AbsorbsRegardless),
    Sabotage("P1", check_a_write_that_was_cut_off_lands_once, OutcomeUnknown, StoreUnreachable),
    Sabotage("P11", check_a_key_revoked_at_one_node_is_revoked_at_the_other, SharedNotes, TellsNobody),
    Sabotage("P10", check_two_nodes_count_failures_together, MemoryStore, LastWins),
)
