"""What escapes aim at: files, a process and sockets outside, and a workspace with secret files."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from holdfast.sandbox.bubblewrap import open_bubblewrap
from holdfast.sandbox.landlock import open_landlock
from holdfast.sandbox.launch import Backend, Launch
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.profiles import Profiles, SandboxOptions
from sandbox.escapes import Escape

NOBODY = 65534
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_TREASURE = "treasure"
_RUN_S = 90.0  # less than any test may take, so that what hangs is named
_END_S = 30.0
_SETRESUID, _SETRESGID = (117, 119) if os.uname().machine == "x86_64" else (147, 149)
_FILES = (
    *("outside/old", "outside/removable", "outside/movable", "outside/cut", "home/.ssh/key"),
    *("work/.env", "work/.ssh/id_rsa", "work/AGENTS.md", "work/Makefile", "work/.git/hooks/pre-commit"),
    *("work/.git/config", "work/.vscode/tasks.json", "work/.github/workflows/ci.yml"),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A place to attack, and what attacks it."""

    place: Path
    variables: Mapping[str, str]
    uid: int

    @property
    def work(self) -> Path:
        return self.place / "work"

    def profile(self) -> Profile:
        options = SandboxOptions(home=self.place / "home", environment={"PATH": PATH})
        return Profiles(options).profile(self.work)

    def escaped(self, backend: Backend | None, escapes: Iterable[Escape]) -> list[str]:
        """The names of those that get out, all tried in one shell."""
        tried = {escape.name: escape for escape in escapes}
        before = self._outside()
        output = self.run(backend, _script(tried.values()))
        assert "tried all" in output, output
        said = [line.removeprefix("out: ") for line in output.splitlines() if line.startswith("out: ")]
        # A sandbox has a /tmp of its own, and a folder of the same name can be made in there.
        is_untouched = self._outside() == before
        return [name for name in said if not (is_untouched and "$OUT" in tried[name].script)]

    def _outside(self) -> list[tuple[str, int, int, bytes]]:
        files = [(path, path.stat()) for path in sorted((self.place / "outside").rglob("*"))]
        return [
            (str(path), found.st_mode, found.st_ctime_ns, path.read_bytes() if path.is_file() else b"")
            for path, found in files
        ]

    def run(self, backend: Backend | None, script: str) -> str:
        """What a script prints."""
        # Where a way is open, a busy machine may take long to go it.
        looks = "600" if backend is None else "1"
        environment = {"PATH": PATH, "HOME": str(self.place / "home"), "LOOKS": looks, **self.variables}
        with ExitStack() as stack:
            launch = Launch(argv=("/bin/bash", "-c", script), environment=environment)
            if backend is not None:
                argv = launch.argv
                opened = backend.launch(self.profile(), argv, environment, lifetime="with_server")
                launch = stack.enter_context(opened)
            process = self._as_user(launch)
        try:
            output, _ = process.communicate(timeout=_RUN_S)
        except subprocess.TimeoutExpired as hung:
            raise AssertionError(f"it hangs: {(hung.output or b'').decode('utf-8', 'replace')}") from hung
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_END_S)
            assert process.stdout is not None
            process.stdout.close()
        return output.decode("utf-8", "replace")

    def _as_user(self, launch: Launch) -> "subprocess.Popen[bytes]":
        restrict = launch.restrict

        def become_user() -> None:
            # Of this thread alone: the C library would do it in all of them.
            libc = ctypes.CDLL(None)
            libc.syscall(_SETRESGID, self.uid, self.uid, self.uid)
            libc.syscall(_SETRESUID, self.uid, self.uid, self.uid)
            assert restrict is not None
            restrict()

        # What is to die with its parent dies with the thread that started it, so only a backend that confines
        # a thread is started from one of its own.
        is_other = self.uid != os.getuid()
        user = self.uid if is_other and restrict is None else None
        if is_other and restrict is not None:
            launch = replace(launch, restrict=become_user)
        return launch.start(
            lambda: subprocess.Popen(
                launch.argv,
                user=user,
                group=user,
                extra_groups=None if user is None else (),
                cwd=launch.cwd or self.work,
                env=launch.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=launch.pass_fds,
                start_new_session=True,
            )
        )


def backend_named(name: str, folder: Path, *, uid: int, git_config: str = "") -> Backend:
    """The backend, prepared for this user."""
    if name == "bubblewrap":
        opened = open_bubblewrap(folder, search=PATH, git_config=git_config)
    else:
        opened = open_landlock(folder, git_config=git_config)
    assert opened is not None, f"these tests need {name}"
    _hand_over(folder, uid)
    return opened


@contextmanager
def stage(uid: int) -> Generator[Stage]:
    """A stage that belongs to this user."""
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-stage-")))
        place.chmod(0o755)
        for name in _FILES:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(_TREASURE)
        (place / "work/.git/config").write_text("[core]\n\tbare = false\n")
        for name in ("objects", "refs"):
            (place / "work/.git" / name).mkdir()
        (place / "work/.git/HEAD").write_text("ref: refs/heads/main\n")
        sockets = stack.enter_context(_listening(place))
        _hand_over(place, uid)
        bystander = subprocess.Popen(
            ("/bin/cat",),
            cwd="/",
            env={"PATH": PATH, "TOKEN": _TREASURE},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            user=uid if uid != os.getuid() else None,
        )
        assert bystander.stdin is not None
        stack.callback(bystander.stdin.close)
        stack.callback(bystander.wait, _END_S)
        stack.callback(bystander.kill)
        variables = {
            "OUT": str(place / "outside"),
            "KEY": str(place / "home/.ssh/key"),
            "WORK": str(place / "work"),
            "PID": str(bystander.pid),
            "SERVER": str(os.getpid()),
            **sockets,
        }
        yield Stage(place, variables, uid)


@contextmanager
def _listening(place: Path) -> Generator[dict[str, str]]:
    abstract = f"holdfast-{place.name}"
    with ExitStack() as stack:
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.settimeout(_RUN_S + _END_S)
        for address in (str(place / "socket"), str(place / "work" / "app.sock"), f"\0{abstract}"):
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.bind(address)
            one.listen()
        datagrams = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        datagrams.bind(f"\0{abstract}-datagrams")

        def note_a_datagram() -> None:
            with suppress(TimeoutError):
                if udp.recv(10) == b"x\n":
                    (place / "outside/datagram").touch()

        thread = threading.Thread(target=note_a_datagram, daemon=True)
        thread.start()
        try:
            yield {
                "PORT": str(tcp.getsockname()[1]),
                "UDP": str(udp.getsockname()[1]),
                "SOCKET": str(place / "socket"),
                "INNER": str(place / "work" / "app.sock"),
                "ABSTRACT": abstract,
            }
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"end", udp.getsockname())
            thread.join(_END_S)


def _script(escapes: Iterable[Escape]) -> str:
    # Each is named before it is tried, so that one that hangs is the last.
    lines = [
        f'echo "tried: {escape.name}"\n(cd "$WORK"; {escape.script}\n) >/dev/null 2>&1 '
        f'&& echo "out: {escape.name}"'
        for escape in escapes
    ]
    return "\n".join([*lines, "echo 'tried all'"])


def _hand_over(place: Path, uid: int) -> None:
    if uid == os.getuid():
        return
    for folder, _, files in os.walk(place):
        os.chown(folder, uid, uid)
        for name in files:
            os.chown(Path(folder, name), uid, uid, follow_symlinks=False)


def can_be(uid: int) -> bool:
    """Whether these tests can act as this user."""
    return uid == os.getuid() or (os.getuid() == 0 and shutil.which("perl") is not None)
