"""Locates a request: at its run or, for a sub-agent, at the root run of its tree."""

from msgspec import Struct

from holdfast.folds.rows import AskRow, RunRow
from holdfast.server.deps import RouteDeps
from holdfast.server.runs.runs import known_run
from holdfast.server.sessions.roots import DEPTH_MAX, parent_link


class AskPlace(Struct, frozen=True):
    """A run, and the event in its log that tells of the ask."""

    row: RunRow
    seq: int


async def top_place(deps: RouteDeps, ask: AskRow) -> AskPlace:
    """Return the topmost run with a copy of the request; raises a Problem if its run is gone."""
    place = AskPlace(await known_run(deps, ask.run_id), ask.seq)
    for _ in range(DEPTH_MAX):
        link = await parent_link(deps.store, place.row.session_id)
        row = await deps.store.run(link.run_id) if link is not None else None
        if row is None:
            break
        told = (await deps.folds.run(row)).state.person_asks.get(ask.ask_id)
        if told is None:
            break
        place = AskPlace(row, told.seq)
    return place
