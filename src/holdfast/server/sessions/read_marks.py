"""How far each session has been read: notes, cached in memory because the list shows them all."""

import msgspec

from holdfast.interfaces.journal import Notes


class ReadMark(msgspec.Struct, frozen=True):
    """The newest seq that a person has seen, and when."""

    seq: int = 0
    at_ms: int = 0


class ReadMarks:
    """The marks of all sessions; a mark never goes back."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._marks: dict[str, ReadMark] = {}

    async def load(self) -> None:
        """Load the marks of an earlier process."""
        for key, raw in (await self._notes.notes("session/")).items():
            session_id, _, name = key.removeprefix("session/").partition("/")
            if name == "read":
                self._marks[session_id] = msgspec.json.decode(raw, type=ReadMark)

    def of(self, session_id: str) -> ReadMark:
        """How far the session was read."""
        return self._marks.get(session_id, ReadMark())

    async def put(self, session_id: str, mark: ReadMark) -> None:
        """Mark the session as read up to here."""
        if mark.seq >= self.of(session_id).seq:
            await self._notes.put_note(_note(session_id), msgspec.json.encode(mark))
            self._marks[session_id] = mark

    async def drop(self, session_id: str) -> None:
        """Remove a mark that was written after its session's purge."""
        self.forget(session_id)
        await self._notes.drop_note(_note(session_id))

    def forget(self, session_id: str) -> None:
        """Forget a purged session; its notes are already gone."""
        self._marks.pop(session_id, None)


def _note(session_id: str) -> str:
    """The note's key; the session's purge removes it."""
    return f"session/{session_id}/read"
