"""A scope is all processes of one execution; killing it ends when none is left.

On Linux a process belongs to a scope by its group, its session, the marker in its environment, its standard
output, the tag in its resource limits, or an ancestor in the scope. Elsewhere there is no /proc, and a scope
is the process group alone: a child with its own session escapes there.

Neither finds what another program starts on request: systemd, a container engine, cron.

Leftover processes of a crashed server's foreground calls.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from msgspec import Struct, field

from holdfast.tools.offload import offload
from holdfast.tools.shell.marker import Marker, foreground_tag, markers_in
from holdfast.tools.shell.process_table import (
    ON_LINUX,
    ProcessEntry,
    environ_of,
    look,
    table,
    tag_of,
    with_descendants,
    writes_to,
)

_LOOK_AGAIN_S = 0.05


class KillPatience(Struct, frozen=True):
    """How long a scope may take to die: after TERM, and then after KILL."""

    term_s: float = 2.0
    kill_s: float = 5.0


class Processes(Protocol):
    """The processes to kill. `leader` is the leader of their group, if any."""

    leader: int

    def living(self) -> list[ProcessEntry]:
        """The processes that are alive now."""
        ...

    def signal(self, members: list[ProcessEntry], number: signal.Signals) -> None:
        """Send a signal to the group and to each member outside it."""
        ...


class Scope(Struct, kw_only=True):
    """The identity of a scope. `leader` is a child that hasn't been reaped, so its pid is still ours."""

    belongs: Callable[[Marker], bool]
    leader: int = 0
    # Whether the leader only waits for the command, and takes it down when it ends: as a sandbox does.
    leader_waits: bool = False
    pipe_inode: int = 0
    tags: frozenset[int] = frozenset()
    ever: dict[int, int] = field(default_factory=dict[int, int])  # pid to birth of all members seen so far

    def living(self) -> list[ProcessEntry]:
        """The members that are alive now."""
        if not ON_LINUX:
            return self._group_alone()
        rows = table()
        own = os.getpid()
        picked = with_descendants(rows, {row.pid for row in rows if row.pid != own and self._has(row)})
        members = [row for row in rows if row.pid in picked and row.pid != own and not row.is_dead]
        # Members stay members, even if their parent is gone and their mark is overwritten.
        self.ever.update({row.pid: row.born_ticks for row in members})
        return members

    def signal(self, members: list[ProcessEntry], number: signal.Signals) -> None:
        """Send a signal to the group and to each member outside it."""
        if self.leader_waits and number == signal.SIGTERM:
            # The command gets the time that it has after TERM; its leader ends after it.
            for member in members:
                if member.pid != self.leader:
                    send(member, number)
            return
        if self.leader:
            _ignoring_the_gone(lambda: os.killpg(self.leader, number))
        for member in members:
            if not self.leader or member.group != self.leader:
                send(member, number)

    def _has(self, row: ProcessEntry) -> bool:
        if self.ever.get(row.pid) == row.born_ticks:
            return True
        if self.leader and self.leader in {row.pid, row.group, row.session}:
            return True
        if row.is_dead:
            return False  # its environment is gone, so that it would look like one that threw it away
        markers = list(markers_in(environ_of(row.pid)))
        if any(self.belongs(marker) for marker in markers):
            return True
        if self.pipe_inode and writes_to(row.pid, self.pipe_inode):
            return True
        if not self.tags or tag_of(row.pid) not in self.tags:
            return False
        # Two executions may have one number: who still carries the mark of the other is the other's.
        return all(marker.tag not in self.tags for marker in markers)

    def _group_alone(self) -> list[ProcessEntry]:
        if not self.leader:
            return []  # and never group 0, which is our own
        try:
            os.killpg(self.leader, 0)
        except (ProcessLookupError, PermissionError):
            return []  # macOS answers EPERM for a group of which only a zombie is left
        pid = self.leader
        return [
            ProcessEntry(
                pid=pid, born_ticks=0, parent=0, group=pid, session=pid, state="R", name="process group"
            )
        ]


class MarkedProcess(Struct, frozen=True):
    """A living process with a marker."""

    process: ProcessEntry
    marker: Marker


def find_marked(
    belongs: Callable[[Marker], bool], *, tagged: Mapping[int, Marker] | None = None
) -> list[MarkedProcess]:
    """All living processes with such a marker, or with no marker and one of the tags; blocks."""
    found: list[MarkedProcess] = []
    for row in table():
        markers = list(markers_in(environ_of(row.pid)))
        marker = next(filter(belongs, markers), None)
        if tagged and not markers:
            marker = tagged.get(tag_of(row.pid))
        if marker is not None and not row.is_dead and row.pid != os.getpid():
            found.append(MarkedProcess(row, marker))
    return found


def kill_scope(
    scope: Processes, *, patience: KillPatience | None = None, meanwhile: Callable[[], None] | None = None
) -> tuple[ProcessEntry, ...]:
    """TERM, then KILL, until the scope is empty; returns the survivors. Blocks: call it off the loop.

    `meanwhile` is called repeatedly: a process that flushes a full pipe on TERM must be read before it exits.
    """
    patience = patience or KillPatience()
    if scope.leader:
        scope.signal([], signal.SIGTERM)  # at once: looking at the process table takes milliseconds
    if not _killed(scope, signal.SIGTERM, within_s=patience.term_s, meanwhile=meanwhile):
        return ()
    survivors = _killed(scope, signal.SIGKILL, within_s=patience.kill_s, meanwhile=meanwhile)
    return tuple(survivors)


def _killed(
    scope: Processes, number: signal.Signals, *, within_s: float, meanwhile: Callable[[], None] | None
) -> list[ProcessEntry]:
    deadline_s = time.monotonic() + within_s
    told: set[tuple[int, int]] = set()
    empty_looks = 0
    while True:
        living = scope.living()
        # One look is no proof: a process that forks and exits while the table is read may hide its child.
        empty_looks = 0 if living else empty_looks + 1
        if empty_looks > 1:
            return []
        new = [one for one in living if (one.pid, one.born_ticks) not in told]
        if new:
            scope.signal(new, number)
            scope.signal(new, signal.SIGCONT)  # a stopped process handles TERM only once it continues
            told.update((one.pid, one.born_ticks) for one in new)
        if meanwhile:
            meanwhile()
        left_s = deadline_s - time.monotonic()
        if left_s <= 0 and living:
            return living
        if living:
            _wait_for_a_death(living, within_s=min(left_s, _LOOK_AGAIN_S))


def send(member: ProcessEntry, number: signal.Signals) -> None:
    """Send a signal to a process, and never to another that has reused its pid."""
    if not hasattr(os, "pidfd_open"):
        _ignoring_the_gone(lambda: os.kill(member.pid, number))
        return
    try:
        descriptor = os.pidfd_open(member.pid)
    except OSError:
        return  # gone
    try:
        now = look(member.pid)
        # The descriptor names one process for good; its birth says that it is the one we saw.
        if now is not None and now.born_ticks == member.born_ticks:
            _ignoring_the_gone(lambda: signal.pidfd_send_signal(descriptor, number))
    finally:
        os.close(descriptor)


def _ignoring_the_gone(send: Callable[[], None]) -> None:
    try:
        send()
    except (ProcessLookupError, PermissionError):
        return  # already dead, or another user's by now; the next scan shows survivors


def _wait_for_a_death(living: list[ProcessEntry], *, within_s: float) -> None:
    poll = select.poll()
    descriptors: list[int] = []
    for member in living[:100]:
        try:
            descriptors.append(os.pidfd_open(member.pid))
        except (OSError, AttributeError):
            break
    try:
        if len(descriptors) == 0:
            threading.Event().wait(min(within_s, 0.01))
            return
        for descriptor in descriptors:
            poll.register(descriptor, select.POLLIN)
        poll.poll(within_s * 1000)
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


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
