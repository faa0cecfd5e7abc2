"""The foreground tools of one server, as another process finds and kills them."""

import os
import signal
from collections.abc import Mapping, Sequence

from typing_extensions import override

from holdfast.tools.shell.marker import Marker, foreground_tag, is_foreground, markers_in
from holdfast.tools.shell.process_table import (
    ProcessEntry,
    environ_of,
    look,
    table,
    tag_of,
    with_descendants,
)
from holdfast.tools.shell.scope import KillPatience, kill_scope, send

VARIABLE = "HOLDFAST_SERVER"  # what its tools have in their environment, so that they are found after it died
_LOCAL = ":local"  # behind the token: works on files that only this machine has


def mark(token: str) -> str:
    """The variable's value for tools whose session another server may continue."""
    return token


def local_mark(token: str) -> str:
    """The variable's value for tools whose session waits for this server."""
    return token + _LOCAL


class ServerTools:
    """The processes of a server's foreground tool calls, without background jobs and MCP servers.

    While the server lives, its processes are its descendants. After that, the token in their environment
    distinguishes them from those of other servers on this machine. `outer` counts the markers that the server
    was started with itself.
    """

    leader = 0

    def __init__(self, server: int, *, token: str, outer: int) -> None:
        self._server = look(server)
        self._marks = {f"{VARIABLE}={value}".encode() for value in (mark(token), local_mark(token))}
        self._local = f"{VARIABLE}={local_mark(token)}".encode()
        self._outer = outer
        self._ever: dict[int, int] = {}  # pid to birth of all that were found

    def kill(self, term_s: float, kill_s: float) -> tuple[ProcessEntry, ...]:
        """Kill all of them; returns the survivors. Blocks."""
        return kill_scope(self, patience=KillPatience(term_s, kill_s))

    def living(self) -> list[ProcessEntry]:
        """Those that are alive now."""
        rows = table()
        markers = {pid: self._markers(pid) for pid in self._own(rows)}
        spared = {pid for pid, found in markers.items() if found and not _ends_with_call(found[0])}
        spared |= self._also_spared(markers)
        roots = {
            pid
            for pid, found in markers.items()
            if (_ends_with_call(found[0]) if found else is_foreground(tag_of(pid)))
        }
        roots |= {row.pid for row in rows if self._ever.get(row.pid) == row.born_ticks}
        members = with_descendants(rows, roots) - with_descendants(rows, spared) - {os.getpid()}
        living = [row for row in rows if row.pid in members and not row.is_dead]
        self._ever.update({row.pid: row.born_ticks for row in living})
        return living

    def signal(self, members: list[ProcessEntry], number: signal.Signals) -> None:
        """Send a signal to each of them."""
        for member in members:
            send(member, number)

    def _own(self, rows: list[ProcessEntry]) -> set[int]:
        """The processes of the server."""
        server = self._server
        if server is not None and any(
            row.pid == server.pid and row.born_ticks == server.born_ticks and not row.is_dead for row in rows
        ):
            return with_descendants(rows, {server.pid}) - {server.pid}
        own = {row.pid for row in rows if not self._marks.isdisjoint(environ_of(row.pid).split(b"\0"))}
        found = [markers[0] for pid in own if (markers := self._markers(pid))]
        tags = {foreground_tag(one.run_id, one.tool_call_id) for one in found if _ends_with_call(one)}
        # A process that cleared its environment has the tag of its call.
        return own | {row.pid for row in rows if tags and not environ_of(row.pid) and tag_of(row.pid) in tags}

    def _also_spared(self, _markers: Mapping[int, Sequence[Marker]], /) -> set[int]:
        """Return the processes of calls that can continue: none, because no one gets their results."""
        return set()

    def _markers(self, pid: int) -> list[Marker]:
        return list(markers_in(environ_of(pid)))[self._outer :]


class SharedTools(ServerTools):
    """The processes whose session another server can continue. Those on local files keep running."""

    @override
    def _also_spared(self, markers: Mapping[int, Sequence[Marker]], /) -> set[int]:
        local = {pid for pid in markers if self._local in environ_of(pid).split(b"\0")}
        calls = [found[0] for pid in local if (found := markers[pid])]
        tags = {foreground_tag(one.run_id, one.tool_call_id) for one in calls}
        # A process that cleared its environment has the tag of its call.
        return local | {pid for pid, found in markers.items() if tags and not found and tag_of(pid) in tags}


def _ends_with_call(marker: Marker) -> bool:
    """Whether a process belongs to a call, as neither a background job nor an MCP server does."""
    return not marker.background and bool(marker.tool_call_id)
