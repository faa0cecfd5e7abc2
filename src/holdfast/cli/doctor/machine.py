"""The doctor's checks of the machine: versions, limits, the data directory, its lock, the port, the disk."""

import fcntl
import os
import platform
import resource
import shutil
import socket
import stat
import tempfile
import time
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

import apsw

from holdfast import __version__
from holdfast.cli.doctor.findings import DoctorFinding, counted, fault, note, ok
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.host.listening import listen
from holdfast.host.lock import LockHolder, read_holder
from holdfast.host.open_files import files_to_allow, files_wanted
from holdfast.sandbox.quarantine import Quarantine
from holdfast.sandbox.sandbox import SandboxRefused, open_sandbox
from holdfast.sandbox.summary import is_held, sandbox_line
from holdfast.server.transport.open_files import FREE_MIN
from holdfast.tools.shell.marker import BASH, why_daemons_hide

MIB = 1024 * 1024
FREE_BYTES_MIN, FREE_BYTES_WANTED = 100 * MIB, 1024 * MIB
FILES_MIN = 256
CLOCK_SLACK_MS = 60_000
CLOCK_MIN_MS = 1_767_225_600_000  # Holdfast didn't exist before 2026


def versions() -> DoctorFinding:
    """The Holdfast version."""
    facts = {
        "holdfast": __version__,
        "python": platform.python_version(),
        "sqlite": apsw.sqlite_lib_version(),
        "system": platform.platform(terse=True),
    }
    return ok("versions", ", ".join(f"{name} {version}" for name, version in facts.items()), **facts)


def ripgrep(path: str | None = None) -> DoctorFinding:
    """Whether searching files is quick; `path` is where programs are looked for."""
    found = shutil.which("rg", path=path)
    if found:
        return ok("ripgrep", f"found at {found}")
    return note("ripgrep", "not found, so search_files is slower", "install ripgrep (the program rg)")


def sandbox(settings: Settings, path: str | None = None) -> DoctorFinding:
    """Check the sandbox by starting a few programs."""
    wanted = settings.sandbox
    network = wanted.network if isinstance(wanted.network, str) else "hosts"
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = open_sandbox(
                wanted.mode, Path(folder), search=path or os.pathsep.join(os.get_exec_path())
            )
        except SandboxRefused as error:
            return fault("sandbox", str(error), "the server won't start until this is fixed")
    line = sandbox_line(
        found, mode=wanted.mode, approvals=settings.approvals.permission_mode, network=network
    )
    if is_held(found):
        return ok("sandbox", line, backend=found.backend)
    if wanted.mode == "off":
        return note("sandbox", line, 'set sandbox.mode to "auto"', backend="none")
    return note("sandbox", line, "install bubblewrap and allow user namespaces", backend=found.backend)


def quarantine(data_dir: Path) -> DoctorFinding:
    """Check for quarantined files."""
    files = Quarantine(data_dir / "quarantine").files()
    if not files:
        return ok("quarantine", "empty")
    line = f"{counted(len(files), 'file')} that commands changed without approval"
    return note(
        "quarantine", line, "run `holdfast quarantine list`, then restore or drop them", files=len(files)
    )


def page() -> DoctorFinding:
    """Whether this installation has the page."""
    if (files("holdfast") / "web" / "index.html").is_file():
        return ok("page", "built")
    return note(
        "page", "not built; only the API is available", "install a complete wheel, or run `make serve`"
    )


def daemons(bash: str = BASH) -> DoctorFinding:
    """Whether processes that a tool left running can be found after a crash."""
    why = why_daemons_hide(bash)
    if not why:
        return ok("processes of tools", "after a crash, the next start finds and ends them")
    advice = "if the server is killed, find them with `ps`; the tool's result includes a reminder"
    return note("processes of tools", why, advice)


def open_files(settings: Settings) -> DoctorFinding:
    """Whether as many files and sockets may be open as the settings allow clients to ask for."""
    allowed, wanted = files_to_allow(settings), files_wanted(settings)
    if allowed == resource.RLIM_INFINITY or allowed >= wanted:
        return ok("open files", f"up to {allowed}", allowed=allowed, wanted=wanted)
    advice = f"raise the limit to {wanted} (`ulimit -Hn`), or lower subscribers_max and max_concurrent_runs"
    text = f"up to {allowed}; a server at full load might need {wanted}"
    make = fault if allowed < FILES_MIN else note
    return make("open files", text, advice, allowed=allowed, wanted=wanted)


def files_of_server(holder: LockHolder) -> DoctorFinding | None:
    """Whether the running server has files left to open; None if that can't be read."""
    try:
        used = len(os.listdir(f"/proc/{holder.pid}/fd"))  # noqa: PTH208
        allowed = resource.prlimit(holder.pid, resource.RLIMIT_NOFILE)[0]
    except (OSError, AttributeError):
        return None
    text = f"the server has {used} of {allowed} open"
    if allowed == resource.RLIM_INFINITY or allowed - used >= FREE_MIN:
        return ok("server's files", text, used=used, allowed=allowed)
    advice = "raise the limit (`ulimit -n`), or close some connections, runs or tools"
    return fault("server's files", text, advice, used=used, allowed=allowed)


def clock(newest_ms: int, now_ms: int | None = None) -> DoctorFinding:
    """Whether the clock is plausible: not behind the newest stored event."""
    now_ms = round(time.time() * 1000) if now_ms is None else now_ms
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now_ms / 1000))
    advice = "set the clock; a wrong time breaks certificates and delays"
    if now_ms < CLOCK_MIN_MS:
        return fault("clock", f"shows {shown}, which is wrong", advice)
    if newest_ms > now_ms + CLOCK_SLACK_MS:
        behind_s = (newest_ms - now_ms) // 1000
        return fault("clock", f"shows {shown}, {behind_s} s behind the newest stored event", advice)
    return ok("clock", f"says {shown}")


def data_directory(folder: Path) -> DoctorFinding:
    """Whether the directory exists, is writable, and is accessible only to its owner."""
    name = "data directory"
    if not os.path.exists(folder):  # noqa: PTH110  # never raises, not even for unreadable paths
        parent = existing(folder)
        if os.access(parent, os.W_OK | os.X_OK):
            return ok(name, f"{folder} will be created on the first start")
        return fault(name, f"can't create {folder}", f"let this user write to {parent}, or use --data-dir")
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return fault(name, f"can't write to {folder}", "give this user access, or use another --data-dir")
    open_to = [path for path in (folder, *folder.glob("api-key"), *folder.glob("*.db")) if _is_open(path)]
    if open_to:
        mode = stat.S_IMODE(open_to[0].stat().st_mode)
        advice = f"run `chmod -R go= {folder}`; it contains conversations and a key"
        return note(name, f"other users on this machine can read {open_to[0]} (mode {mode:04o})", advice)
    return ok(name, f"{folder}, accessible only to its owner")


def existing(folder: Path) -> Path:
    """The directory itself, or its nearest parent that exists."""
    nearest = (folder, *folder.absolute().parents)
    return next(path for path in nearest if os.path.isdir(path))  # noqa: PTH112  # never raises


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))


def serving(folder: Path) -> tuple[DoctorFinding, LockHolder | None]:
    """The server that uses the directory, if any."""
    holder = read_holder(folder) if _is_locked(folder / "lock") else None
    if holder is not None:
        return ok("server", f"running at {holder.shown} (pid {holder.pid})", url=holder.url), holder
    return ok("server", "not running"), None


def _is_locked(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


def port(settings: Settings, holder: LockHolder | None) -> DoctorFinding:
    """Whether the server can listen on its address."""
    host, number = settings.server.host, settings.server.port
    if settings.server.unix_socket:
        return _unix_socket(settings.server, holder)
    if holder is not None and urlsplit(holder.url).port == number:
        return ok("port", f"{host}:{number} is in use by this server")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, number))
        except OSError as error:
            advice = "stop the program that uses it, or choose another port with --port or server.port"
            return fault("port", f"can't listen on {host}:{number}: {error.strerror}", advice)
    return ok("port", f"{host}:{number} is free" if number else f"any free port on {host}")


def _unix_socket(server: ServerSettings, holder: LockHolder | None) -> DoctorFinding:
    if holder is not None and holder.socket:
        return ok("port", f"{holder.socket} is in use by this server")
    try:
        listen(server).close()
    except OSError as error:
        return fault("port", str(error), "choose another path in a folder that this user can write to")
    return ok("port", f"{server.unix_socket} is free")


def disk_room(folder: Path) -> DoctorFinding:
    """Whether the disk has free space."""
    free = shutil.disk_usage(existing(folder)).free
    text = f"{free / MIB / 1024:.1f} GiB free"
    if free < FREE_BYTES_MIN:
        return fault(
            "disk room", text, "free some space; messages are rejected when the disk is full", free=free
        )
    if free < FREE_BYTES_WANTED:
        return note("disk room", text, "free some space soon", free=free)
    return ok("disk room", text, free=free)
