"""Which rules hold in one session alone: notes that name all of them, so that no log is read to find them.

A note is written before its rule is on the log. So it may name a rule that never was, or is no more; the log
decides. It goes with the session's purge.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

from holdfast.interfaces.journal import Notes

SESSION, GRANTED = "session/", "granted/"  # no session id holds a slash


class SessionGrant(NamedTuple):
    """A rule and the session in which it was allowed, or which has it as a fork of that one."""

    session_id: str
    grant_id: str

    @property
    def note(self) -> str:
        """The key of its note."""
        return f"{SESSION}{self.session_id}/{GRANTED}{self.grant_id}"

    @property
    def cursor(self) -> str:
        """Its place among all."""
        return f"{self.session_id}/{self.grant_id}"

    @classmethod
    def at(cls, cursor: str) -> Self:
        """The one with this place; any text has one."""
        session_id, _, grant_id = cursor.partition("/")
        return cls(session_id, grant_id)


async def note_session_grant(notes: Notes, granted: SessionGrant) -> None:
    """Say that there may be such a rule; to be called before there is."""
    await notes.put_note(granted.note, b"")


async def forget_session_grant(notes: Notes, granted: SessionGrant) -> None:
    """There is no such rule any more."""
    await notes.drop_note(granted.note)


async def session_grants(notes: Notes) -> Sequence[SessionGrant]:
    """All that may be there, in an order that stays."""
    found: list[SessionGrant] = []
    for key in await notes.notes(SESSION):
        session_id, _, name = key.removeprefix(SESSION).partition("/")
        if name.startswith(GRANTED):
            found.append(SessionGrant(session_id, name.removeprefix(GRANTED)))
    return sorted(found)
