"""One background process: its files, and the thread that watches it."""

import asyncio
import os
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec
from typing_extensions import override

from holdfast.racing import race
from holdfast.tools.shell.marker import tag_in
from holdfast.tools.shell.process import DRAIN_S, Command, started
from holdfast.tools.shell.process_table import ProcessEntry
from holdfast.tools.shell.pump import Pump, Sink, Wake
from holdfast.tools.shell.reaper import reap_adopted
from holdfast.tools.shell.scope import KillPatience, Scope, kill_scope

RING_BYTES = 1024 * 1024
_HEADER = struct.Struct("<Q")


class Ring:
    """A ring buffer in a file; its first eight bytes count all bytes ever written.

    One thread writes; anyone reads. A reader that is overtaken gets a gap in the text, never an error.
    """

    def __init__(self, path: Path, *, size_bytes: int = RING_BYTES) -> None:
        self._path = path
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._size = size_bytes
        header = os.pread(self._fd, _HEADER.size, 0)
        self.total_bytes = _HEADER.unpack(header)[0] if len(header) == _HEADER.size else 0

    def take(self, data: bytes) -> bool:
        """Overwrite the oldest bytes; it always takes more."""
        written = self.total_bytes + len(data)
        data = data[-self._size :]
        place = (written - len(data)) % self._size
        first = data[: self._size - place]
        os.pwrite(self._fd, first, _HEADER.size + place)
        if len(first) < len(data):
            os.pwrite(self._fd, data[len(first) :], _HEADER.size)
        os.pwrite(self._fd, _HEADER.pack(written), 0)
        self.total_bytes = written
        return False

    def read(self, since: int) -> tuple[bytes, int]:
        """Return the stored output after this many bytes, and its start position."""
        end = self.total_bytes
        start = min(max(since, end - self._size, 0), end)
        place = start % self._size
        # Opened anew: the writer's descriptor may be closed, and its number used again, at any time.
        with self._path.open("rb", buffering=0) as file:
            data = os.pread(file.fileno(), min(end - start, self._size - place), _HEADER.size + place)
            data += os.pread(file.fileno(), end - start - len(data), _HEADER.size)
        return data, start

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


if TYPE_CHECKING:
    from subprocess import Popen

_LOOK_AGAIN_S = 1.0


class JobState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The record of a job, stored before it starts, so that it's found even if the server dies."""

    job_id: str
    session_id: str
    marker: str
    title: str
    started_at_ms: int
    pid: int = 0
    ended: bool = False
    code: int | None = None  # None is not known: it ended while no server was its parent
    survivors: str = ""
    key: str = ""  # the name of the API key that it counts for
    network: str = ""  # of its sandbox: a command may only share one that leads nowhere


class BackgroundJob(Sink):
    """A background process; its methods run on the loop, except those of its thread."""

    def __init__(self, state: JobState, folder: Path, *, kill_patience: KillPatience) -> None:
        self.state = state
        self._folder = folder
        self._kill_patience = kill_patience
        self._loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = self._loop.create_future()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._wake = Wake()
        self._leaving = False
        self._waiters: set[asyncio.Future[None]] = set()
        self._ring: Ring | None = None
        self.output_lost = ""
        self.sentences: tuple[str, ...] = ()  # what the sandbox kept it from, once it has ended
        self.advice: tuple[str, ...] = ()  # how the model can request access
        self._left: Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Whether any of its processes is alive."""
        return not self.state.ended

    @property
    def output_bytes(self) -> int:
        """How much it has ever written."""
        return self._ring.total_bytes if self._ring else 0

    def start(self, command: Command) -> None:
        """Start it; `started` and `ended` hold the outcome."""
        self._in_thread(lambda: self._started_and_watched(command))

    def adopt(self, processes: list[ProcessEntry]) -> None:
        """Watch processes that an earlier server started."""
        self._in_thread(lambda: self._adopted_and_watched(processes))

    def end_it(self) -> None:
        """Kill it and everything it started."""
        self._wake.call()

    def leave(self) -> None:
        """Stop watching it and leave it running."""
        self._leaving = True
        self._wake.call()

    def read(self, since: int) -> tuple[bytes, int]:
        """Its output after that many bytes, and where that begins; blocks."""
        try:
            return self._ring.read(since) if self._ring else (b"", 0)
        except FileNotFoundError:
            return b"", 0  # the job was forgotten meanwhile

    async def news(self, *, within_s: float) -> None:
        """Wait for output or the end, up to `within_s`."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await race(waiter, watched=[self.ended], within_s=within_s)
        finally:
            self._waiters.discard(waiter)

    # From here on: the thread.

    @override
    def take(self, data: bytes) -> bool:
        assert self._ring is not None, "it is open while the thread lives"
        try:
            self._ring.take(data)
        except OSError as error:
            # A full disk mustn't end the job: the loss of its output is reported.
            self.output_lost = error.strerror or "the disk failed"
        if self._waiters:
            self._on_loop(self._tell)
        return False

    def _tell(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _in_thread(self, work: Callable[[], None]) -> None:
        def body() -> None:
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it is raised where the start is awaited
                caught = error
                self._on_loop(lambda: self._over(caught))
            else:
                self._on_loop(lambda: self._over(None))
            finally:
                if self._ring is not None:
                    self._ring.close()
            if self._left is not None:
                self._left.wait()  # it is still our child, and somebody must collect it when it dies

        threading.Thread(target=body, name=f"holdfast-{self.state.job_id}", daemon=True).start()

    def _over(self, error: BaseException | None) -> None:
        self._wake.close()
        if not self.started.done() and error is not None:
            self.started.set_exception(error)
        if not self._leaving and self.running:
            self.state = msgspec.structs.replace(self.state, ended=True)
        self.ended.set_result(None)

    def _on_loop(self, call: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            self._leaving = True  # the loop is closed: the next server adopts the job
            self._wake.call()

    def _started_and_watched(self, command: Command) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._write_state(self.state)
        self._ring = Ring(self._path("ring"))
        os.mkfifo(self._path("fifo"), 0o600)
        with _Descriptors() as opened:
            output_fd = opened.open(self._path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
            with _Descriptors() as ours:
                both_ends_fd = ours.open(self._path("fifo"), os.O_RDWR)
                process = started(command, stdout=both_ends_fd, lifetime="outlives_server")
            # Without its pid the state is still enough to find the job by its mark.
            with suppress(OSError):
                self._write_state(msgspec.structs.replace(self.state, pid=process.pid))
            self._on_loop(lambda: self._running_as(process.pid))
            self._watch(output_fd, process.pid, process=process, scope=self._scope(leader=process.pid))

    def _running_as(self, pid: int) -> None:
        self.state = msgspec.structs.replace(self.state, pid=pid)
        if not self.started.done():
            self.started.set_result(None)

    def _adopted_and_watched(self, processes: list[ProcessEntry]) -> None:
        self._ring = Ring(self._path("ring"))
        self._on_loop(lambda: self._running_as(self.state.pid))
        if self.state.ended or not processes:
            self._finish(code=self.state.code, survivors=())
            return
        scope = self._scope(leader=0)
        scope.ever.update({one.pid: one.born_ticks for one in processes})
        with _Descriptors() as opened:
            try:
                output_fd = opened.open(self._path("fifo"), os.O_RDONLY | os.O_NONBLOCK)
            except OSError as error:
                # It can still be listed and ended, if not read.
                self.output_lost = error.strerror or "the FIFO is gone"
                output_fd = opened.open(Path(os.devnull), os.O_RDONLY)
            leader = next((one for one in processes if one.pid == self.state.pid), processes[0])
            self._watch(output_fd, leader.pid, process=None, scope=scope)

    def _watch(self, output_fd: int, pid: int, *, process: "Popen[bytes] | None", scope: Scope) -> None:
        pump = Pump(output_fd, pid, wake=self._wake, sink=self)
        code: int | None = None
        try:
            why = pump.until_exit(None)
            if why == "exited":
                pump.drain(DRAIN_S)
                scope.living()  # record the members of its group now, because the group's id becomes invalid
                code, scope.leader = process.wait() if process else None, 0
            # A job lives as long as anything of it: what made itself a daemon is still the job.
            while why != "woken" and scope.living():
                why = pump.until_exit(time.monotonic() + _LOOK_AGAIN_S)
            if why == "woken" and self._leaving:
                self._left = process
                return
            survivors = kill_scope(scope, patience=self._kill_patience, meanwhile=pump.sip)
            pump.sip()
            reap_adopted(scope)
            if process and code is None:
                self._left = process if survivors else None
                code = None if survivors else process.wait()
            self._finish(code=code, survivors=survivors)
        except BaseException:
            # A bug of ours mustn't leave an unwatched process.
            kill_scope(scope, patience=self._kill_patience)
            raise
        finally:
            pump.close()

    def _finish(self, *, code: int | None, survivors: tuple[ProcessEntry, ...]) -> None:
        names = ", ".join(map(str, survivors))
        state = msgspec.structs.replace(self.state, ended=True, code=code, survivors=names)
        with suppress(OSError):
            self._write_state(state)  # if this fails, the next server sees for itself that it has ended
        self._on_loop(lambda: self._become(state))

    def _become(self, state: JobState) -> None:
        self.state = state

    def _scope(self, *, leader: int) -> Scope:
        marker = self.state.marker
        return Scope(belongs=lambda one: str(one) == marker, leader=leader, tags=frozenset({tag_in(marker)}))

    def _path(self, ending: str) -> Path:
        return self._folder / f"{self.state.job_id}.{ending}"

    def _write_state(self, state: JobState) -> None:
        unfinished = self._path("state.new")
        unfinished.write_bytes(msgspec.json.encode(state))
        unfinished.replace(self._path("state"))


class _Descriptors:
    """Descriptors that are closed together."""

    def __init__(self) -> None:
        self._open: list[int] = []

    def open(self, path: Path, flags: int) -> int:
        self._open.append(os.open(path, flags | os.O_CLOEXEC))
        return self._open[-1]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open:
            os.close(descriptor)


def stored_states(folder: Path) -> Iterator[JobState]:
    """The stored states of earlier servers; unreadable files are skipped."""
    for path in folder.glob("job-*.state"):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=JobState)
        except (OSError, msgspec.DecodeError):
            continue


def forget_files(folder: Path, job_id: str) -> None:
    """Remove a job's files."""
    for ending in ("state", "state.new", "fifo", "ring"):
        (folder / f"{job_id}.{ending}").unlink(missing_ok=True)
