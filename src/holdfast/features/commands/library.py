"""The files of commands: the user's own, and those of a workspace that the user trusts."""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, cast

from msgspec import Struct, field

from holdfast.config.files import own_config_home
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.interfaces.feature import Expansion
from holdfast.tools.files.regular_files import read_regular

OWN_FOLDER, WORKSPACE_FOLDER = "commands", ".holdfast/commands"
TRUSTED_NAME = "trusted-commands.json"
FILES_MAX = 200  # in one folder
FILE_BYTES_MAX = 100_000
TEXT_CHARS_MAX = 200_000
DESCRIPTION_CHARS_MAX, HINT_CHARS_MAX = 200, 80
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_ARGUMENT = re.compile(r"\$(ARGUMENTS\b|[1-9](?!\d))")


class BadCommand(Exception):
    """Not a valid file of a command. The text is the reason."""


class UserCommand(Struct, frozen=True, kw_only=True):
    """A command and the text that its message is made of."""

    name: str
    body: str
    origin: Literal["own", "workspace"]
    path: Path
    description: str = ""
    argument_hint: str = ""
    model: str = ""
    mode: Literal["", "plan"] = ""

    @property
    def about(self) -> str:
        """Its arguments and description, in one line."""
        return ": ".join(filter(None, (self.argument_hint, self.description)))

    def expanded(self, arguments: str) -> Expansion:
        """Return the message for these arguments; raises BadCommand. Nothing in it is run."""
        try:
            words = shlex.split(arguments)
        except ValueError:  # a quotation mark of the text itself
            words = arguments.split()
        numbered = {str(number): word for number, word in enumerate(words, 1)}
        values = {"ARGUMENTS": arguments, **numbered}
        count = len(_ARGUMENT.findall(self.body))
        if len(self.body) + count * len(arguments) > TEXT_CHARS_MAX:
            raise BadCommand(f"its message would have more than {TEXT_CHARS_MAX:,} characters")
        text = _ARGUMENT.sub(lambda found: values.get(found[1], ""), self.body)
        if not count and arguments:
            text = f"{text}\n\n{arguments}"
        return Expansion(text, self.model, plan_first=self.mode == "plan")


class FoundCommands(Struct, frozen=True):
    """The usable commands by name, and why other files aren't used, by path."""

    commands: dict[str, UserCommand] = field(default_factory=dict[str, UserCommand])
    problems: dict[str, str] = field(default_factory=dict[str, str])


def command_files(workspace: Path) -> list[Path]:
    """Return the files of a workspace's commands; only their folder if a link leads to it. Blocks."""
    folder = Path(os.path.realpath(workspace), WORKSPACE_FOLDER)
    return list(_paths(folder)) if os.path.realpath(folder) == str(folder) else [folder]


def trusted_book(home: Path) -> TrustedFiles:
    """Return the list of trusted commands."""
    return TrustedFiles(home, TRUSTED_NAME, inside=(WORKSPACE_FOLDER,))


def find_commands(workspace: Path, home: Path | None = None) -> FoundCommands:
    """Read the user's commands, which win, and those of the workspace. Blocks."""
    home = home or own_config_home()
    book, found = trusted_book(home), FoundCommands()
    own = [(path, True) for path in _paths(home / OWN_FOLDER)]
    for path, is_own in (*own, *((path, False) for path in command_files(workspace))):
        try:
            command, text = read_command(path, is_own=is_own)
            if not is_own and not book.trusts(path, text):
                raise BadCommand("it isn't trusted, or changed since")
            if command.name in found.commands:
                raise BadCommand("you have a command with this name")
        except (BadCommand, TrustUnreadable) as error:
            found.problems[str(path)] = str(error)
        else:
            found.commands[command.name] = command
    return found


def read_command(path: Path, *, is_own: bool) -> tuple[UserCommand, str]:
    """Return the command in a file, and the file's text; raises BadCommand. Blocks."""
    if not is_own and os.path.realpath(path) != str(path):
        raise BadCommand("its path in the workspace contains a symbolic link")
    try:
        text = read_regular(path, bytes_max=FILE_BYTES_MAX).decode()
    except UnicodeDecodeError as error:
        raise BadCommand("it isn't UTF-8 text") from error
    except OSError as error:
        raise BadCommand(f"it can't be read: {error.strerror}") from error
    return parse_command(text, path, is_own=is_own), text


def parse_command(text: str, path: Path, *, is_own: bool) -> UserCommand:
    """Return the command in this text; raises BadCommand. A workspace doesn't choose the model."""
    if not _NAME.fullmatch(path.stem):
        raise BadCommand("its name must be 1 to 64 characters of a-z, 0-9, - and _")
    fields: dict[str, object] = {}
    body = text.removeprefix("\ufeff").strip()
    if body.startswith("---"):
        from holdfast.tools.files.yaml_text import BadYaml, front_matter  # takes a while, and few need it

        try:
            fields, body = front_matter(text)
        except BadYaml as error:
            raise BadCommand(f"it {error}") from error
    if not body:
        raise BadCommand("it has no text")
    mode = _field(fields, "mode")
    if mode not in {"", "plan"}:
        raise BadCommand("`mode` can only be plan")
    return UserCommand(
        name=path.stem,
        body=body,
        origin="own" if is_own else "workspace",
        path=path,
        description=_field(fields, "description")[:DESCRIPTION_CHARS_MAX],
        argument_hint=_field(fields, "argument-hint")[:HINT_CHARS_MAX],
        model=_field(fields, "model") if is_own else "",
        mode="plan" if mode else "",
    )


def _field(fields: dict[str, object], name: str) -> str:
    value = fields.get(name, "")
    words = cast("list[object]", value) if isinstance(value, list) else [value]
    return " ".join(" ".join(map(str, words)).split())


def _paths(folder: Path) -> Iterator[Path]:
    """The Markdown files in a folder, in order."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(".md"))
    except OSError:
        return
    yield from (folder / name for name in names[:FILES_MAX])
