"""Which rules hold in one session alone: notes that name all of them, so that no log is read to find them.

A note is written before its rule is on the log. So it may name a rule that never was, or is no more; the log
decides.
"""

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.interfaces import Notes

PREFIX = "granted/"


class Granted(NamedTuple):
    """A rule and the session in which it was allowed, or which has it as a fork of that one."""

    session_id: str
    grant_id: str

    @property
    def note(self) -> str:
        """The key of its note; no session id holds a slash."""
        return f"{PREFIX}{self.session_id}/{self.grant_id}"


async def note_granted(notes: Notes, granted: Granted) -> None:
    """Say that there may be such a rule; to be called before there is."""
    await notes.put_note(granted.note, b"")


async def forget_granted(notes: Notes, granted: Granted) -> None:
    """There is no such rule any more."""
    await notes.drop_note(granted.note)


async def all_granted(notes: Notes) -> Sequence[Granted]:
    """All that may be there, in an order that stays."""
    keys = sorted(await notes.notes(PREFIX))
    return [Granted(*key.removeprefix(PREFIX).split("/", 1)) for key in keys]
