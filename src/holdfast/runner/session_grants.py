"""Grants that hold in one session only: a note names each, so that they can be listed without reading logs.

A note is written before its grant is on the log, so it may name a grant that was never added or was removed;
the log decides. Purging the session removes its notes.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

from holdfast.interfaces.journal import Notes

SESSION, GRANTED = "session/", "granted/"  # no session id holds a slash


class SessionGrant(NamedTuple):
    """A grant, and the session that it holds in."""

    session_id: str
    grant_id: str

    @property
    def note(self) -> str:
        """The key of its note."""
        return f"{SESSION}{self.session_id}/{GRANTED}{self.grant_id}"

    @property
    def cursor(self) -> str:
        """Its position in the list of all grants."""
        return f"{self.session_id}/{self.grant_id}"

    @classmethod
    def at(cls, cursor: str) -> Self:
        """The grant at this cursor; accepts any text."""
        session_id, _, grant_id = cursor.partition("/")
        return cls(session_id, grant_id)


async def note_session_grant(notes: Notes, granted: SessionGrant) -> None:
    """Note the grant; call it before the grant is appended to the log."""
    await notes.put_note(granted.note, b"")


async def forget_session_grant(notes: Notes, granted: SessionGrant) -> None:
    """Remove the note of a grant."""
    await notes.drop_note(granted.note)


async def session_grants(notes: Notes) -> Sequence[SessionGrant]:
    """All noted grants, in a stable order."""
    found: list[SessionGrant] = []
    for key in await notes.notes(SESSION):
        session_id, _, name = key.removeprefix(SESSION).partition("/")
        if name.startswith(GRANTED):
            found.append(SessionGrant(session_id, name.removeprefix(GRANTED)))
    return sorted(found)
