"""Wakes other sessions: a sub-agent's when it's created, and its parent's when it has ended."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias


class NewRun(NamedTuple):
    """A run that was just queued, and the name of the API key that it counts for."""

    run_id: str
    key: str


Wake: TypeAlias = Callable[[str, int, NewRun | None], None]  # the session, its last seq, and a new run


class OwnerWakes:
    """Notifies the supervisor, if any, which sessions have work."""

    def __init__(self) -> None:
        self._wake: Wake | None = None

    def connect(self, wake: Wake) -> None:
        """Tell this function from now on."""
        self._wake = wake

    def wake(self, session_id: str, seq: int, *, run: NewRun | None = None) -> None:
        """The session's log has new events up to `seq`, and maybe a new run."""
        if self._wake is not None:
            self._wake(session_id, seq, run)
