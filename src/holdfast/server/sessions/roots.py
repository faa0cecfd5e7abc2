"""Where a sub-agent's session belongs: its parent, and the session on top, whose people hear what it asks."""

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from msgspec.structs import replace

from holdfast import events as e
from holdfast.api.sessions import SessionShown
from holdfast.folds.rows import AskRow, SessionRow
from holdfast.interfaces.journal import Record
from holdfast.values import CHILD, ParentLink

DEPTH_MAX = 16
ASKS_MAX = 1_000  # of sub-agents, at once


class SessionLogs(Protocol):
    """The required part of a store, read-only or not."""

    async def session(self, session_id: str) -> SessionRow | None:
        """One session's row."""
        ...

    async def read(self, session_id: str, *, after: int = 0, limit: int = 1000) -> Sequence[Record]:
        """Some events of a log."""
        ...

    async def open_asks(
        self, *, limit: int = 200, session_id: str = "", source: str = ""
    ) -> Sequence[AskRow]:
        """Open approvals and questions."""
        ...


async def parent_link(logs: SessionLogs, session_id: str) -> ParentLink | None:
    """Whose sub-agent the session is; None if it is none."""
    records = await logs.read(session_id, limit=1)
    created = records[0].event if records else None
    return created.parent if isinstance(created, e.SessionCreated) else None


async def parent_of(logs: SessionLogs, session_id: str) -> str:
    """The session whose sub-agent this one is; empty if it is none."""
    parent = await parent_link(logs, session_id)
    return parent.session_id if parent is not None else ""


async def root_of(logs: SessionLogs, session_id: str) -> str:
    """The session itself or, if it is a sub-agent's, the one at the top of its tree."""
    for _ in range(DEPTH_MAX):
        row = await logs.session(session_id)
        parent_id = await parent_of(logs, session_id) if row is not None and row.source == CHILD else ""
        if not parent_id:
            break
        session_id = parent_id
    return session_id


async def with_family(logs: SessionLogs, rows: Sequence[SessionShown]) -> tuple[SessionShown, ...]:
    """The rows of the list: sub-agents name their parent, and what they ask counts at the session on top."""
    asking = [ask.session_id for ask in await logs.open_asks(limit=ASKS_MAX, source=CHILD)]
    more: Counter[str] = Counter()
    for session_id, count in Counter(asking).items():
        root = await root_of(logs, session_id)
        more[root] += count if root != session_id else 0
    shown: list[SessionShown] = []
    for row in rows:
        parent_id = await parent_of(logs, row.id) if row.source == CHILD else ""
        is_same = not parent_id and not more[row.id]
        changes = {"parent_session_id": parent_id, "open_asks": row.open_asks + more[row.id]}
        shown.append(row if is_same else replace(row, **changes))
    return tuple(shown)
