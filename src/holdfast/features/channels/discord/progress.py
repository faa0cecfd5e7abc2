"""How far a gateway session is accepted: everything up to this sequence is on the log."""

import msgspec

from holdfast.interfaces.journal import Store


class ResumePoint(msgspec.Struct, frozen=True):
    """From where a session can be resumed, also by another process."""

    session_id: str
    url: str
    seq: int


class Progress:
    """The events of one session that came in; its sequence moves only past those that were accepted."""

    def __init__(self, session_id: str, url: str, seq: int) -> None:
        self.session_id = session_id
        self.url = url
        self._floor = seq  # it can be resumed from here at the earliest
        self._newest = seq
        self._open: dict[int, int] = {}  # sequence -> how much of it is still to be accepted

    def begin(self, seq: int, parts: int = 1) -> None:
        """An event came in."""
        self._newest = max(self._newest, seq)
        if parts:
            self._open[seq] = self._open.get(seq, 0) + parts

    def end(self, seq: int) -> None:
        """One part of it is on the log."""
        left = self._open.get(seq, 0) - 1
        if left > 0:
            self._open[seq] = left
        else:
            self._open.pop(seq, None)

    @property
    def is_taken(self) -> bool:
        """Whether a process that knows nothing else can resume: the beginning itself was accepted."""
        return self._taken >= self._floor

    @property
    def _taken(self) -> int:
        return min(self._open) - 1 if self._open else self._newest

    @property
    def point(self) -> ResumePoint:
        """From where to resume."""
        return ResumePoint(self.session_id, self.url, max(self._floor, self._taken))


class KeptProgress:
    """The resume point as a note: losing it costs a look at the history, never a message."""

    def __init__(self, store: Store, log_id: str) -> None:
        self._store = store
        self._key = f"session/{log_id}/gateway"

    async def load(self) -> ResumePoint | None:
        """The point that was kept last."""
        found = await self._store.note(self._key)
        if not found:
            return None
        try:
            return msgspec.json.decode(found, type=ResumePoint)
        except msgspec.MsgspecError:
            return None  # another version wrote it

    async def keep(self, point: ResumePoint) -> None:
        """Remember it."""
        await self._store.put_note(self._key, msgspec.json.encode(point))

    async def drop(self) -> None:
        """Forget it."""
        await self._store.drop_note(self._key)
