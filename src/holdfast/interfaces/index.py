"""Look-ups beside the logs: sessions, runs, open approvals and search."""

from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from holdfast.catalog import LOG_SOURCES
from holdfast.folds.rows import AskRow, RunRow, RunStatus, SessionRow
from holdfast.interfaces.usage import UsageSource
from holdfast.values import CHILD, OPENAI, RELAY, OutcomeKind


class SessionQuery(Struct, frozen=True):
    """Which sessions to list: pinned ones first, then newest first; `before` continues after a page."""

    limit: int = 50
    before: "SessionCursor | None" = None
    archived: bool = False
    sources_hidden: tuple[str, ...] = (OPENAI, RELAY, CHILD, *LOG_SOURCES)


class SessionCursor(Struct, frozen=True):
    """The position of the last session on a page."""

    pinned: bool
    updated_ms: int
    session_id: str


class ListedSession(Struct, frozen=True):
    """A session with counts of its open runs and asks."""

    row: SessionRow
    open_runs: int
    open_asks: int
    begun_runs: int = 0  # open runs that are no longer queued


class SearchHit(Struct, frozen=True):
    """A session found by its text, with a passage that has each match between the bytes 2 and 3.

    `seq` 0 is the title.
    """

    session_id: str
    title: str
    seq: int
    passage: str


class RunQuery(Struct, frozen=True):
    """Which runs to list, newest first; `before` is (created_ms, run_id) of the last run on a page."""

    limit: int = 50
    before: tuple[int, str] | None = None
    session_id: str = ""
    status: RunStatus | None = None
    outcomes: tuple[OutcomeKind, ...] = ()  # any of these; empty means all
    asking: Literal["person", "client", "nobody"] | None = None  # whom the run waits for


class StoredResponse(Struct, frozen=True):
    """What an idempotency key was used for, and the stored answer."""

    digest: str
    answer: bytes


class SessionSize(Struct, frozen=True):
    """How much a session stores."""

    session_id: str
    updated_ms: int
    bytes: int


class Index(UsageSource, Protocol):
    """Look-ups beside the logs, always as current as the newest committed event."""

    async def session(self, session_id: str) -> SessionRow | None:
        """One session's row, also if it is deleted but not yet purged."""
        ...

    async def sessions(self, query: SessionQuery) -> Sequence[ListedSession]:
        """A page of the session list, without deleted sessions."""
        ...

    async def listed(self, session_id: str) -> ListedSession | None:
        """One session as the list would show it, also if it is deleted but not yet purged."""
        ...

    async def logs(self, source: str) -> Sequence[SessionRow]:
        """All logs of this source that aren't deleted, oldest first."""
        ...

    async def undelivered_steers(self) -> Sequence[str]:
        """Ids of sessions (not deleted) with a message for a running agent that no run has received yet."""
        ...

    async def sessions_to_purge(self, *, source: str, before_ms: int) -> Sequence[SessionRow]:
        """Sessions that wait to be purged, and unpinned ones of `source` not changed since then."""
        ...

    async def updated_ms(self, *, source: str, nth: int) -> int:
        """When the nth unpinned session of `source` changed, newest first; -1 if there are fewer."""
        ...

    async def session_sizes(
        self, source: str, *, before: SessionSize | None = None, limit: int = 100
    ) -> Sequence[SessionSize]:
        """Unpinned sessions of `source`, newest change first, with the bytes of their events and blobs.

        A blob that several sessions name counts in each of them.
        """
        ...

    async def unthinned(self, *, before_ms: int, limit: int = 100) -> Sequence[str]:
        """Ids of sessions (not deleted) that can still be thinned for runs that ended before then."""
        ...

    async def stored_response(self, key: str, *, now_ms: int) -> StoredResponse | None:
        """The stored answer of an idempotency key that hasn't expired."""
        ...

    async def run(self, run_id: str) -> RunRow | None:
        """A run's row."""
        ...

    async def runs(self, query: RunQuery) -> Sequence[RunRow]:
        """A page of runs."""
        ...

    async def ask(self, ask_id: str) -> AskRow | None:
        """One approval or question."""
        ...

    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        """Open approvals and questions: of a session, of a source, or of all.

        The oldest come first; those of one millisecond are ordered by session, then as in its log.
        """
        ...

    async def session_ids(self, prefix: str, *, limit: int = 200) -> Sequence[str]:
        """The ids of sessions that begin with this and aren't deleted, in their order."""
        ...

    async def open_ask_count(self) -> int:
        """The number of open approvals and questions of all sessions."""
        ...

    async def search(
        self, text: str, *, limit: int = 50, archived: bool | None = None, session_id: str = ""
    ) -> Sequence[SearchHit]:
        """Sessions with a passage that has every word, the last as a prefix; newest first, one hit each.

        Case and diacritics on Latin letters are ignored. Nothing in `text` is an operator. `archived` selects
        archived or other sessions; None selects all. With `session_id`, only that session is searched,
        archived or not: each matching passage is a hit, but its title is not.
        """
        ...
