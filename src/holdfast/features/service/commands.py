"""The `holdfast service` commands: write, remove and show the systemd unit.

The text of a systemd unit. Pure.
"""

import pwd
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from msgspec import Struct

from holdfast.cli.options import Config, DataDir, Host, Port, Workspace
from holdfast.cli.terminal.output import echo, echo_error

MARK = "# Written by `holdfast service install`. Run it again to change it."
# systemd takes these for escapes, specifiers and variables.
_SPECIAL = str.maketrans({"\\": "\\\\", '"': '\\"', "%": "%%", "$": "$$", "\n": "\\n"})


class Unit(Struct, frozen=True, kw_only=True):
    """The variable parts of the unit. Without `user`, it's a unit of one user's own systemd."""

    program: str
    arguments: Sequence[str]
    workspace: str
    environment_file: str
    user: str = ""

    def text(self) -> str:
        """Return the unit file."""
        network = "Wants=network-online.target\nAfter=network-online.target\n" if self.user else ""
        user = f"User={self.user}\n" if self.user else ""
        target = "multi-user.target" if self.user else "default.target"
        return f"""{MARK}
[Unit]
Description=Holdfast
{network}
[Service]
{user}ExecStart="{_path(self.program)}" {" ".join(_quoted(word) for word in self.arguments)}
WorkingDirectory={_path(self.workspace)}
# Keys of models, as NAME=VALUE lines. The file doesn't have to exist.
EnvironmentFile=-{_path(self.environment_file)}
Restart=always
RestartSec=2
TimeoutStopSec=30
LimitNOFILE=8192
# Background processes survive a restart of the server, which then adopts them.
KillMode=process

[Install]
WantedBy={target}
"""


def _quoted(word: str) -> str:
    return f'"{word.translate(_SPECIAL)}"'


def _path(path: str) -> str:
    return path.replace("%", "%%")


NAME = "holdfast.service"
SYSTEM_FOLDER = Path("/etc/systemd/system")
PATIENCE_S = 60

service_app = typer.Typer(
    help="Run the server as a systemd service. Exit codes: 0 success, 1 failure, 2 usage error.",
    short_help="Run the server as a systemd service.",
    no_args_is_help=True,
)
System = Annotated[
    bool,
    typer.Option("--system", help="Use the service of the machine, which needs root. Default: your own."),
]


class ServiceError(Exception):
    """The text says what to do."""


@service_app.command()
def install(
    system: System = False,
    user: Annotated[
        str, typer.Option("--user", metavar="NAME", help="Account for --system; its agents run as this user.")
    ] = "",
    print_only: Annotated[bool, typer.Option("--print", help="Print the unit and change nothing.")] = False,
    host: Host = None,
    port: Port = None,
    workspace: Workspace = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Start the server now and at every boot.

    To change its options, run this again. API keys of models come from ~/.config/holdfast/env, or with
    --system from /etc/holdfast/env.
    """
    options = {
        "--host": host,
        "--port": port,
        "--workspace": _absolute(workspace),
        "--data-dir": _absolute(data_dir),
        "--config": _absolute(config),
    }
    try:
        home = _home(user, is_system=system)
        given = [word for name, value in options.items() if value is not None for word in (name, str(value))]
        environment = Path("/etc/holdfast/env") if system else home / ".config/holdfast/env"
        unit = Unit(
            program=sys.executable,
            # -P: a module in the workspace, where agents write, is never imported instead.
            arguments=("-P", "-m", "holdfast", "serve", *given),
            workspace=_absolute(workspace) or str(home),
            environment_file=str(environment),
            user=user,
        )
        if print_only:
            echo(unit.text(), end="")
            return
        _install(unit.text(), is_system=system)
    except ServiceError as error:
        _fail(error)
    echo(f"Installed {_file(is_system=system)} and started it.")
    if not system:
        echo("To keep it running while you're signed out, run: loginctl enable-linger")


@service_app.command()
def uninstall(system: System = False) -> None:
    """Stop the server and remove the service. Your data is kept."""
    file = _file(is_system=system)
    try:
        _check_ours(file)
        if not file.exists():
            raise ServiceError(f"{file} doesn't exist")
        _systemctl("disable", "--now", NAME, is_system=system)
        file.unlink()
        _systemctl("daemon-reload", is_system=system)
    except (ServiceError, OSError) as error:
        _fail(error)
    echo(f"Stopped the server and removed {file}.")


@service_app.command()
def status(system: System = False) -> None:
    """Show whether the service is running, and its newest log lines. Exits with 1 if it isn't running."""
    try:
        shown = _run("status", "--no-pager", "--lines=5", NAME, is_system=system)
    except ServiceError as error:
        _fail(error)
    echo(shown.stdout or shown.stderr, end="")
    if shown.returncode:
        raise typer.Exit(1)


def _fail(error: Exception) -> NoReturn:
    echo_error(f"holdfast: {error}")
    raise typer.Exit(1)


def _absolute(path: str | None) -> str | None:
    return None if path is None else str(Path(path).expanduser().absolute())


def _home(user: str, *, is_system: bool) -> Path:
    """Return the home folder of the account that the server is to run as."""
    if ".cache" in Path(sys.prefix).parts:
        raise ServiceError(
            "this Holdfast is in a cache that may be emptied; install it first, for example with "
            "`uv tool install holdfast`"
        )
    if not is_system:
        if user:
            raise ServiceError("--user needs --system")
        return Path.home()
    if user in {"", "root"}:
        raise ServiceError("--system needs --user NAME: agents' commands run as this user, so don't use root")
    try:
        return Path(pwd.getpwnam(user).pw_dir)
    except KeyError as error:
        raise ServiceError(
            f"there's no user {user}; create one with `useradd --create-home {user}`"
        ) from error


def _file(*, is_system: bool) -> Path:
    return (SYSTEM_FOLDER if is_system else Path.home() / ".config/systemd/user") / NAME


def _install(text: str, *, is_system: bool) -> None:
    file = _file(is_system=is_system)
    _check_ours(file)
    _systemctl("daemon-reload", is_system=is_system)  # without systemd, nothing is written
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ServiceError(f"can't write {file}: {error.strerror}") from error
    for words in (("daemon-reload",), ("enable", NAME), ("restart", NAME)):
        _systemctl(*words, is_system=is_system)


def _check_ours(file: Path) -> None:
    if file.exists() and not file.read_text("utf-8", "replace").startswith(MARK):
        raise ServiceError(f"{file} wasn't written by this command; move it away first")


def _systemctl(*words: str, is_system: bool) -> None:
    done = _run(*words, is_system=is_system)
    if done.returncode:
        raise ServiceError(f"systemctl {words[0]} failed: {done.stderr.strip() or done.returncode}")


def _run(*words: str, is_system: bool) -> subprocess.CompletedProcess[str]:
    command = shutil.which("systemctl")
    if command is None:
        raise ServiceError(
            "systemd isn't installed here; adapt the output of --print to your service manager"
        )
    scope = () if is_system else ("--user",)
    try:
        return subprocess.run(  # noqa: S603  # fixed words
            (command, *scope, *words), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ServiceError(f"systemctl {words[0]} gave no answer in {PATIENCE_S} s") from error
