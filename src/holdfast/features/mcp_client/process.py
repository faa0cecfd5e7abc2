"""The process of an MCP server: one thread starts it, reads its standard error and reaps it.

MCP servers in the sandbox: what each one runs in, and what the sandbox kept a server from.
"""

import asyncio
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import override

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.sandbox.confinement import Confinement
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.server_profiles import ServerProfiles
from holdfast.sandbox.system_files import is_in
from holdfast.tools.offload import join
from holdfast.tools.shell.marker import Marker, marked, put_tag
from holdfast.tools.shell.output import cleaned
from holdfast.tools.shell.process import Command, started
from holdfast.tools.shell.process_table import ProcessEntry
from holdfast.tools.shell.pump import Pump, Sink, Wake
from holdfast.tools.shell.reaper import reap_adopted
from holdfast.tools.shell.scope import KillPatience, Scope, kill_scope

ERRORS_BYTES_MAX = 8 * 1024
_DRAIN_S = 0.3
_SHOWN_CHARS = 500


class McpPatience(Struct, frozen=True, kw_only=True):
    """How long each wait for a server may take."""

    connect_s: float = 30.0  # from its start to its list of tools
    list_s: float = 30.0  # a list that is asked for again
    ping_s: float = 5.0  # an unresponsive server is pinged
    wait_s: float = 10.0  # a call waits so long for a server that is being started
    cancel_s: float = 1.0  # a cancelled call waits so long for its cancellation to be written
    exit_s: float = 1.0  # after its standard input was closed, before it is killed
    relist_gap_s: float = 1.0  # between two lists, however often the server says that they changed
    backoff_first_s: float = 0.5
    backoff_max_s: float = 60.0
    steady_s: float = 60.0  # a connection that lasted this long resets the failure count
    kill: KillPatience = KillPatience()

    def backoff_s(self, failures: int) -> float:
        """How long to wait after this many (at least one) failures in a row."""
        return min(self.backoff_first_s * 2.0 ** min(failures - 1, 30), self.backoff_max_s)


class Exited(Struct, frozen=True, kw_only=True):
    """How it ended; `code` is negative for a signal and None if it never started."""

    code: int | None = None
    error: str = ""
    killed: bool = False  # by us
    survivors: tuple[ProcessEntry, ...] = ()  # alive after KILL

    def __str__(self) -> str:
        if self.survivors:
            return f"it can't be killed: {', '.join(map(str, self.survivors))}"
        if self.code is None:
            return f"it couldn't be started: {self.error}"
        if self.code < 0:
            return f"it was killed by {_signal(-self.code)}"
        return f"it exited with code {self.code}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"  # those of real time have no names


class LastWords(Sink):
    """The last part of standard error, however long that was."""

    def __init__(self) -> None:
        self._tail = bytearray()

    @override
    def take(self, data: bytes) -> bool:
        self._tail += data[-ERRORS_BYTES_MAX:]
        del self._tail[:-ERRORS_BYTES_MAX]
        return False

    def __str__(self) -> str:
        text = cleaned(self._tail.decode("utf-8", "replace")).strip()
        return text if len(text) <= _SHOWN_CHARS else "…" + text[-_SHOWN_CHARS:]


class ServerProcess:
    """A server's process; all methods run on the loop except those of the thread."""

    def __init__(self, command: Command, *, marker: Marker, patience: McpPatience) -> None:
        self._command = replace(command, environment=marked(command.environment, marker))
        self._marker = marker
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._wake = Wake()
        self.last_words = LastWords()
        self.started: asyncio.Future[subprocess.Popen[bytes] | None] = self._loop.create_future()
        self.ended: asyncio.Future[Exited] = self._loop.create_future()

    def start(self) -> None:
        """Start it; `started` returns its pipes, or None if `ended` says why there are none."""
        threading.Thread(target=self._live_and_die, name="holdfast-mcp", daemon=True).start()

    async def end(self) -> None:
        """Wait until it and everything it started are dead; a cancellation is raised afterwards."""
        self._wake.call()
        patience = self._patience
        within_s = patience.exit_s + patience.kill.term_s + patience.kill.kill_s + 5.0
        await join(self.ended, within_s=within_s)

    # From here on: the thread.

    def _live_and_die(self) -> None:
        try:
            exited = self._lived()
        except BaseException as error:  # noqa: BLE001 - it is raised where the end is awaited
            caught = error
            self._on_loop(lambda: self._over(lambda: self.ended.set_exception(caught)))
        else:
            self._on_loop(lambda: self._over(lambda: self.ended.set_result(exited)))

    def _over(self, settle_it: Callable[[], None]) -> None:
        settle_it()
        self._wake.close()
        if not self.started.done():
            self.started.set_result(None)

    def _on_loop(self, call: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            self._wake.call()  # the loop is closed, so this server is no longer needed

    def _lived(self) -> Exited:
        try:
            command = replace(self._command, errors_fd=subprocess.PIPE)
            process = started(command, stdin=subprocess.PIPE, lifetime="connected")
        except (OSError, ValueError) as error:
            return Exited(error=str(error))
        put_tag(process.pid, self._marker)
        assert process.stdout is not None, "it was asked for"
        assert process.stderr is not None, "it was asked for"
        nonce = self._marker.nonce
        scope = Scope(
            belongs=lambda marker: marker.nonce == nonce,
            leader=process.pid,
            pipe_inode=os.fstat(process.stdout.fileno()).st_ino,
            tags=frozenset({self._marker.tag}),
            leader_waits=self._command.is_owned,
        )
        try:
            with process.stderr as errors:
                # Standard input and output now belong to the loop, which also closes them.
                self._on_loop(lambda: self.started.set_result(process))
                return self._watched(process, errors.fileno(), scope=scope)
        except BaseException:
            # A defect of ours must not leave a process behind either.
            kill_scope(scope)
            process.wait()
            raise

    def _watched(self, process: "subprocess.Popen[bytes]", errors_fd: int, *, scope: Scope) -> Exited:
        pump = Pump(errors_fd, process.pid, wake=self._wake, sink=self.last_words)
        try:
            why = pump.until_exit(None)
            if why == "woken":
                os.read(self._wake.read_fd, 1)
                why = pump.until_exit(time.monotonic() + self._patience.exit_s)
            if why == "exited":
                pump.drain(_DRAIN_S)
            # Also after an exit: what it started must not outlive it.
            survivors = kill_scope(scope, patience=self._patience.kill, meanwhile=pump.sip)
            reap_adopted(scope)
        finally:
            pump.close()
        # Reaped last: until then, no other process gets its pid or group.
        code = process.poll() if survivors else process.wait()
        if code is not None:
            code = self._command.code(code)
        return Exited(code=code, killed=why != "exited", survivors=survivors)


_log = logging.getLogger(__name__)

_NAMED_MAX = 5
_PATH = re.compile(r"(?<![\w/])/[^\s'\"`:,;()\[\]{}<>|]{2,400}")
_REFUSED = re.compile(
    r"read-only file system|permission denied|EROFS|EACCES|EPERM|not permitted", re.IGNORECASE
)
_MISSING = re.compile(r"no such file|not found|ENOENT|does not exist", re.IGNORECASE)
_SOCKETS = re.compile(r"\.sock\b|AF_UNIX|unix socket|/run/|EACCES.*socket|docker daemon", re.IGNORECASE)
_SETTING = "[mcp_servers.sandbox]"


class ServerConfiner(Struct, frozen=True):
    """Confines the MCP servers of one Holdfast."""

    opened: Callable[[], Sandbox]  # blocks until it's tested
    profiles: ServerProfiles

    def confinement(self, label: str, config: McpServerConfig) -> Confinement | None:
        """Return a server's confinement; None without a sandbox. Reads files, so it blocks.

        Only bubblewrap can hide the secrets of an otherwise readable home folder.
        """
        if config.access is None or (sandbox := self.opened()).backend != "bubblewrap":
            return None
        cwd = os.path.realpath(config.cwd or os.getcwd())  # noqa: PTH109
        profile = self.profiles.profile(label, config.command, config.env, cwd=cwd, access=config.access)
        if profile and profile.shortfall:
            _log.warning("MCP server %s: %s", label, profile.shortfall)
        return Confinement(sandbox, profile) if profile else None


def variables(confinement: Confinement | None) -> dict[str, str]:
    """Return the sandbox's variables for a server's environment: uv keeps its tools next to its cache."""
    return {"UV_TOOL_DIR": f"{confinement.profile.home}/.cache/uv-tools"} if confinement else {}


def blocked(profile: Profile, said: str) -> str:
    """Guess from a server's output what the sandbox blocked. Blocks."""
    found = list(dict.fromkeys(_blocked(profile, said)))[:_NAMED_MAX]
    if found:
        return f'the sandbox {" and ".join(found)}; set mode = "off" there to run it without a sandbox'
    if profile.network == "on" and _SOCKETS.search(said):
        return (
            f'the sandbox blocks Unix sockets; set mode = "off" under {_SETTING} to run it without a sandbox'
        )
    return f'it ran in the sandbox; if that\'s the cause, set mode = "off" under {_SETTING}'


def _blocked(profile: Profile, said: str) -> Iterator[str]:
    for line in said.splitlines():
        for path in map(str.rstrip, _PATH.findall(line), [".)'\""] * 99):
            hidden = is_in(path, profile.masked) or _is_left_out(path, profile)
            if hidden and (_MISSING.search(line) or _REFUSED.search(line)):
                yield f"hides {path} (add it to read under {_SETTING})"
            elif _REFUSED.search(line) and not is_in(
                path, (*profile.write, *(inside for _, inside in profile.kept))
            ):
                yield f"kept it from changing {path} (add it to write under {_SETTING})"


def _is_left_out(path: str, profile: Profile) -> bool:
    """Whether it is a secret of the home folder, or in another /tmp, /run or /etc."""
    shown = (*profile.read, *profile.write, *(inside for _, inside in profile.kept))
    elsewhere = (profile.home, "/tmp", "/run", "/etc")  # noqa: S108 - the command has its own
    if path == profile.home or not os.path.lexists(path) or is_in(path, shown):
        return False
    return is_in(path, elsewhere)
