"""Leftover processes of a crashed server's foreground calls."""

from collections.abc import Iterable

from holdfast.tools.offload import offload
from holdfast.tools.shell.marker import foreground_tag
from holdfast.tools.shell.process_table import ProcessEntry
from holdfast.tools.shell.scope import KillPatience, Scope, kill_scope


async def kill_leftovers(
    run_id: str, *, tool_call_ids: Iterable[str] = (), patience: KillPatience | None = None
) -> tuple[ProcessEntry, ...]:
    """Kill what a crashed server left of a run's foreground calls; returns the survivors.

    For the named calls, this includes processes that have cleared their environment.
    """
    scope = Scope(
        belongs=lambda marker: marker.run_id == run_id and not marker.background,
        tags=frozenset(foreground_tag(run_id, tool_call_id) for tool_call_id in tool_call_ids),
    )
    return await offload(lambda: kill_scope(scope, patience=patience), linger_s=10.0)
