"""The files of the workspace, for completing @names, without ignored ones and those that may hold secrets."""

import asyncio
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from holdfast.policy.secret_names import is_secret
from holdfast.tools.files.globs import NOT_LISTED
from holdfast.tools.files.trees import walk

FILES_MAX = 20_000
ENTRIES_MAX = 200_000
LIST_S = 10.0
SHOWN_MAX = 30
_OUTPUT_BYTES_MAX = 8 * 1024 * 1024


class WorkspaceFiles:
    """The names as they were at the last look, so that completing one never waits for the disk."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self._names: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Look again."""
        self._names = await asyncio.to_thread(list_files, self._workspace)

    def matching(self, typed: str) -> Iterator[str]:
        """Names that contain what is typed; those whose last part begins with it come first."""
        wanted = typed.casefold()
        found = [name for name in self._names if wanted in name.casefold()]
        found.sort(key=lambda name: (not name.rpartition("/")[2].casefold().startswith(wanted), name))
        return islice(found, SHOWN_MAX)


def list_files(workspace: Path) -> tuple[str, ...]:
    """The files below a folder, relative to it, up to a bound. Blocks."""
    ripgrep = shutil.which("rg")
    names = _listed_by_ripgrep(ripgrep, workspace) if ripgrep else _walked(workspace)
    shown = (name for name in names if name.isprintable() and not is_secret(str(workspace / name)))
    return tuple(sorted(islice(shown, FILES_MAX)))


def _listed_by_ripgrep(ripgrep: str, workspace: Path) -> Iterable[str]:
    # It reads ignore files itself: git could be made to run a program by the repository's settings.
    command = [ripgrep, "--files", "--no-config", "--no-messages", "--no-require-git"]
    with subprocess.Popen(  # noqa: S603  # a fixed command line
        command, cwd=workspace, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as listing:
        try:
            out, _ = listing.communicate(timeout=LIST_S)
        except subprocess.TimeoutExpired:
            listing.kill()
            out, _ = listing.communicate()
    return out[:_OUTPUT_BYTES_MAX].decode("utf-8", "replace").splitlines()


def _walked(workspace: Path) -> Iterator[str]:
    root = f"{workspace}/"
    entries = walk(
        root,
        into=lambda entry: (
            entry.path if entry.is_dir(follow_symlinks=False) and not _is_hidden(entry.name) else ""
        ),
    )
    for entry in islice(entries, ENTRIES_MAX):
        if not isinstance(entry, OSError) and not _is_hidden(entry.name) and entry.is_file():
            yield entry.path.removeprefix(root)


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name in NOT_LISTED
