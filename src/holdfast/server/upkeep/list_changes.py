"""A background task that tells every session stream about changes to the session list."""

import logging
from typing import Any

from holdfast.interfaces.ids import is_automation
from holdfast.interfaces.journal import JournalError
from holdfast.server.deps import RouteDeps
from holdfast.server.sessions.listing import listed, root_of, with_family

_log = logging.getLogger(__name__)

GATHER_S = 0.1  # changes within this time are sent together


async def publish_list_changes(deps: RouteDeps) -> None:
    """Follow changes and publish them as rows of the list, each once however often it changed."""
    async for ids in deps.store.changes():
        listeners = deps.list_changes.listeners
        open_asks: int | None = None
        for session_id in ids if listeners else ():
            if is_automation(session_id):
                continue
            try:
                # A sub-agent's requests are counted at the root session.
                shown_id = await root_of(deps.store, session_id)
                row = await _row(deps, shown_id)
                if open_asks is None:
                    open_asks = await deps.store.open_ask_count()
                deps.list_changes.add(shown_id, {**row, "open_asks": open_asks})
            except JournalError as error:
                # This row is sent with its next change; if this task ended, no row would be.
                _log.warning("clients weren't told of a change to session %s: %s", session_id, error)
        deps.streams.check_now(listeners)
        await deps.clock.sleep_s(GATHER_S)


async def _row(deps: RouteDeps, session_id: str) -> dict[str, Any]:
    found = await deps.store.listed(session_id)
    if found is None or found.row.purge_at_ms:
        return {"type": "session.gone", "session_id": session_id}
    (shown,) = await with_family(deps.store, [listed(found, deps.marks)])
    return {"type": "session.changed", "session": shown}
