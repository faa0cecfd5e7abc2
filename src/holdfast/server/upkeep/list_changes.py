"""Changes of the session list, told to every stream of a session; a task of the application."""

import logging
from typing import Any

from holdfast.interfaces.journal import JournalError
from holdfast.server.deps import RouteDeps
from holdfast.server.sessions.responses import listed

_log = logging.getLogger(__name__)

GATHER_S = 0.1  # what changes within this time is told together


async def publish_list_changes(deps: RouteDeps) -> None:
    """Follow what changes, and tell it as rows of the list, each once however often it changed."""
    async for ids in deps.store.changes():
        listeners = deps.list_changes.listeners
        for session_id in ids if listeners else ():
            try:
                deps.list_changes.add(await _row(deps, session_id))
            except JournalError as error:
                # One row is told with its next change; without this task nobody would hear of any.
                _log.warning("a change of session %s was not told: %s", session_id, error)
        deps.streams.poke(listeners)
        await deps.clock.sleep_s(GATHER_S)


async def _row(deps: RouteDeps, session_id: str) -> dict[str, Any]:
    found = await deps.store.listed(session_id)
    if found is None or found.row.purge_at_ms:
        return {"type": "session.gone", "session_id": session_id}
    return {"type": "session.changed", "session": listed(found, deps.marks)}
