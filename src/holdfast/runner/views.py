"""Sessions that were folded lately, so that an input to a quiet one does not read its whole log again."""

from collections import OrderedDict

from holdfast.agent.view import SessionView

SESSIONS_MAX = 256
EVENTS_MAX = 200_000  # of all kept logs together; what is folded of one weighs a few hundred bytes


class Views:
    """The folds of the sessions that were looked at last, at most so many and so large."""

    def __init__(self, *, sessions_max: int = SESSIONS_MAX, events_max: int = EVENTS_MAX) -> None:
        self._views: OrderedDict[str, tuple[SessionView, int]] = (
            OrderedDict()
        )  # with the events counted of it
        self._events = 0
        self._sessions_max = sessions_max
        self._events_max = events_max

    def of(self, session_id: str) -> SessionView:
        """The session's fold as far as it was read; an empty one if there is none."""
        kept = self._views.get(session_id)
        view = SessionView() if kept is None else kept[0]
        self.keep(session_id, view)
        return view

    def keep(self, session_id: str, view: SessionView) -> None:
        """Keep the fold as the newest; the oldest go if that is too much."""
        self.forget(session_id)
        self._views[session_id] = view, view.last_seq
        self._events += view.last_seq
        while len(self._views) > 1 and (
            len(self._views) > self._sessions_max or self._events > self._events_max
        ):
            self.forget(next(iter(self._views)))

    def count(self, session_id: str) -> None:
        """More of the log was read into the fold, if it is still kept."""
        if session_id in self._views:
            self.of(session_id)

    def forget(self, session_id: str) -> None:
        """The log is gone, or what was folded of it cannot be trusted."""
        _, events = self._views.pop(session_id, (None, 0))
        self._events -= events
