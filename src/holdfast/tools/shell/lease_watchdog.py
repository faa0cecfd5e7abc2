"""Starts the process that watches the server's lease (lease_watchdog_child), feeds it, and replaces it."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex

from holdfast.interfaces.system_clock import steady_s
from holdfast.supervision import BackgroundTasks
from holdfast.tools.offload import offload
from holdfast.tools.shell import lease_watchdog_child
from holdfast.tools.shell.lease_watchdog_child import BEAT, KILLING
from holdfast.tools.shell.marker import markers_in
from holdfast.tools.shell.process_table import ON_LINUX, environ_of
from holdfast.tools.shell.server_tools import VARIABLE, local_mark, mark

SILENCE_S = 3.0  # a second less than a lease
UNANSWERED_MAX = 3  # beats after which the watchdog counts as frozen
AGAIN_S = 0.5  # before another watchdog is started
_READ_BYTES = 1024

_log = logging.getLogger(__name__)


class LeaseWatchdog:
    """Kills this server's foreground tools if `renewed` isn't called for some time, even if it is frozen.

    Commands that work outside of `volumes`, the folders that several servers share, are not killed: their
    sessions wait for this server, so nobody else works on the same files.
    """

    def __init__(self, *, volumes: Sequence[Path] = (), silence_s: float = SILENCE_S) -> None:
        self._volumes = tuple(volumes)
        self._silence_s = silence_s
        self._token = token_hex(16)
        self._child: subprocess.Popen[bytes] | None = None
        self._last_s = 0.0
        self._unanswered = 0
        self._killed_s = 0.0

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables for the environment of tools."""
        return {VARIABLE: mark(self._token)}

    def environment_in(self, workspace: Path) -> dict[str, str]:
        """Return the variables for the environment of a command in this folder."""
        if any(workspace.is_relative_to(volume) for volume in self._volumes):
            return self.environment
        return {VARIABLE: local_mark(self._token)}

    @property
    def pid(self) -> int:
        """The watchdog's process; 0 while there is none."""
        return self._child.pid if self._child is not None else 0

    def has_killed_since(self, since_s: float) -> bool:
        """Whether it has killed tools since this time, on the clock `steady_s`."""
        return self._killed_s >= since_s

    def renewed(self, sent_s: float) -> None:
        """Tell it that the lease was renewed by a request that was sent then."""
        self._last_s = sent_s
        child = self._child
        if child is None or child.stdin is None:
            return
        self._unanswered += 1
        if self._unanswered > UNANSWERED_MAX:
            _log.warning("the watchdog of tools doesn't answer, so it is replaced")
            child.kill()
            return
        try:
            os.write(child.stdin.fileno(), BEAT.pack(sent_s))
        except (BlockingIOError, BrokenPipeError):
            return  # it is frozen or dead, which is noticed elsewhere

    async def run(self) -> None:
        """Run a watchdog until cancelled, and replace one that ends."""
        while True:
            try:
                child = await offload(self._start, undo=_end)
            except OSError as error:
                _log.error("the watchdog of tools can't be started; trying again: %s", error)
            else:
                await self._watch(child)
                _log.warning("the watchdog of tools has ended, so another one is started")
            await asyncio.sleep(AGAIN_S)

    def _start(self) -> "subprocess.Popen[bytes]":
        path = Path(lease_watchdog_child.__file__)
        outer = len(list(markers_in(environ_of(os.getpid()))))
        child = subprocess.Popen(  # noqa: S603  # our own interpreter and our own file
            [
                *(sys.executable, "-I", "-X", "utf8", str(path), str(path.parents[3])),
                *(str(os.getpid()), str(outer), self._token, str(self._silence_s)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd=os.path.sep,
            env={},  # it needs nothing, and keys are none of its business
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        os.set_blocking(child.stdin.fileno(), False)
        os.set_blocking(child.stdout.fileno(), False)
        return child

    async def _watch(self, child: "subprocess.Popen[bytes]") -> None:
        """Hear what it says until it ends."""
        assert child.stdin is not None
        assert child.stdout is not None
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        output = child.stdout.fileno()

        def hear() -> None:
            said = os.read(output, _READ_BYTES)
            self._unanswered = 0
            if KILLING in said:
                self._killed_s = steady_s()
                _log.warning("the lease was not renewed in time, so the tools that ran were killed")
            if not said:
                loop.remove_reader(output)
                over.set()

        self._child, self._unanswered = child, 0
        loop.add_reader(output, hear)
        if self._last_s:
            self.renewed(self._last_s)
        try:
            await over.wait()
        finally:
            self._child = None
            loop.remove_reader(output)
            await offload(partial(_end, child))


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End an unneeded watchdog. Blocks."""
    with child:  # closes both pipes, and waits
        child.kill()


@asynccontextmanager
async def watched_tools(watchdog: LeaseWatchdog, background: BackgroundTasks) -> AsyncGenerator[None]:
    """Have a watchdog; without /proc it would find nothing, so there is none."""
    if not ON_LINUX:
        _log.warning("on this system, tools of a server that lost its lease are not killed by a watchdog")
        yield
        return
    running = background.start("watchdog of tools", watchdog.run)
    try:
        yield
    finally:
        await background.end(running)
