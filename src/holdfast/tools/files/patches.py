"""Applies patches, a format that some models are trained on: several files in one call, all or nothing."""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import APPLY_PATCH, PATCHED
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.contents import FilesSeen, Stamp, read_whole, remove, replace_whole
from holdfast.tools.files.edits import insist_on_fresh, near_miss, unified_diff
from holdfast.tools.files.workspace import PathMissing, PathRefused, Workspace, Workspaces
from holdfast.tools.offload import offload
from holdfast.values import Action

FILES_MAX = 100
BEGIN, END, END_OF_FILE, MOVE = "*** Begin Patch", "*** End Patch", "*** End of File", "*** Move to: "
CHANGED = (
    "A file has changed since this was approved, so nothing was written. Read it again, then request the "
    "change again."
)


class ApplyPatchArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A patch."""

    input: Annotated[str, Meta(min_length=1)]


class Hunk(Struct):
    """Consecutive lines of a file, each with its mark: ` `, `-` or `+`."""

    header: str = ""  # a line above them
    lines: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    at_end: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [line for mark, line in self.lines if mark != "+"]


class PatchedFile(Struct):
    """The change of one file. A new one has all its lines in one hunk."""

    kind: Literal["add", "update", "delete"]
    path: str
    move_to: str = ""
    hunks: list[Hunk] = field(default_factory=list[Hunk])


class _Step(Struct, frozen=True):
    """A change and the file as it was; None if there was none."""

    change: PatchedFile
    before: bytes | None = None
    was: Stamp | None = None
    after: str = ""
    inside: str = ""  # its path in the workspace, links resolved

    @property
    def words(self) -> str:
        """The change in words."""
        if self.change.move_to:
            return f"move {self.change.path} to {self.change.move_to}"
        return f"{self.change.kind} {self.change.path}"


class ApplyPatch(Tool):
    """Adds, changes, moves and deletes files as a patch says."""

    args_type = ApplyPatchArgs
    spec = spec_of(
        APPLY_PATCH,
        "Change files: all of them, or none if a part doesn't fit. `input` is a patch:\n"
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n context\n-old\n+new\n"
        "*** Add File: b.py\n+line\n*** Delete File: c.py\n*** End Patch\n"
        "To rename, put `*** Move to: d.py` below `*** Update File`.",
        args=ApplyPatchArgs,
    )
    traits = ToolTraits(patience_s=60.0, place="workspace")

    def __init__(self, seen: FilesSeen, *, workspaces: Workspaces = Workspace) -> None:
        self._seen = seen
        self._workspaces = workspaces

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Reads the files for the diff, so it blocks."""
        text = parsed(ApplyPatchArgs, args).input
        opened, diff, summary = self._workspaces(workspace), "", ""
        steps: list[_Step] = []
        try:
            steps = [_planned(opened, change) for change in parsed_patch(text)]
            summary = ", ".join(step.words for step in steps)
            diff = "".join(map(_diff, steps))
        except PathRefused as refused:
            why = str(refused).partition("\n")[0]
            summary = f"patch {', '.join(patched_paths(text)) or 'nothing'} (it would be refused: {why})"
        return Action(
            tool=APPLY_PATCH,
            summary=summary,
            paths=tuple(opened.resolved(path) for path in patched_paths(text)),
            diff=diff,
            digest=_digest(args, steps),
        )

    def refusal(self, args: Mapping[str, object], *, workspace: Path, paths: tuple[str, ...]) -> str:
        """Why it doesn't fit the files as they are now; empty if it does. Blocks."""
        opened = self._workspaces(workspace).bound_to(paths)
        try:
            for change in parsed_patch(parsed(ApplyPatchArgs, args).input):
                _planned(opened, change)
        except PathRefused as refused:
            return str(refused)
        return ""

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        text = parsed(ApplyPatchArgs, args).input

        def apply() -> list[str]:
            opened = self._workspaces(call.workspace).bound_to(call.judged_paths)
            steps = [_planned(opened, change) for change in parsed_patch(text)]
            for step in steps:
                seen = self._seen.last(call.session_id, f"{call.workspace}/{step.inside}")
                if step.was is not None:
                    insist_on_fresh(step.change.path, step.was, seen=seen)
            if call.approved and call.approved != _digest(args, steps):
                raise PathRefused(CHANGED)
            done: list[str] = []
            for step in steps:
                try:
                    self._make(step, opened, call)
                except PathRefused as refused:
                    if not done:
                        raise
                    raise PathRefused(f"{refused} Done before that: {', '.join(done)}.") from refused
                done.append(step.words)
            return done

        try:
            return ToolResult("Done: " + ", ".join(await offload(apply)) + ".")
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)

    def _make(self, step: _Step, opened: Workspace, call: ToolCall) -> None:
        change = step.change
        target = change.move_to or change.path
        if change.kind != "delete":
            data = step.after.encode("utf-8", "surrogatepass")
            with opened.spot_with_folders(target) as spot:
                stamp = replace_whole(spot, data, was=None if change.move_to else step.was)
                self._seen.note(call.session_id, f"{call.workspace}/{spot.inside}", stamp=stamp)
        if change.kind == "delete" or change.move_to:
            with opened.spot(change.path) as spot:
                remove(spot, was=step.was)


def patched_paths(text: str) -> list[str]:
    """Return the paths that a patch names, each once."""
    return list(dict.fromkeys(path.strip() for path in PATCHED.findall(text)))


def parsed_patch(text: str) -> list[PatchedFile]:
    """Return the changes in a patch; raises PathRefused with the line that doesn't fit."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    begin = next((at for at, line in enumerate(lines) if line.strip() == BEGIN), -1)
    end = next((at for at in range(len(lines) - 1, begin, -1) if lines[at].strip() == END), -1)
    if begin < 0 or end < 0:
        raise PathRefused(f"The patch must begin with {BEGIN!r} and end with {END!r}, each on its own line.")
    changes: list[PatchedFile] = []
    for number, line in enumerate(lines[begin + 1 : end], begin + 2):
        if not _takes(changes, line):
            raise PathRefused(
                f"Line {number} of the patch isn't valid: {line[:200]!r}. Begin each line of a file with a "
                "space, - or +."
            )
    names = [name for change in changes for name in (change.path, change.move_to) if name]
    if not changes or len(set(names)) < len(names) or len(changes) > FILES_MAX:
        raise PathRefused(f"A patch changes 1 to {FILES_MAX} files, each once.")
    return changes


def _takes(changes: list[PatchedFile], line: str) -> bool:
    """Add the line to the changes; False if it isn't valid there."""
    for kind in ("add", "update", "delete"):
        head = f"*** {kind.capitalize()} File: "
        if line.startswith(head):
            changes.append(PatchedFile(kind, line.removeprefix(head).strip()))
            return bool(changes[-1].path)
    change = changes[-1] if changes else None
    if change is None or change.kind == "delete":
        return not line.strip()
    if change.kind == "update" and line.startswith(MOVE) and not change.hunks:
        change.move_to = line.removeprefix(MOVE).strip()
        return bool(change.move_to)
    if change.kind == "update" and line.startswith("@@"):
        change.hunks.append(Hunk(line.removeprefix("@@").strip()))
        return True
    if line.strip() == END_OF_FILE and change.hunks:
        change.hunks[-1].at_end = True
        return True
    mark, rest = (line[0], line[1:]) if line else (" ", "")
    if mark not in (" -+" if change.kind == "update" else "+"):
        return False
    if not change.hunks:
        change.hunks.append(Hunk())
    change.hunks[-1].lines.append((mark, rest))
    return True


def patched(text: str, change: PatchedFile) -> str:
    """Return the file's text after the change; raises PathRefused with the closest text."""
    line_end = "\r\n" if "\n" in text and text.count("\n") == text.count("\r\n") else "\n"
    lines = text.split(line_end)
    last = lines.pop() if lines and not lines[-1] else None
    at = 0
    found: list[tuple[int, Hunk]] = []
    for hunk in change.hunks:
        if hunk.header:
            at = _find(lines, [hunk.header], at) + 1
            if at == 0:
                raise PathRefused(f"{change.path} has no line {hunk.header[:200]!r} there.")
        while hunk.lines[-1:] == [(" ", "")] and _find(lines, hunk.old, at) < 0:
            hunk.lines.pop()  # an empty line between two hunks
        old = hunk.old
        start = (at if hunk.header else len(lines)) if not old else _find(lines, old, at, at_end=hunk.at_end)
        if start < 0:
            near = near_miss(text, "\n".join(old))
            raise PathRefused(
                f"Nothing was changed: these lines aren't in {change.path}, or not in this order:\n"
                + "\n".join(old)[:2_000]
                + f"\n{near}"
            )
        found.append((start, hunk))
        at = start + len(old)
    for start, hunk in reversed(found):
        lines[start : start + len(hunk.old)] = _replaced(lines[start:], hunk)
    return line_end.join([*lines, *([] if last is None and lines and text else [""])])


def _replaced(here: list[str], hunk: Hunk) -> Iterator[str]:
    """Yield the lines in place of the hunk's; unchanged ones stay as they are in the file."""
    at = 0
    for mark, line in hunk.lines:
        if mark != "+":
            if mark == " ":
                yield here[at]
            at += 1
        else:
            yield line


def _find(lines: list[str], wanted: list[str], first: int, *, at_end: bool = False) -> int:
    """Return where the lines are, from `first` on; -1 if nowhere. Spaces at their ends don't count."""
    for plain in (str, str.rstrip, str.strip):
        sought = [plain(line) for line in wanted]
        starts = range(first, len(lines) - len(wanted) + 1)
        for start in reversed(starts) if at_end else starts:
            if [plain(line) for line in lines[start : start + len(wanted)]] == sought:
                return start
    return -1


def _planned(opened: Workspace, change: PatchedFile) -> _Step:
    """The change of the file as it is now; raises PathRefused if it doesn't fit."""
    if change.kind == "add":
        _insist_on_free(opened, change.path)
        lines = [line for hunk in change.hunks for _, line in hunk.lines]
        return _Step(change, after="".join(f"{line}\n" for line in lines))
    if change.move_to:
        _insist_on_free(opened, change.move_to)
    with opened.spot(change.path) as spot:
        before, was = read_whole(spot)
        inside = spot.inside
    if change.kind == "delete":
        return _Step(change, before, was, inside=inside)
    try:
        after = patched(before.decode("utf-8"), change)
    except UnicodeDecodeError as error:
        raise PathRefused(f"{change.path} isn't UTF-8, so it can't be edited.") from error
    return _Step(change, before, was, after, inside)


def _insist_on_free(opened: Workspace, path: str) -> None:
    try:
        with opened.spot(path) as spot:
            is_there = spot.look() is not None
    except PathMissing:
        return
    if is_there:
        raise PathRefused(f"{path} already exists. Use *** Update File.")


def _diff(step: _Step) -> str:
    before = (step.before or b"").decode("utf-8", "replace")
    return unified_diff(step.change.move_to or step.change.path, before, after=step.after)


def _digest(args: Mapping[str, object], steps: list[_Step]) -> str:
    """Identifies the patch together with the bytes that it changes."""
    befores = ["" if step.before is None else sha256(step.before).hexdigest() for step in steps]
    return arguments_hash(APPLY_PATCH, {**args, "before": befores})
