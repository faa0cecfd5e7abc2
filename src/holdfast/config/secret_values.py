"""Values kept elsewhere: env:NAME, file:PATH, and ~ for the home directory."""

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path

from msgspec import Struct

from holdfast.config.settings import Secret
from holdfast.config.sources import KeyPath
from holdfast.config.target_secrets import names_secret
from holdfast.tools.files.regular_files import open_regular

TEXT_BYTES_MAX = 1_048_576
ENV, FILE = "env:", "file:"
_HEADER_OPTIONS = ("-H", "--header")
# $NAME, ${NAME}, ENV:NAME
_VARIABLE = re.compile(r"\$([A-Z_][A-Z0-9_]*)|\$\{([A-Za-z_]\w*)\}|(?i:env):\s*([A-Za-z_]\w*)", re.ASCII)


class Unresolved(Exception):
    """A reference can't be resolved; the text is the predicate of a sentence."""


class TextFile(Struct, frozen=True):
    """The text of a file, and whether every user of the machine can read it."""

    text: str
    open_to_all: bool = False


def read_text_file(path: Path) -> TextFile:
    """Read a small text file, with or without a byte order mark. Raises OSError or ValueError.

    For a path that the user names, which may be a pipe.
    """
    return _text_in(path.open("rb"))


def read_found_file(path: Path) -> TextFile:
    """The same for a path that someone else may have chosen: it must be a regular file."""
    return _text_in(os.fdopen(open_regular(path), "rb"))


def _text_in(opened: BufferedReader) -> TextFile:
    with opened as file:
        mode = os.fstat(file.fileno()).st_mode
        body = file.read(TEXT_BYTES_MAX + 1)
    if len(body) > TEXT_BYTES_MAX:
        raise ValueError("it is larger than 1 MiB")
    try:
        return TextFile(body.decode("utf-8-sig"), open_to_all=bool(mode & stat.S_IROTH))
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error


def command_parts(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word of a command: the part that may be shown, and the secret in it, if any."""
    for before, word in zip(("", *words), words, strict=False):
        option, between, value = word.partition(":" if before in _HEADER_OPTIONS else "=")
        if before.startswith("-") and names_secret(before) and "=" not in before and not word.startswith("-"):
            yield "", word
        elif between and names_secret(option):
            yield f"{option}{between}", value
        else:
            yield word, ""


def at_home(text: str, environ: Mapping[str, str]) -> str:
    """A path with ~ replaced by the home directory. Raises Unresolved if there is none.

    It also raises for what only a shell would replace, which would otherwise become a folder name.
    """
    first = text.partition("/")[0]
    if first.startswith("$"):
        raise Unresolved(f"starts with {first}, which isn't expanded here; write ~/ or the full path")
    if not first.startswith("~"):
        return text
    if first != "~":
        raise Unresolved(f"starts with {first}; only ~ is expanded, to your home directory")
    if not (home := environ.get("HOME", "")):
        raise Unresolved("starts with ~, but HOME is not set")
    return home + text[1:]


def _shell_variable(text: str) -> str | None:
    """The variable that this text would mean in a shell."""
    match = _VARIABLE.fullmatch(text)
    return match[1] or match[2] or match[3] if match else None


class References:
    """Looks up what texts refer to, and remembers which keys are references."""

    def __init__(
        self,
        environ: Mapping[str, str],
        base_of: Callable[[KeyPath], Path],
        *,
        read: Callable[[Path], TextFile] = read_text_file,
    ) -> None:
        self._environ = environ
        self._base_of = base_of
        self._read = read
        self.found: dict[KeyPath, str] = {}
        self.open_to_all: dict[KeyPath, Path] = {}

    def secret(self, text: str, path: KeyPath) -> Secret:
        """The secret that a text names or is. Raises Unresolved."""
        if text.startswith(ENV):
            self.found[path] = text
            return Secret(self._variable(text.removeprefix(ENV).strip()))
        if text.startswith(FILE):
            self.found[path] = text
            place = self._place(text, path)
            content = self._content(place)
            if content.open_to_all:
                self.open_to_all[path] = place
            first = content.text.strip().partition("\n")[0].strip()
            if not first:
                raise Unresolved(f"names the file {place}, which is empty")
            return Secret(first)
        if (name := _shell_variable(text.strip())) is not None:
            raise Unresolved(f"looks like a shell variable, which isn't expanded here; write env:{name}")
        return Secret(text.strip())

    def document(self, text: str, path: KeyPath) -> str:
        """The text that file:PATH names, or the text itself. Raises Unresolved."""
        if not text.startswith(FILE):
            return text
        self.found[path] = text
        return self._content(self._place(text, path)).text

    def expanded(self, text: str) -> str:
        """A path with ~ replaced by the home directory. Raises Unresolved if there is none."""
        return at_home(text, self._environ)

    def _variable(self, name: str) -> str:
        value = self._environ.get(name)
        if value is None:
            raise Unresolved(f"names the environment variable {name}, which is not set")
        if not value.strip():
            raise Unresolved(f"names the environment variable {name}, which is empty")
        return value.strip()

    def _place(self, text: str, path: KeyPath) -> Path:
        return self._base_of(path) / self.expanded(text.removeprefix(FILE).strip())

    def _content(self, place: Path) -> TextFile:
        try:
            return self._read(place)
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise Unresolved(f"names the file {place}, which can't be read: {why}") from error
        except ValueError as error:
            raise Unresolved(f"names a file that can't be read: {error}") from error
