"""Tries to break out of the sandbox at every start, and so shows what it really holds on this machine."""

import os
import shlex
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from msgspec import Struct

from holdfast.sandbox.launch import Backend
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.workspace_scan import WorkspaceScan

TEST_S = 15.0
_PRIVATE = 0o600
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class SelfTestFailed(Exception):
    """The sandbox could not run a command at all; the text says why."""


class Held(Struct, frozen=True, kw_only=True):
    """The results of the self-test: each is True if every attempt to get around it failed."""

    writes: bool = False  # nothing outside the workspace can be written
    permissions: bool = False  # nor can its permissions be changed
    home: bool = False  # files of the home folder can't be read
    masks: bool = False  # secret files of the workspace can't be read, nor their folders renamed
    protected: bool = False  # protected files of the workspace can't be changed
    processes: bool = False  # other processes can't be read or signalled
    network: bool = False  # nothing can be connected to


def self_test(backend: Backend, folder: Path, *, within_s: float = TEST_S) -> Held:
    """Attack the sandbox from inside; raises SelfTestFailed or OSError if nothing runs in it. Blocks."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="test-", dir=folder) as made:
        place = Path(os.path.realpath(made))
        with _stage(place) as stage:
            output = _run(backend, stage, within_s)
            return stage.held(output)


class _Stage(Struct, frozen=True):
    """The targets of the attack, all made for it: files, a process, a port."""

    place: Path
    nonce: str
    bystander: "subprocess.Popen[bytes]"
    listener: socket.socket

    @property
    def profile(self) -> Profile:
        workspace = str(self.place / "work")
        found = WorkspaceScan().look(workspace)
        return Profile(
            workspace=workspace,
            cwd=workspace,
            home=str(self.place / "home"),
            protected=found.protected,
            masked=found.secret,
        )

    def attacks(self) -> Iterator[str]:
        place, pid = shlex.quote(str(self.place)), self.bystander.pid
        yield f"echo x > {place}/outside/new; echo x >> {place}/outside/old; rm -rf {place}/outside"
        yield f"chmod 777 {place}/outside/modes"
        yield f"cat {place}/home/key {place}/work/.env {place}/work/.ssh/id"
        yield f"cp {place}/work/.env {place}/work/copy; mv {place}/work/.ssh {place}/work/moved; cat moved/id"
        yield f"cat {place}/work/copy; mv {place}/work/folder {place}/work/renamed"
        yield f"echo x >> {place}/work/AGENTS.md; rm -f {place}/work/AGENTS.md"
        yield f"echo x > {place}/work/.git/hooks/pre-commit; rm -rf {place}/work/.git/hooks"
        yield f"cat /proc/{pid}/environ | tr '\\0' ' '; kill -9 {pid}"
        port = self.listener.getsockname()[1]
        yield f"(exec 5<>/dev/tcp/127.0.0.1/{port}) "
        yield f"echo x > {place}/work/done"

    def held(self, output: str) -> Held:
        work, outside = self.place / "work", self.place / "outside"
        if not (work / "done").exists():
            raise SelfTestFailed(output.strip()[-500:] or "a command could not write to its workspace")
        return Held(
            writes=_text(outside / "old") == self.nonce and not (outside / "new").exists(),
            permissions=_mode(outside / "modes") == _PRIVATE,
            home=f"home-{self.nonce}" not in output,
            masks=f"mask-{self.nonce}" not in output and (work / "folder").exists(),
            protected=_text(work / "AGENTS.md") == self.nonce
            and _text(work / ".git" / "hooks" / "pre-commit") == self.nonce,
            processes=f"process-{self.nonce}" not in output and self.bystander.poll() is None,
            network=not _was_called(self.listener),
        )


@contextmanager
def _stage(place: Path) -> Generator[_Stage]:
    nonce = token_hex(8)
    for name, text in (
        ("outside/old", nonce),
        ("outside/modes", nonce),
        ("home/key", f"home-{nonce}"),
        ("work/.env", f"mask-{nonce}"),
        ("work/.ssh/id", f"mask-{nonce}"),
        ("work/folder/.env", f"mask-{nonce}"),
        ("work/AGENTS.md", nonce),
        ("work/.git/hooks/pre-commit", nonce),
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(_PRIVATE)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        # It waits until its standard input is closed, so it can't outlive this process.
        bystander = subprocess.Popen(
            ("/bin/cat",),
            env={"PATH": _PATH, "SECRET": f"process-{nonce}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield _Stage(place, nonce, bystander, listener)
        finally:
            bystander.kill()
            with suppress(subprocess.TimeoutExpired):
                bystander.wait(TEST_S)
            if bystander.stdin is not None:
                bystander.stdin.close()


def _run(backend: Backend, stage: _Stage, within_s: float) -> str:
    script = "\n".join(f"({attack})" for attack in stage.attacks())
    argv = ("/bin/bash", "-c", script)
    with backend.launch(stage.profile, argv, {"PATH": _PATH}, lifetime="with_server") as launch:

        def start() -> "subprocess.Popen[bytes]":
            return subprocess.Popen(  # noqa: S603 - nothing of anybody else's is in it
                launch.argv,
                cwd=launch.cwd or stage.profile.cwd,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )

        process = launch.start(start)
    try:
        output, _ = process.communicate(timeout=within_s)
    except subprocess.TimeoutExpired as error:
        raise SelfTestFailed(f"it did not end within {within_s:g} s") from error
    finally:
        _end(process)
    return output.decode("utf-8", "replace")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill it with all that it started; its output is not waited for, which a survivor could hold open."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(TEST_S)
    if process.stdout is not None:
        process.stdout.close()


def _mode(path: Path) -> int:
    with suppress(OSError):
        return stat.S_IMODE(path.stat().st_mode)
    return 0


def _text(path: Path) -> str:
    with suppress(OSError):
        return path.read_text()
    return ""


def _was_called(listener: socket.socket) -> bool:
    try:
        connection, _ = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True
