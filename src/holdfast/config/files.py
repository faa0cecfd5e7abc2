"""Finds holdfast.toml, and decides whether one in the working directory is trusted."""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from holdfast.config.environment import CONFIG, PROFILE
from holdfast.config.secret_values import (
    TextFile,
    Unresolved,
    at_home,
    read_found_file,
    read_text_file,
)
from holdfast.config.sources import BadConfiguration
from holdfast.config.toml import parse_toml
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.safe_text import exact_line, safe_line
from holdfast.tools.files.regular_files import NotRegular

FILE_NAME = "holdfast.toml"
PROFILES = "profiles"  # the folder of all profiles
_SCOPE: ContextVar[Mapping[str, str] | None] = ContextVar("environment", default=None)
ADVICE = "Read it, then trust it with `holdfast config trust`, or use it once with `--config holdfast.toml`"
NAMES_MAX = 20
NAME_CHARS_MAX = 40


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file as it was read."""

    path: Path
    text: str = field(repr=False)
    open_to_all: bool = False


class IgnoredFile(Struct, frozen=True):
    """The file of the working directory, which is not used; it is only named."""

    path: Path
    why: str
    sets: tuple[str, ...] = ()
    advice: str = ""

    @property
    def headline(self) -> str:
        """The file and why it's ignored, without the advice."""
        return f"{exact_line(str(self.path))} is ignored: {self.why}"

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.headline}. {self.advice}" if self.advice else self.headline


class FoundFiles(Struct, frozen=True):
    """The file to use, if any, and the one that is ignored."""

    file: ConfigFile | None = None
    ignored: IgnoredFile | None = None


def config_home(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own configuration and of the list of trusted files."""
    home = Path(environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config") / "holdfast"
    profile = environ.get(PROFILE, "")
    return home / PROFILES / profile if profile else home


def root_of(folder: Path) -> Path:
    """Return the main folder that a profile's folder is in, or another folder itself."""
    return folder.parent.parent if folder.parent.name == PROFILES else folder


def own_config_home() -> Path:
    """The same for the user of this process; no agent may write there."""
    return config_home(own_environ())


@contextmanager
def scoped(environ: Mapping[str, str]) -> Generator[None]:
    """Give the block, and the tasks and threads that it starts, another environment as their own."""
    token = _SCOPE.set(environ)
    try:
        yield
    finally:
        _SCOPE.reset(token)


def own_environ() -> dict[str, str]:
    """The environment of this process, with HOME set even for a service that has none."""
    if (scope := _SCOPE.get()) is not None:
        return dict(scope)
    environ = dict(os.environ)  # noqa: TID251  # this is the edge
    if "HOME" not in environ and (home := os.path.expanduser("~")) != "~":  # noqa: PTH111  # never raises
        environ["HOME"] = home
    return environ


def find_file(config: Path | None, environ: Mapping[str, str], *, directory: Path) -> FoundFiles:
    """The named file, else the directory's file if it is trusted, else the user's file.

    The directory's file may belong to someone else's repository, and it can name programs to start and
    servers to send conversations to. Raises BadConfiguration.
    """
    text = str(config or environ.get(CONFIG, "").strip())
    if text:
        # A shell doesn't expand ~ in --config=~/x, and nobody does in a service's variable.
        try:
            named = Path(at_home(text, environ))
        except Unresolved as error:
            raise BadConfiguration([f"{'--config' if config else CONFIG}: {text} {error}"]) from error
        file = read_config(named)
        if file is None:
            raise BadConfiguration([f"{named}: file not found"])
        return FoundFiles(file)
    home = config_home(environ)
    if directory.resolve() == home.resolve():
        return FoundFiles(read_config(home / FILE_NAME))
    here = _file_of(directory, TrustedFiles(home))
    return here if here.file else FoundFiles(read_config(home / FILE_NAME), here.ignored)


def _file_of(directory: Path, book: TrustedFiles) -> FoundFiles:
    """The directory's file if it is trusted, else only its name."""
    path = directory / FILE_NAME
    try:
        file = read_config(path, read=read_found_file)
        if file is None or book.trusts(path, file.text):
            return FoundFiles(file)
        why = "it changed since you trusted it" if book.knows(path) else "you haven't trusted it yet"
    except NotRegular:
        return FoundFiles(ignored=IgnoredFile(path, "it is not a regular file"))
    except BadConfiguration as error:
        return FoundFiles(ignored=IgnoredFile(path, str(error).removeprefix(f"{path}: ")))
    except TrustUnreadable as error:
        raise BadConfiguration([str(error)]) from error
    return FoundFiles(ignored=IgnoredFile(path, why, _sets(file.text), ADVICE))


def _sets(text: str) -> tuple[str, ...]:
    """The names of the tables that the file sets."""
    try:
        names = list(parse_toml(text))
    except (ValueError, RecursionError):
        return ()
    return tuple(safe_line(name, NAME_CHARS_MAX) for name in names[:NAMES_MAX])


def read_config(path: Path, *, read: Callable[[Path], TextFile] = read_text_file) -> ConfigFile | None:
    """The file, or None if there is none. Raises BadConfiguration if it can't be read, or NotRegular."""
    try:
        file = read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular:
        raise
    except OSError as error:
        raise BadConfiguration([f"{path}: can't read the file: {error.strerror}"]) from error
    except ValueError as error:
        raise BadConfiguration([f"{path}: can't read the file: {error}"]) from error
    return ConfigFile(path, file.text, open_to_all=file.open_to_all)
