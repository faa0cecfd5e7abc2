"""Where holdfast.toml is looked for, and whether the one that lies about in a working directory counts."""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.config.environment import CONFIG
from holdfast.config.secret_values import (
    TextFile,
    Unresolved,
    at_home,
    read_found_file,
    read_text_file,
)
from holdfast.config.sources import BadConfiguration
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.safe_text import safe_line
from holdfast.tools.files.regular_files import NotRegular

FILE_NAME = "holdfast.toml"
ADVICE = "Read it, then let it count with `holdfast config trust`, or this once with `--config holdfast.toml`"
NAMES_MAX = 20
NAME_CHARS_MAX = 40


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file as it was read."""

    path: Path
    text: str = field(repr=False)
    open_to_all: bool = False


@dataclass(frozen=True, slots=True)
class IgnoredFile:
    """The file of the working directory, which does not count: it is only named."""

    path: Path
    why: str
    sets: tuple[str, ...] = ()
    advice: str = ""

    def __str__(self) -> str:
        """One line for a person."""
        return f"{self.path} is ignored: {self.why}{f'. {self.advice}' if self.advice else ''}"


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The file that counts, if any, and the one that does not."""

    file: ConfigFile | None = None
    ignored: IgnoredFile | None = None


def config_home(environ: Mapping[str, str]) -> Path:
    """Where the user's own configuration is, and the record of what they trust."""
    return Path(environ.get("XDG_CONFIG_HOME") or f"{environ.get('HOME', '')}/.config") / "holdfast"


def own_config_home() -> Path:
    """The same of this process's user: no agent may write there."""
    return config_home(own_environ())


def own_environ() -> dict[str, str]:
    """The environment of this process, with a HOME also where a service is given none."""
    environ = dict(os.environ)  # noqa: TID251  # this is the edge
    if "HOME" not in environ and (home := os.path.expanduser("~")) != "~":  # noqa: PTH111  # never raises
        environ["HOME"] = home
    return environ


def find_file(config: Path | None, environ: Mapping[str, str], *, directory: Path) -> FoundFiles:
    """The file that was named, else that of the directory if it is trusted, else that of the user.

    A file that lies in a directory may have come with somebody else's repository, and it could name programs
    to start and servers to send conversations to. Raises BadConfiguration.
    """
    text = str(config or environ.get(CONFIG, "").strip())
    if text:
        # No shell replaces ~ in --config=~/x, nor in a variable of a service.
        try:
            named = Path(at_home(text, environ))
        except Unresolved as error:
            raise BadConfiguration([f"{'--config' if config else CONFIG}: {text} {error}"]) from error
        file = read_config(named)
        if file is None:
            raise BadConfiguration([f"{named}: there is no such file"])
        return FoundFiles(file)
    home = config_home(environ)
    if directory.resolve() == home.resolve():
        return FoundFiles(read_config(home / FILE_NAME))
    here = _file_of(directory, TrustedFiles(home))
    return here if here.file else FoundFiles(read_config(home / FILE_NAME), here.ignored)


def _file_of(directory: Path, book: TrustedFiles) -> FoundFiles:
    """The directory's file if it counts; one that is not trusted can do nothing but be named."""
    path = directory / FILE_NAME
    try:
        file = read_config(path, read=read_found_file)
        if file is None or book.trusts(path, file.text):
            return FoundFiles(file)
        why = "it changed since you trusted it" if book.knows(path) else "you have not trusted it yet"
    except NotRegular:
        return FoundFiles(ignored=IgnoredFile(path, "it is not a regular file"))
    except BadConfiguration as error:
        return FoundFiles(ignored=IgnoredFile(path, str(error).removeprefix(f"{path}: ")))
    except TrustUnreadable as error:
        raise BadConfiguration([str(error)]) from error
    return FoundFiles(ignored=IgnoredFile(path, why, _sets(file.text), ADVICE))


def _sets(text: str) -> tuple[str, ...]:
    """What the file would set, by the names of its tables."""
    try:
        names = list(tomllib.loads(text))
    except (ValueError, RecursionError):
        return ()
    return tuple(safe_line(name, NAME_CHARS_MAX) for name in names[:NAMES_MAX])


def read_config(path: Path, *, read: Callable[[Path], TextFile] = read_text_file) -> ConfigFile | None:
    """The file, or None if there is none; raises BadConfiguration if it cannot be read, or NotRegular."""
    try:
        file = read(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except NotRegular:
        raise
    except OSError as error:
        raise BadConfiguration([f"{path}: cannot be read: {error.strerror}"]) from error
    except ValueError as error:
        raise BadConfiguration([f"{path}: cannot be read: {error}"]) from error
    return ConfigFile(path, file.text, open_to_all=file.open_to_all)
