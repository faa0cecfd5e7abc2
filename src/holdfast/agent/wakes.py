"""How agents wake other sessions: a sub-agent's when it is created, and its parent's when it has ended."""

from collections.abc import Callable
from typing import TypeAlias

Wake: TypeAlias = Callable[[str, int, str], None]  # the session, its newest seq, and a new run of it, if any


class OwnerWakes:
    """Passes on to the supervisor which sessions have something to do; without one, to nobody."""

    def __init__(self) -> None:
        self._wake: Wake | None = None

    def connect(self, wake: Wake) -> None:
        """Tell this function from now on."""
        self._wake = wake

    def wake(self, session_id: str, seq: int, *, run_id: str = "") -> None:
        """The session's log has new events up to `seq`, and maybe a new run."""
        if self._wake is not None:
            self._wake(session_id, seq, run_id)
