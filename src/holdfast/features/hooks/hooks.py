"""The hooks that there are: the user's, and those of workspaces, trusted together with their scripts."""

import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast.config.files import own_config_home
from holdfast.config.settings import HookSettings
from holdfast.config.sources import ConfigIssue, dotted
from holdfast.config.toml import parse_toml
from holdfast.config.trust import TrustedFiles, TrustUnreadable
from holdfast.interfaces.feature import FeatureContext
from holdfast.tools.files.regular_files import read_regular

FILE = ".holdfast/hooks.toml"
SCRIPTS = ".holdfast/hooks"
BOOK = "trusted-hooks.json"
HOOKS_MAX = 50
BYTES_MAX = 5_000_000
FILES_MAX = 500
DEADLINE_S_MAX = 600
ADVICE = (
    "Read {file} and its scripts, then run `holdfast hooks trust {workspace}` to use them, or "
    "`holdfast hooks distrust {workspace}` to work without them."
)


class Hook(Struct, frozen=True):
    """A hook of the user or of a workspace."""

    settings: HookSettings
    is_workspace: bool = False

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.settings.shown_name


class BadHooks(Exception):
    """The hooks of a workspace can't be used. The text is the reason, as the predicate of a sentence."""


class WorkspaceHooks(Struct, frozen=True):
    """The hooks of a workspace that the user trusts or once trusted; `problem` is why they can't be used."""

    hooks: tuple[HookSettings, ...] = ()
    digest: str = ""
    scripts: tuple[str, ...] = ()
    problem: str = ""


def trusted_book(home: Path) -> TrustedFiles:
    """Return the list of trusted hooks."""
    return TrustedFiles(home, BOOK, inside=(".holdfast",))


class _File(Struct, forbid_unknown_fields=True):
    hooks: tuple[HookSettings, ...] = ()


def hook_issues(hook: HookSettings) -> Iterator[ConfigIssue]:
    """Check a hook, of the user or of a workspace."""
    if not hook.command or not hook.command[0].strip():
        yield ConfigIssue(("command",), "must start with the name of a program")
    if not 0 < hook.deadline_s <= DEADLINE_S_MAX:
        yield ConfigIssue(("deadline_s",), f"must be more than 0 and at most {DEADLINE_S_MAX}")
    if hook.tools and hook.on in {"run_start", "run_end"}:
        yield ConfigIssue(("tools",), f"doesn't work with {hook.on}")


def read_hooks(workspace: Path) -> WorkspaceHooks:
    """Read the hooks, trusted or not, with a digest of the file and its scripts; raises BadHooks. Blocks."""
    try:
        data = read_regular(workspace / FILE, bytes_max=BYTES_MAX)
        hooks = msgspec.convert(parse_toml(data.decode()), _File).hooks
    except FileNotFoundError as error:
        raise BadHooks("don't exist") from error
    except (OSError, ValueError, RecursionError, msgspec.ValidationError) as error:
        raise BadHooks(f"can't be read: {error}") from error
    if len(hooks) > HOOKS_MAX:
        raise BadHooks(f"are more than {HOOKS_MAX}")
    for hook in hooks:
        for issue in hook_issues(hook):
            raise BadHooks(f"are invalid: {hook.shown_name!r}: {dotted(issue.path)} {issue.text}")
    whole, left = sha256(data), BYTES_MAX
    scripts = sorted({name for hook in hooks for name in _named(workspace, hook)} | set(_below(workspace)))
    for name in scripts:
        try:
            script = read_regular(workspace / name, bytes_max=left)
        except OSError as error:
            raise BadHooks(f"can't be read: {name}: {error.strerror}") from error
        left -= len(script)
        whole.update(f"\0{name}\0{len(script)}\0".encode("utf-8", "surrogateescape"))
        whole.update(script)
    return WorkspaceHooks(hooks, whole.hexdigest(), tuple(scripts))


def trusted_hooks(workspace: Path, book: TrustedFiles) -> WorkspaceHooks | None:
    """Return the hooks, or why they can't be used; None if the user never trusted any there. Blocks."""
    place = str(workspace)
    try:
        if not book.knows(workspace / FILE):
            return None
        found = read_hooks(workspace)
        if book.trusts(workspace / FILE, found.digest):
            return found
        problem = "changed after you trusted them"
    except TrustUnreadable as error:
        return WorkspaceHooks(problem=f"It's unknown which hooks you trust: {error}")
    except BadHooks as error:
        problem = str(error)
    advice = ADVICE.format(file=FILE, workspace=place)
    return WorkspaceHooks(problem=f"The hooks of the workspace {place} {problem}. {advice}")


def _named(workspace: Path, hook: HookSettings) -> Iterator[str]:
    """The files of the workspace that the command names."""
    for word in hook.command:
        path = os.path.normpath(workspace / word)
        if os.path.isfile(path) and Path(path).is_relative_to(workspace):  # noqa: PTH113
            yield os.path.relpath(path, workspace)


def _below(workspace: Path) -> Iterator[str]:
    """The files in the folder for scripts; raises BadHooks."""
    count = 0
    for folder, _, names in os.walk(workspace / SCRIPTS):
        for name in names:
            count += 1
            if count > FILES_MAX:
                raise BadHooks(f"have more than {FILES_MAX} files in {SCRIPTS}")
            yield os.path.relpath(Path(folder, name), workspace)


class OpenHooks:
    """The user's hooks, and those of the workspaces in which runs have begun."""

    def __init__(self, own: tuple[Hook, ...], book: TrustedFiles) -> None:
        self.own = own
        self.begun: set[str] = set()  # the runs here that may have hooks at their end
        self._book = book
        self.found: dict[Path, WorkspaceHooks] = {}  # when runs began; one for each workspace with trust

    def look(self, workspace: Path) -> WorkspaceHooks | None:
        """Read the hooks of a workspace; None if it has none that the user trusts. Blocks."""
        found = trusted_hooks(workspace, self._book)
        if found is None:
            self.found.pop(workspace, None)
        else:
            self.found[workspace] = found
        return found


@asynccontextmanager
async def open_hooks(context: FeatureContext) -> AsyncGenerator[OpenHooks]:
    """The hooks of this server."""
    yield OpenHooks(tuple(map(Hook, context.settings.hooks)), trusted_book(own_config_home()))
