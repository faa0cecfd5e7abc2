"""The shared folds of this process: one per session, those looked at last kept for the next look."""

from collections import OrderedDict
from weakref import WeakValueDictionary

from holdfast.agent.shared_fold import SharedFold

SESSIONS_MAX = 256
EVENTS_MAX = 200_000  # of all kept logs together; the fold of one event takes a few hundred bytes
BYTES_MAX = 128 * 1024 * 1024  # and of their records: texts take as much in a fold as they do on the log


class SharedFolds:
    """One fold for each session that somebody uses, and the most recent of the others, within bounds."""

    def __init__(
        self,
        *,
        sessions_max: int = SESSIONS_MAX,
        events_max: int = EVENTS_MAX,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._in_use: WeakValueDictionary[str, SharedFold] = WeakValueDictionary()
        # the most recent one last, each with the events and bytes that were counted for it
        self._kept: OrderedDict[str, tuple[SharedFold, int, int]] = OrderedDict()
        self._events = 0
        self._bytes = 0
        self._sessions_max = sessions_max
        self._events_max = events_max
        self._bytes_max = bytes_max

    def of(self, session_id: str) -> SharedFold:
        """The session's fold as far as it was read; an empty one if nobody has one."""
        fold = self._in_use.get(session_id)
        if fold is None:
            fold = self._in_use[session_id] = SharedFold()
        self.keep(session_id, fold)
        return fold

    def known(self, session_id: str) -> SharedFold | None:
        """The session's fold, if there is one; reading it makes it no more recent."""
        return self._in_use.get(session_id)

    def keep(self, session_id: str, fold: SharedFold) -> None:
        """Keep the fold as the most recent one, at its present size; drop the oldest if that is too much."""
        self._drop(session_id)
        self._in_use[session_id] = fold
        self._kept[session_id] = fold, fold.last_seq, fold.bytes
        self._events += fold.last_seq
        self._bytes += fold.bytes
        while len(self._kept) > 1 and self._is_too_much():
            self._drop(next(iter(self._kept)))

    def _is_too_much(self) -> bool:
        return (
            len(self._kept) > self._sessions_max
            or self._events > self._events_max
            or self._bytes > self._bytes_max
        )

    def _drop(self, session_id: str) -> None:
        _, events, size = self._kept.pop(session_id, (None, 0, 0))
        self._events -= events
        self._bytes -= size

    def count(self, session_id: str) -> None:
        """Count what was read into the session's fold since, if the fold is still kept."""
        if session_id in self._kept:
            self.of(session_id)

    def forget(self, session_id: str) -> None:
        """The log is gone, or its fold cannot be trusted: the next look begins with an empty one."""
        self._drop(session_id)
        self._in_use.pop(session_id, None)
