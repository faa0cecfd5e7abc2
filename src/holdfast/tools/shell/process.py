"""Runs one command in the foreground: its output is streamed, and nothing of it outlives the call.

When the call ends (by its own exit, the time limit or a cancellation), its whole scope ends too.
"""

import asyncio
import os
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import IO, TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.sandbox.launch import Launch, Lifetime, StartReport
from holdfast.tools.offload import join
from holdfast.tools.shell.marker import Marker, marked, put_tag, tagged
from holdfast.tools.shell.output import LiveText
from holdfast.tools.shell.process_table import ProcessEntry
from holdfast.tools.shell.pump import Pump, Sink, Wake, Why
from holdfast.tools.shell.reaper import reap_adopted
from holdfast.tools.shell.scope import KillPatience, Scope, kill_scope

if TYPE_CHECKING:
    from holdfast.sandbox.confinement import Confinement

DRAIN_S = 0.3
LIVE_BYTES_MAX = 1024 * 1024
_SIGNALS = 128
_LIVE_IS_OVER = "\n[live output ends here; the command is still running]\n"


class Command(Struct, frozen=True, kw_only=True):
    """A command to start, with its folder, environment and input."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    pass_fds: tuple[int, ...] = ()
    confinement: "Confinement | None" = None  # None: without a sandbox
    errors_fd: int = subprocess.STDOUT  # where its error output goes

    @property
    def is_owned(self) -> bool:
        """Whether the process that is started only waits for the command, and takes all of it down."""
        return self.confinement is not None and self.confinement.sandbox.owns_processes

    def code(self, code: int) -> int:
        """The exit code; a sandbox passes a signal on as a number above 128, as shells do."""
        return _SIGNALS - code if self.is_owned and code > _SIGNALS else code

    def marked(self, marker: Marker) -> "Command":
        """The same command, which can be found by the marker, as can everything it starts."""
        # Nothing gets out of a process namespace, so there a tag would tell nothing more.
        argv = self.argv if self.is_owned else tagged(self.argv, marker)
        return replace(self, argv=argv, environment=marked(self.environment, marker))


class ProcessEnd(Struct, frozen=True, kw_only=True):
    """How a command ended; `code` is negative for a signal and None if it never started."""

    why: Literal["exited", "deadline", "woken", "enough", "not_started", "sandbox_failed"]
    code: int | None = None
    error: str = ""
    leftovers: tuple[ProcessEntry, ...] = ()  # killed after the command had exited on its own
    survivors: tuple[ProcessEntry, ...] = ()  # alive after KILL


async def run_command(
    command: Command,
    sink: Sink,
    *,
    marker: Marker,
    patience_s: float,
    hear: Callable[[str], Awaitable[None]] | None = None,
    kill_patience: KillPatience | None = None,
) -> ProcessEnd:
    """Run it to its end; `hear` gets clean text as it comes, up to LIVE_BYTES_MAX.

    When cancelled, it raises once the scope is empty; if a process survived KILL, a note on the exception
    names it, and `find_marked` finds it.
    """
    kill_patience = kill_patience or KillPatience()
    child = _Child(command, sink, marker=marker, patience_s=patience_s, kill_patience=kill_patience)
    child.start()
    try:
        while text := await child.heard():
            if hear is not None:
                await hear(text)
    except BaseException as error:
        child.wake.call()
        await join(child.ended, within_s=kill_patience.term_s + kill_patience.kill_s + 5.0)
        if child.ended.done() and child.ended.exception() is None and child.ended.result().survivors:
            error.add_note(f"alive after KILL: {', '.join(map(str, child.ended.result().survivors))}")
        raise
    return child.ended.result()


class _Child:
    """A command and the thread that owns it; all methods run on the loop except those of the thread."""

    def __init__(
        self, command: Command, sink: Sink, *, marker: Marker, patience_s: float, kill_patience: KillPatience
    ) -> None:
        self._command = command.marked(marker)
        self._sink = sink
        self._marker = marker
        self._patience_s = patience_s
        self._kill_patience = kill_patience
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[ProcessEnd] = self._loop.create_future()
        self.wake = Wake()
        self._news = asyncio.Event()
        self._told = False
        self._texts: deque[str] = deque()  # bounded by LIVE_BYTES_MAX
        self._live = LiveText()
        self._survivor: subprocess.Popen[bytes] | None = None
        self._live_bytes = 0

    def start(self) -> None:
        threading.Thread(target=self._live_and_die, name="holdfast-process", daemon=True).start()

    async def heard(self) -> str:
        """The next text; empty when the command has ended and there is no more."""
        while True:
            self._news.clear()
            self._told = False
            if self._texts:
                return "".join(self._texts.popleft() for _ in range(len(self._texts)))
            if self.ended.done():
                return ""
            await self._news.wait()

    # From here on: the thread.

    def take(self, data: bytes) -> bool:
        # Counted as it came: a gigabyte of zeros is no text, and cleaning it is work all the same.
        if self._live_bytes < LIVE_BYTES_MAX:
            self._live_bytes += len(data)
            self._say(self._live.feed(data))
            if self._live_bytes >= LIVE_BYTES_MAX:
                self._say(_LIVE_IS_OVER)
        return self._sink.take(data)

    def _say(self, text: str) -> None:
        if not text:
            return
        self._texts.append(text)
        if not self._told:
            self._told = True
            self._on_loop(self._news.set)

    def _live_and_die(self) -> None:
        try:
            ended = self._lived()
        except BaseException as error:  # noqa: BLE001 - it is raised where the command is awaited
            caught = error
            self._on_loop(lambda: self._over(lambda: self.ended.set_exception(caught)))
        else:
            self._on_loop(lambda: self._over(lambda: self.ended.set_result(ended)))
        if self._survivor is not None:
            self._survivor.wait()  # should it die after all, somebody must collect it

    def _over(self, settle_it: Callable[[], None]) -> None:
        settle_it()
        self.wake.close()
        self._news.set()

    def _on_loop(self, call: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            self.wake.call()  # the loop is closed, so no one awaits this command's end

    def _lived(self) -> ProcessEnd:
        with StartReport() as report:
            ended = self._watched(report)
            if ended.why == "exited" and report.is_failure():
                return replace(ended, why="sandbox_failed")
            return ended

    def _watched(self, report: StartReport) -> ProcessEnd:
        try:
            process = started(self._command, report=report)
        except (OSError, ValueError) as error:
            return ProcessEnd(why="not_started", error=str(error))
        put_tag(process.pid, self._marker)
        assert process.stdout is not None, "it was asked for"
        output_fd = process.stdout.fileno()
        nonce = self._marker.nonce
        scope = Scope(
            belongs=lambda marker: marker.nonce == nonce,
            leader=process.pid,
            pipe_inode=os.fstat(output_fd).st_ino,
            tags=frozenset({self._marker.tag}),
            leader_waits=self._command.is_owned,
        )
        pump: Pump | None = None
        try:
            pump = Pump(output_fd, process.pid, wake=self.wake, sink=self)
            why = pump.until_exit(time.monotonic() + self._patience_s)
            if why == "exited":
                pump.drain(DRAIN_S)
            ended = self._buried(process, pump, why=why, scope=scope)
            if self._live_bytes < LIVE_BYTES_MAX:
                self._say(self._live.end())
        except BaseException:
            # A defect of ours must not leave a process behind either.
            kill_scope(scope)
            process.wait()
            raise
        else:
            return ended
        finally:
            if pump is not None:
                pump.close()
            process.stdout.close()

    def _buried(
        self, process: "subprocess.Popen[bytes]", pump: Pump, *, why: Why, scope: Scope
    ) -> ProcessEnd:
        left: list[ProcessEntry] = []
        if why == "exited":
            # Twice, because a child that is just making itself a daemon can slip through one look.
            left = scope.living() or scope.living()
        survivors: tuple[ProcessEntry, ...] = ()
        if left or why != "exited":
            survivors = kill_scope(scope, patience=self._kill_patience, meanwhile=pump.sip)
            pump.sip()
        reap_adopted(scope)
        # The leader is reaped last: until then, no other process gets its pid or group.
        if survivors:
            self._survivor = process
        code = None if survivors else self._command.code(process.wait())
        # In a sandbox that takes all of it down, what is still seen is just dying.
        leftovers = () if self._command.is_owned else tuple(left)
        return ProcessEnd(why=why, code=code, leftovers=leftovers, survivors=survivors)


def started(
    command: Command,
    *,
    stdin: int = subprocess.DEVNULL,
    stdout: int = subprocess.PIPE,
    lifetime: Lifetime = "with_server",
    report: StartReport | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a command as the leader of its own session; blocks, so call it off the loop.

    The thread that calls it must live as long as a command that is to end with the server.
    """
    with ExitStack() as stack:
        launch = Launch(argv=command.argv, environment=command.environment)
        if command.confinement is not None:
            launch = stack.enter_context(
                command.confinement.launch(command.argv, command.environment, lifetime=lifetime)
            )
        if report is not None:
            report.take(launch)
        fed: int | IO[bytes] = stdin
        if command.stdin:
            # A file, not a pipe: it needs no writer, and its end is certain.
            fed = stack.enter_context(tempfile.TemporaryFile())
            fed.write(command.stdin)
            fed.seek(0)
        return launch.start(
            partial(
                subprocess.Popen,
                launch.argv,
                cwd=launch.cwd or command.cwd or None,
                env=launch.environment,
                stdin=fed,
                stdout=stdout,
                stderr=command.errors_fd,
                bufsize=0,
                start_new_session=True,
                pass_fds=(*command.pass_fds, *launch.pass_fds),
            )
        )
