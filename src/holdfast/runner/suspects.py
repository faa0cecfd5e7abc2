"""Suspects of a crash loop take turns: one at a time, on all nodes that share a store together."""

import logging

import msgspec

from holdfast.interfaces.clock import Clock
from holdfast.interfaces.journal import JournalError, Store
from holdfast.runner.slots import Slots

NOTE = "runner/suspect"
LOOK_S = 1.0
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
                await self._clock.sleep_s(LOOK_S)
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
                await self._store.swap_note(NOTE, msgspec.json.encode(_Turn()), expected=turn)
        except JournalError as error:
            _log.info("suspects of a crash wait a minute longer: %s", error)
        finally:
            self._here.release()

    async def _taken(self, run_id: str) -> bool:
        try:
            found = await self._store.note(NOTE)
            turn = msgspec.json.decode(found, type=_Turn) if found else _Turn()
            if turn.run_id and turn.until_ms > self._clock.now_ms() and await self._lives(turn):
                return False
            until_ms = self._clock.now_ms() + int(1000 * self._alone_s) + OVERDUE_MS
            mine = msgspec.json.encode(_Turn(run_id, self._store.node.incarnation, until_ms))
            if await self._store.swap_note(NOTE, mine, expected=found):
                self._turn = mine
        except JournalError as error:
            _log.info("a suspect of a crash waits for the store: %s", error)
        return bool(self._turn)

    async def _lives(self, turn: _Turn) -> bool:
        return any(node.incarnation == turn.incarnation for node in await self._store.nodes())
