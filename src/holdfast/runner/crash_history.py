"""The lives of the processes that wrote to a store: which of them ended in a crash, and with which runs."""

from collections.abc import Sequence

import msgspec

from holdfast.interfaces.journal import Notes

NOTE = "runner/lives"
CRASHES_MAX = 32


class Crash(msgspec.Struct, frozen=True, array_like=True):
    """What was taken up from `from_ms` on, and before `until_ms`, was cut short."""

    from_ms: int
    until_ms: int


class _Told(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one life tells the next: the crashes it knows of, and its beginning as long as it lasts."""

    crashes: tuple[Crash, ...] = ()
    begun_ms: int | None = None


class CrashHistory:
    """This life and those before it; a life that told its end did not crash.

    A life may end without having gone on with what an earlier one left, so each run is judged by the life
    that took it up last and not by the one before this.
    """

    def __init__(self) -> None:
        self._crashes: Sequence[Crash] = ()
        self._last: Crash | None = None  # the life before this one, if it crashed
        self._has_heard = False

    async def learn(self, notes: Notes, now_ms: int) -> None:
        """Look what became of the lives before this one, which begins now."""
        raw = await notes.note(NOTE)
        # Of a store that nobody wrote word in nothing good is known.
        told = msgspec.json.decode(raw, type=_Told) if raw is not None else _Told(begun_ms=0)
        self._crashes, self._has_heard = told.crashes, True
        if told.begun_ms is not None:
            self._last = Crash(told.begun_ms, max(now_ms, told.begun_ms))
            self._crashes = _with(told.crashes, self._last)

    @property
    def last_crashed(self) -> bool:
        """Whether the life before this one had no time to clean up."""
        return self._last is not None

    async def begin(self, notes: Notes, now_ms: int) -> None:
        """Say that this life lasts until its end is told; raises a JournalError if nobody hears it."""
        await self._tell(notes, begun_ms=now_ms)

    async def end(self, notes: Notes) -> None:
        """Say that this life ends in good order; raises a JournalError if nobody hears it."""
        if self._has_heard:  # else it began nothing, and would deny the crashes that it never heard of
            await self._tell(notes, begun_ms=None)

    def cause_of(self, taken_up_ms: int) -> str:
        """What cut short a run that was taken up at this time: "crash", or "restart"."""
        if self._last is not None and taken_up_ms >= self._last.from_ms:
            # Also if it lies in the future: the clock may have been set back since.
            return "crash"
        is_known = any(crash.from_ms <= taken_up_ms < crash.until_ms for crash in self._crashes)
        return "crash" if is_known else "restart"

    async def _tell(self, notes: Notes, *, begun_ms: int | None) -> None:
        await notes.put_note(NOTE, msgspec.json.encode(_Told(tuple(self._crashes), begun_ms)))


def _with(crashes: Sequence[Crash], newest: Crash) -> tuple[Crash, ...]:
    """One more crash; right behind another one they are one, and the oldest are forgotten."""
    if crashes and crashes[-1].until_ms == newest.from_ms:
        return (*crashes[:-1], Crash(crashes[-1].from_ms, newest.until_ms))
    return (*crashes, newest)[-CRASHES_MAX:]
