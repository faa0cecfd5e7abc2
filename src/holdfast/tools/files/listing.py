"""Lists files: the names in a folder and below, up to a limit, without caches and the like."""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import LIST_FILES
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.globs import NOT_LISTED, glob_fits
from holdfast.tools.files.ignore_rules import Ignored
from holdfast.tools.files.workspace import PathRefused, Workspace, Workspaces
from holdfast.tools.offload import offload
from holdfast.values import Action

ENTRIES_MAX = 1_000
NAMES_IN_FOLDER_MAX = 20_000
DEPTH = 3
DEPTH_MAX = 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class ListFilesArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder to list."""

    path: str = ""
    glob: Annotated[
        str,
        Meta(
            max_length=500,
            description="Such as src/**/test_*.py, at any depth.",
        ),
    ] = ""
    depth: Annotated[int, Meta(ge=1, le=DEPTH_MAX)] = DEPTH


class Listing(Struct):
    """The lines so far, and whether there are more."""

    lines: list[str] = field(default_factory=list[str])
    cut: bool = False
    closed: frozenset[str] = frozenset()  # folders that are named but not looked into


class ListFiles(Tool):
    """Lists files of the workspace."""

    args_type = ListFilesArgs
    spec = spec_of(
        LIST_FILES,
        "List files and folders that .gitignore doesn't exclude. Folders end with /, links with @.",
        args=ListFilesArgs,
    )
    traits = ToolTraits(
        read_only=True, idempotent=True, parallel_safe=True, patience_s=60.0, place="workspace"
    )

    def __init__(self, *, workspaces: Workspaces = Workspace) -> None:
        self._workspaces = workspaces

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Resolves links, so it blocks."""
        given = parsed(ListFilesArgs, args)
        return Action(
            tool=LIST_FILES,
            summary=f"list {given.path or 'the workspace'}",
            paths=(self._workspaces(workspace).resolved(given.path),),
            digest=arguments_hash(LIST_FILES, args),
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ListFilesArgs, args)
        give_up = Event()
        workspace = self._workspaces(call.workspace)
        try:
            listing = await offload(
                lambda: _listed(workspace, given, only=call.judged_paths, give_up=give_up), give_up=give_up
            )
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        if listing.cut:
            listing.lines.append(f"[only the first {len(listing.lines):,} are shown; narrow the listing]")
        return ToolResult("\n".join(listing.lines) or "(nothing)")


def _listed(workspace: Workspace, given: ListFilesArgs, *, only: tuple[str, ...], give_up: Event) -> Listing:
    """Walk the folder; blocks."""
    depth = DEPTH_MAX if given.glob else given.depth
    listing = Listing()
    with workspace.bound_to(only).folder(given.path) as folder:
        prefix = "" if folder.inside == "." else f"{folder.inside}/"
        listing.closed = frozenset(f"{prefix}{own}" for own in folder.kept_out)
        ignored = _above(workspace, folder.inside)
        for line in _walked(folder.fd, prefix, depth=depth, listing=listing, ignored=ignored):
            if give_up.is_set():
                raise PathRefused("Stopped.")
            if given.glob and (line.endswith("/") or not glob_fits(given.glob, line.removesuffix("@"))):
                continue
            if len(listing.lines) >= ENTRIES_MAX:
                listing.cut = True
                break
            listing.lines.append(_in_one_line(line))
    return listing


def _in_one_line(name: str) -> str:
    """A name on one line: line breaks and bytes that are not text are escaped."""
    if name.isprintable():
        return name
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in name)


def _above(workspace: Workspace, inside: str) -> Ignored:
    """The rules of the folders above this one."""
    ignored = Ignored()
    parts = [] if inside == "." else inside.split("/")
    for depth in range(len(parts)):
        above = "/".join(parts[:depth])
        with suppress(PathRefused, OSError), workspace.folder(above) as folder:
            ignored = ignored.within(f"{above}/" if above else "", folder.fd)
    return ignored


def _walked(folder_fd: int, prefix: str, *, depth: int, listing: Listing, ignored: Ignored) -> Iterator[str]:
    folders: list[str] = []
    ignored = ignored.within(prefix, folder_fd)
    for name, kind in _entries(folder_fd, listing):
        if name not in NOT_LISTED and ignored.covers(f"{prefix}{name}", is_folder=kind == "/"):
            continue
        closed = name in NOT_LISTED or f"{prefix}{name}" in listing.closed
        if kind == "/" and not closed and depth > 1:
            folders.append(name)
        yield f"{prefix}{name}{kind}"
    for name in folders:
        try:
            inner_fd = os.open(name, _FOLDER_FLAGS, dir_fd=folder_fd)
        except OSError:
            continue  # it is gone, became a link, or is not ours to read: its name was listed
        try:
            inner = f"{prefix}{name}/"
            yield from _walked(inner_fd, inner, depth=depth - 1, listing=listing, ignored=ignored)
        finally:
            os.close(inner_fd)


def _entries(folder_fd: int, listing: Listing) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    with os.scandir(folder_fd) as entries:
        for entry in entries:
            if len(found) >= NAMES_IN_FOLDER_MAX:
                listing.cut = True
                break
            kind = "@" if entry.is_symlink() else "/" if entry.is_dir(follow_symlinks=False) else ""
            found.append((entry.name, kind))
    return sorted(found)
