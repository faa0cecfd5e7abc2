"""Records which earlier processes crashed, and so which runs a crash cut off.

Suspects of a crash loop take turns: one at a time, on all nodes that share a store together.
"""

import logging
from collections.abc import Sequence

import msgspec

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Notes, Store
from holdfast.runner.slots import Slots

NOTE = "runner/lives"
CRASHES_MAX = 32


class Crash(msgspec.Struct, frozen=True, array_like=True):
    """A crash cut off the runs that were started or resumed from `from_ms` on and before `until_ms`."""

    from_ms: int
    until_ms: int


class _CrashNote(msgspec.Struct, frozen=True, omit_defaults=True):
    """The note for the next process: known crashes, and when this process started, until it shuts down."""

    crashes: tuple[Crash, ...] = ()
    begun_ms: int | None = None


class CrashHistory:
    """This process and earlier ones. A process that recorded its shutdown didn't crash.

    A process may end before it resumes an earlier one's runs, so each run is judged by the process that last
    started or resumed it, not by the previous one. Each node of a cluster has its own history.
    """

    def __init__(self, node: str = "") -> None:
        # Nodes that share a store crash one by one.
        self._note = f"{NOTE}/{node}" if node else NOTE
        self._crashes: Sequence[Crash] = ()
        self._last: Crash | None = None  # the previous process, if it crashed
        self._is_loaded = False

    async def load(self, notes: Notes, now_ms: int) -> None:
        """Read how earlier processes ended; this one starts now."""
        raw = await notes.note(self._note)
        # No note: assume a crash.
        note = msgspec.json.decode(raw, type=_CrashNote) if raw is not None else _CrashNote(begun_ms=0)
        self._crashes, self._is_loaded = note.crashes, True
        if note.begun_ms is not None:
            self._last = Crash(note.begun_ms, max(now_ms, note.begun_ms))
            self._crashes = _added(note.crashes, self._last)

    @property
    def last_crashed(self) -> bool:
        """Whether the previous process crashed."""
        return self._last is not None

    async def begin(self, notes: Notes, now_ms: int) -> None:
        """Record that this process runs; raises a JournalError if that can't be stored."""
        await self._write(notes, begun_ms=now_ms)

    async def end(self, notes: Notes) -> None:
        """Record a clean shutdown; raises a JournalError if that can't be stored."""
        if self._is_loaded:  # otherwise it would overwrite crashes that it never read
            await self._write(notes, begun_ms=None)

    def cause_of(self, taken_up_ms: int) -> str:
        """Return what interrupted a run that was started or resumed at this time: "crash" or "restart"."""
        if self._last is not None and taken_up_ms >= self._last.from_ms:
            # Also if that time is in the future: the clock may have been set back.
            return "crash"
        is_known = any(crash.from_ms <= taken_up_ms < crash.until_ms for crash in self._crashes)
        return "crash" if is_known else "restart"

    async def _write(self, notes: Notes, *, begun_ms: int | None) -> None:
        await notes.put_note(self._note, msgspec.json.encode(_CrashNote(tuple(self._crashes), begun_ms)))


def _added(crashes: Sequence[Crash], newest: Crash) -> tuple[Crash, ...]:
    """The crashes with one more; adjacent crashes become one, and the oldest are dropped."""
    if crashes and crashes[-1].until_ms == newest.from_ms:
        return (*crashes[:-1], Crash(crashes[-1].from_ms, newest.until_ms))
    return (*crashes, newest)[-CRASHES_MAX:]


SUSPECT_NOTE = "runner/suspect"
SUSPECT_LOOK_S = 1.0
OVERDUE_MS = 60_000  # after its time, a turn that wasn't released counts as over

_log = logging.getLogger(__name__)


class _Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    """The run whose turn it is, if any."""

    run_id: str = ""
    incarnation: int = 0
    until_ms: int = 0


class SuspectTurns:
    """Gives each suspect a turn, until it is released, its node dies, or it is overdue."""

    def __init__(self, store: Store, clock: Clock, *, alone_s: float) -> None:
        self._store = store
        self._clock = clock
        self._alone_s = alone_s
        self._here = Slots(1)
        self._next = ""  # the run that waits for a run of another node
        self._turn = b""

    def position(self, run_id: str) -> int:
        """The run's place in this node's queue, starting at 1; 0 if it isn't waiting."""
        if run_id == self._next:
            return 1
        behind = self._here.position(run_id)
        return behind + bool(self._next) if behind else 0

    async def acquire(self, run_id: str) -> None:
        """Wait for a turn."""
        await self._here.acquire(run_id)
        if not self._store.node.name:
            return
        self._next = run_id
        try:
            while not await self._taken(run_id):
                await self._clock.sleep_s(SUSPECT_LOOK_S)
        except BaseException:
            self._here.release()
            raise
        finally:
            self._next = ""

    async def release(self) -> None:
        """Give the turn back."""
        turn, self._turn = self._turn, b""
        try:
            if turn:
                await self._store.swap_note(SUSPECT_NOTE, msgspec.json.encode(_Turn()), expected=turn)
        except JournalError as error:
            _log.info("suspects of a crash wait a minute longer: %s", error)
        finally:
            self._here.release()

    async def _taken(self, run_id: str) -> bool:
        try:
            found = await self._store.note(SUSPECT_NOTE)
            turn = msgspec.json.decode(found, type=_Turn) if found else _Turn()
            if turn.run_id and turn.until_ms > self._clock.now_ms() and await self._lives(turn):
                return False
            until_ms = self._clock.now_ms() + int(1000 * self._alone_s) + OVERDUE_MS
            mine = msgspec.json.encode(_Turn(run_id, self._store.node.incarnation, until_ms))
            if await self._store.swap_note(SUSPECT_NOTE, mine, expected=found):
                self._turn = mine
        except JournalError as error:
            _log.info("a suspect of a crash waits for the store: %s", error)
        return bool(self._turn)

    async def _lives(self, turn: _Turn) -> bool:
        return any(node.incarnation == turn.incarnation for node in await self._store.nodes())
