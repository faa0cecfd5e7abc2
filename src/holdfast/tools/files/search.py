"""Searches in files with ripgrep, or with Python in a child process; limited and killable."""

import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.secret_names import FILE_ONLY, is_secret, secret_globs
from holdfast.policy.tool_names import SEARCH_FILES
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.grep import MATCHES_IN_FILE_MAX, above_for, search
from holdfast.tools.files.workspace import Folder, PathRefused, Workspace, Workspaces
from holdfast.tools.functions import ChildOptions, call_in_child, importable
from holdfast.tools.shell.marker import Marker, foreground
from holdfast.tools.shell.process import Command, ProcessEnd, run_command
from holdfast.tools.shell.pump import Sink
from holdfast.values import Action

SEARCH_S = 30.0
MATCHES_MAX = 200
_BYTES_ENOUGH = 128 * 1024


class SearchFilesArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern to search for."""

    pattern: Annotated[str, Meta(min_length=1, max_length=2_000)]
    path: str = ""
    glob: Annotated[str, Meta(max_length=500, description="Such as *.py.")] = ""
    literal: Annotated[bool, Meta(description="Plain text.")] = False
    ignore_case: bool = False


class Enough(Sink):
    """Keeps the first lines that may be shown, and stops when there are enough."""

    def __init__(self, show: Callable[[bytes], bytes | None] = bytes) -> None:
        self._show = show
        self._data = bytearray()
        self._rest = b""

    @override
    def take(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _BYTES_ENOUGH:
            lines.append(self._rest)
            self._rest = b""
        self._keep(lines)
        return len(self._data) >= _BYTES_ENOUGH or self._data.count(b"\n") > MATCHES_MAX

    def lines(self) -> list[str]:
        """Return the output by line."""
        if self._rest:
            self._keep([self._rest])
            self._rest = b""
        return self._data.decode("utf-8", "replace").splitlines()

    def _keep(self, lines: list[bytes]) -> None:
        for shown in map(self._show, lines):
            if shown is not None:
                self._data += (shown + b"\n")[: _BYTES_ENOUGH - len(self._data)]


class Unkept:
    """Turns ripgrep's lines into path:line:text, without those of secret files."""

    def __init__(self, folder: Folder) -> None:
        self._above = above_for(folder.real)

    def __call__(self, line: bytes) -> bytes | None:
        """The line to show, if any; ripgrep ends its paths with NUL, so that no text looks like a path."""
        path, zero, match = line.partition(b"\0")
        if not zero:
            return line
        name = path.decode(errors="replace").removeprefix("./")
        return None if is_secret(f"{self._above}/{name}") else b":".join((path, match))


class SearchFiles(Tool):
    """Searches the files of the workspace."""

    args_type = SearchFilesArgs
    spec = spec_of(
        SEARCH_FILES,
        "Search file contents with a regular expression. Skips what .gitignore excludes, and secrets.",
        args=SearchFilesArgs,
    )
    traits = ToolTraits(
        read_only=True, idempotent=True, parallel_safe=True, patience_s=SEARCH_S + 30.0, place="workspace"
    )

    def __init__(
        self, environment: Mapping[str, str], *, ripgrep: str | None, workspaces: Workspaces = Workspace
    ) -> None:
        self._environment = environment
        self._ripgrep = ripgrep
        self._workspaces = workspaces

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Resolves links, so it blocks."""
        given = parsed(SearchFilesArgs, args)
        return Action(
            tool=SEARCH_FILES,
            summary=f"search {given.path or 'the workspace'} for {given.pattern!r}",
            paths=(self._workspaces(workspace).resolved(given.path),),
            digest=arguments_hash(SEARCH_FILES, args),
        )

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(SearchFilesArgs, args)
        if "\0" in given.pattern or "\0" in given.glob:
            return ToolResult("A pattern can't contain a NUL character.", ok=False)
        try:
            folder = (
                await self._workspaces(call.workspace).bound_to(call.judged_paths).open_folder(given.path)
            )
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        marker = foreground(call.run_id, call.tool_call_id)
        sink = Enough(Unkept(folder)) if self._ripgrep else Enough()
        with folder:
            if self._ripgrep:
                ended, problem = await self._with_ripgrep(self._ripgrep, given, folder, sink, marker)
            else:
                ended, problem = await self._with_python(given, folder, sink, marker)
        if problem:
            return ToolResult(problem, ok=False)
        return ToolResult(_text(sink.lines(), ended, folder))

    async def _with_ripgrep(
        self, ripgrep: str, given: SearchFilesArgs, folder: Folder, sink: Enough, marker: Marker
    ) -> tuple[ProcessEnd, str]:
        command = Command(
            argv=_ripgrep_argv(ripgrep, given, folder),
            cwd=folder.path_for_children,
            environment=self._environment,
        )
        ended = await run_command(command, sink, marker=marker, patience_s=SEARCH_S)
        if ended.why == "not_started":
            return ended, f"Couldn't start the search: {ended.error}"
        # 2 is an error, also one that some file could not be read; then there may be matches all the same.
        failed = ended.why == "exited" and ended.code == 2 and not _is_match(sink.lines())  # noqa: PLR2004
        return ended, "\n".join(sink.lines()) or "The search failed." if failed else ""

    async def _with_python(
        self, given: SearchFilesArgs, folder: Folder, sink: Enough, marker: Marker
    ) -> tuple[ProcessEnd, str]:
        if not given.literal:
            try:
                re.compile(given.pattern)
            except (re.error, OverflowError, RecursionError) as error:
                return ProcessEnd(why="not_started"), f"The regular expression is invalid: {error}."
        args = msgspec.structs.asdict(given)
        args.pop("path")
        args |= {"real": folder.real, "kept_out": list(folder.kept_out)}
        where = importable(search)
        assert where is not None, "it is a function of a module"
        answer = await call_in_child(
            where,
            args,
            place=ChildOptions(
                cwd=folder.path_for_children,
                environment=self._environment,
                marker=marker,
                patience_s=SEARCH_S,
            ),
            sink=sink,
        )
        return answer.ended, f"The search failed: {answer.error}" if answer.error else ""


def _ripgrep_argv(ripgrep: str, given: SearchFilesArgs, folder: Folder) -> tuple[str, ...]:
    # To ripgrep blanks at the end are nothing, and # begins a comment.
    glob = re.sub(r"^#", r"\\#", given.glob.strip())
    return (
        ripgrep,
        *(
            "--no-config",
            "--no-messages",
            "--color=never",
            "--no-heading",
            "--with-filename",
            "--null",
            "--line-number",
        ),
        *(
            "--max-columns=300",
            "--max-columns-preview",
            f"--max-count={MATCHES_IN_FILE_MAX}",
            "--sort=path",
            "--crlf",
        ),
        *("--hidden", "--glob=!.git", "--no-require-git"),
        *(("--fixed-strings",) if given.literal else ()),
        *(("--ignore-case",) if given.ignore_case else ()),
        *((f"--glob={glob}",) if glob else ()),
        *_left_out(folder, glob),  # behind the glob: the last one that fits decides
        f"--regexp={given.pattern}",
        "./",
    )


def _left_out(folder: Folder, glob: str) -> Iterator[str]:
    if glob and not glob.startswith("!"):
        # Including folders of this name also includes ignored ones, so do it only if needed.
        last = re.sub(r"[]}\\]", "/*", glob).rpartition("/")[2]  # up to there anything may fit, also a slash
        if fnmatchcase(FILE_ONLY, last.lower()):
            yield from (f"--iglob=!{FILE_ONLY}", f"--iglob={FILE_ONLY}/")
    else:
        # A glob that lets something in would keep out all else, but a type is one of files alone.
        letters = "".join(f"[{letter}{letter.upper()}]" for letter in FILE_ONLY)
        yield from (f"--type-add=secret:{letters}", "--type-not=secret")
    for own in folder.kept_out:
        yield "--glob=!/" + re.sub(r"([]*?{}!\\[])", r"\\\1", own)
    for secret in secret_globs(folder.real):
        yield f"--iglob=!{secret}"


def _is_match(lines: list[str]) -> bool:
    return bool(lines) and lines[0].startswith("./")


def _text(lines: list[str], ended: ProcessEnd, folder: Folder) -> str:
    prefix = "" if folder.inside == "." else f"{folder.inside}/"
    shown = [f"{prefix}{line.removeprefix('./')}" for line in lines[:MATCHES_MAX]]
    if ended.why == "deadline":
        shown.append(f"[the search was stopped after {SEARCH_S:g} s; there may be more]")
    elif ended.why == "enough" or len(lines) > MATCHES_MAX:
        shown.append("[there are more matches; narrow the search]")
    return "\n".join(shown) or "No matches."
