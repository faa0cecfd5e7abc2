"""A cache of recently written index rows, so that reading them needs neither a thread nor the file.

The rows are always current, because this process writes all of them. Everything here runs on the event loop's
thread.
"""

from collections import OrderedDict
from collections.abc import Sequence

from holdfast.folds.rows import RunRow
from holdfast.interfaces.index import ListedSession

KEPT_MAX = 4_096


class RowCache:
    """The newest rows of sessions and runs; after a miss, read the file."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[str, ListedSession] = OrderedDict()
        self._runs: OrderedDict[str, RunRow] = OrderedDict()

    def keep(self, listed: ListedSession, runs: Sequence[RunRow]) -> None:
        """Add the rows of a commit."""
        session_id = listed.row.session_id
        self._sessions[session_id] = listed
        self._sessions.move_to_end(session_id)
        for run in runs:
            self._runs[run.run_id] = run
            self._runs.move_to_end(run.run_id)
        while len(self._sessions) > KEPT_MAX:
            self._sessions.popitem(last=False)
        while len(self._runs) > KEPT_MAX:
            self._runs.popitem(last=False)

    def session(self, session_id: str) -> ListedSession | None:
        """The session as the list shows it, if it is cached."""
        return self._sessions.get(session_id)

    def run(self, run_id: str) -> RunRow | None:
        """The run's row, if it is cached."""
        return self._runs.get(run_id)

    def forget(self, session_id: str) -> None:
        """Drop the rows of a purged session."""
        self._sessions.pop(session_id, None)
        for run_id in [run_id for run_id, run in self._runs.items() if run.session_id == session_id]:
            del self._runs[run_id]

    def clear(self) -> None:
        """Drop everything."""
        self._sessions.clear()
        self._runs.clear()
