"""Changes files: a whole new text or exact replacements, never over changes the session has not seen.

A near miss: the part of a file that is most like a text that isn't in it, for an edit that failed.
"""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from itertools import islice, takewhile
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import APPLY_PATCH, EDIT_FILE, WRITE_FILE
from holdfast.tools.arguments import arguments_hash, parsed, spec_of
from holdfast.tools.files.contents import FilesSeen, Stamp, byte_count, read_whole, replace_whole
from holdfast.tools.files.workspace import PathMissing, PathRefused, Spot, Workspace, Workspaces
from holdfast.tools.offload import offload
from holdfast.values import Action

DIFF_CHARS_MAX = 64 * 1024
_DIFF_LINES_MAX = 2_000
NOT_COMPARED = "[too large to compare"  # in place of a change that is not shown
_DIFF_CONTEXT = 3
_PLACES_NAMED = 10
EDITS_MAX = 100


class WriteFileArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file to write."""

    path: Annotated[str, Meta(min_length=1)]
    content: str


class Edit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Text to replace."""

    old_text: Annotated[str, Meta(min_length=1, description="Exact, without line numbers.")]
    new_text: str
    replace_all: bool = False


class EditsArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The edits of a file, as they are declared."""

    path: Annotated[str, Meta(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Meta(min_length=1, max_length=EDITS_MAX)]


class EditFileArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The edits of a file; a single one can be given without the list, as in earlier versions."""

    path: Annotated[str, Meta(min_length=1)]
    edits: Annotated[tuple[Edit, ...], Meta(max_length=EDITS_MAX)] = ()
    old_text: str | None = None
    new_text: str | None = None
    replace_all: bool = False

    def __post_init__(self) -> None:
        if self.edits and (self.old_text is not None or self.new_text is not None):
            raise ValueError("give either `edits`, or `old_text` and `new_text`")
        if not self.edits and (not self.old_text or self.new_text is None):
            raise ValueError("missing `edits`")

    @property
    def all_edits(self) -> tuple[Edit, ...]:
        """The edits, in order."""
        return self.edits or (Edit(self.old_text or "", self.new_text or "", self.replace_all),)


class _ChangesFiles(Tool):
    """Changes a file that the model has seen as it is now."""

    traits = ToolTraits(patience_s=60.0, place="workspace")

    def __init__(self, seen: FilesSeen, *, workspaces: Workspaces = Workspace) -> None:
        self._seen = seen
        self._workspaces = workspaces


class WriteFile(_ChangesFiles):
    """Creates a file or replaces all of it."""

    args_type = WriteFileArgs
    spec = spec_of(
        WRITE_FILE,
        "Create a file with its folders, or replace its full text. To change a part, use edit_file.",
        args=WriteFileArgs,
    )

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Reads the file for the diff, so it blocks."""
        given = parsed(WriteFileArgs, args)
        opened = self._workspaces(workspace)
        preview = _previewed(opened, given.path, change=lambda _: _bytes(given.content))
        return _action(WRITE_FILE, f"write {given.path}", args=args, preview=preview, workspace=opened)

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(WriteFileArgs, args)

        def write() -> tuple[Stamp, str]:
            data = _bytes(given.content)
            with (
                self._workspaces(call.workspace)
                .bound_to(call.judged_paths)
                .spot_with_folders(given.path) as spot
            ):
                was = _seen_or_new(spot, self._seen.last(call.session_id, f"{call.workspace}/{spot.inside}"))
                if call.approved:
                    before, was = (b"", None) if was is None else read_whole(spot)
                    _insist_on_approved(spot, call.approved, _digest(WRITE_FILE, args, before))
                return replace_whole(spot, data, was=was), spot.inside

        try:
            stamp, inside = await offload(write)
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        self._seen.note(call.session_id, f"{call.workspace}/{inside}", stamp=stamp)
        return ToolResult(f"Wrote {inside}: {byte_count(stamp.bytes)}.")


class EditFile(_ChangesFiles):
    """Replaces exact texts in a file: all of them, or none."""

    args_type = EditFileArgs
    spec = spec_of(
        EDIT_FILE,
        "Replace exact texts in a file that you've read: all, or none if one fails. Each must occur once, "
        "unless you set replace_all.",
        args=EditsArgs,
    )

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        """Reads the file for the diff, so it blocks."""
        given = parsed(EditFileArgs, args)
        opened = self._workspaces(workspace)
        preview = _previewed(opened, given.path, change=lambda data: edited(data, given)[0].encode("utf-8"))
        return _action(EDIT_FILE, f"edit {given.path}", args=args, preview=preview, workspace=opened)

    def refusal(self, args: Mapping[str, object], *, workspace: Path, paths: tuple[str, ...]) -> str:
        """Why it doesn't fit the files as they are now; empty if it does. Blocks."""
        given = parsed(EditFileArgs, args)
        try:
            with self._workspaces(workspace).bound_to(paths).spot(given.path) as spot:
                edited(read_whole(spot)[0], given)
        except PathRefused as refused:
            return str(refused)
        return ""

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(EditFileArgs, args)

        def edit() -> tuple[Stamp, str, int]:
            with self._workspaces(call.workspace).bound_to(call.judged_paths).spot(given.path) as spot:
                data, now = read_whole(spot)
                insist_on_fresh(
                    spot.inside, now, seen=self._seen.last(call.session_id, f"{call.workspace}/{spot.inside}")
                )
                if call.approved:
                    _insist_on_approved(spot, call.approved, _digest(EDIT_FILE, args, data))
                text, places = edited(data, given)
                return replace_whole(spot, text.encode("utf-8"), was=now), spot.inside, places

        try:
            stamp, inside, places = await offload(edit)
        except PathRefused as refused:
            return ToolResult(str(refused), ok=False)
        self._seen.note(call.session_id, f"{call.workspace}/{inside}", stamp=stamp)
        return ToolResult(f"Edited {inside}: replaced {places} {'place' if places == 1 else 'places'}.")

    def patches(self) -> Tool:
        """The tool that applies patches, which knows the same files."""
        from holdfast.tools.files.patches import ApplyPatch  # for some models only

        return ApplyPatch(self._seen, workspaces=self._workspaces)


def edited(data: bytes, given: EditFileArgs) -> tuple[str, int]:
    """The text after the edits and the number of replacements; raises PathRefused with advice."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PathRefused(
            f"{given.path} isn't UTF-8 (byte {error.start:,}), so it can't be edited."
        ) from error
    places = 0
    for number, edit in enumerate(given.all_edits, 1):
        try:
            text, count = _replaced(text, edit, path=given.path)
        except PathRefused as refused:
            if len(given.all_edits) == 1:
                raise
            raise PathRefused(f"Nothing was changed, because of edit {number}. {refused}") from refused
        places += count
    return text, places


def _replaced(text: str, edit: Edit, *, path: str) -> tuple[str, int]:
    old, new = edit.old_text, edit.new_text
    if "\n" in text and text.count("\n") == text.count("\r\n"):
        # All its lines end with CRLF, but models write and were shown LF.
        old, new = _with_crlf(old), _with_crlf(new)
    if old == new:
        raise PathRefused("The new text is the same as the old text.")
    places = text.count(old)
    if places == 0:
        raise PathRefused(f"The old text isn't in {path}. It must match exactly.\n{near_miss(text, old)}")
    if places > 1 and not edit.replace_all:
        lines = ", ".join(map(str, _lines_with(text, old)))
        raise PathRefused(
            f"The old text is in {path} {places} times (lines {lines}). Include more surrounding text, "
            "or set replace_all."
        )
    return text.replace(old, new), places


def bytes_after_max(tool: str, args: Mapping[str, object], *, paths: Sequence[str]) -> int:
    """The most bytes that the file can have after the change. Blocks."""
    if tool == WRITE_FILE:
        return _encoded_bytes(parsed(WriteFileArgs, args).content)
    size = max((path.stat().st_size for path in map(Path, paths) if path.exists()), default=0)
    if tool == APPLY_PATCH:
        return size + _encoded_bytes(str(args.get("input", "")))
    given = parsed(EditFileArgs, args)
    for edit in given.all_edits:
        old, new = _encoded_bytes(edit.old_text), _encoded_bytes(_with_crlf(edit.new_text))
        places = max(1, size // old) if edit.replace_all else 1
        size += places * max(0, new - old)
    return size


def _encoded_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def unified_diff(path: str, before: str, *, after: str) -> str:
    """The change as a person reads it, bounded."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    was, now = len(old), len(new)
    # Common lines at both ends aren't compared, so a long file with one changed line still gets a diff.
    skipped = max(0, _lines_in_common(old, new) - _DIFF_CONTEXT)
    old, new = old[skipped:], new[skipped:]
    cut = max(0, _lines_in_common(old[::-1], new[::-1]) - _DIFF_CONTEXT)
    old, new = old[: len(old) - cut], new[: len(new) - cut]
    if len(old) + len(new) > 2 * _DIFF_LINES_MAX and before and after:
        return f"--- {path}\n+++ {path}\n{NOT_COMPARED}: {was:,} lines become {now:,}]\n"
    lines = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}", n=_DIFF_CONTEXT)
    lines = (_moved_down(line, skipped) if line.startswith("@@") else line for line in lines)
    text = "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )
    if len(text) <= DIFF_CHARS_MAX:
        return text
    return f"{text[:DIFF_CHARS_MAX]}\n[… {len(text) - DIFF_CHARS_MAX:,} more characters of this change]\n"


def _lines_in_common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many lines both begin with."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _moved_down(heading: str, lines: int) -> str:
    """The heading of a hunk (@@ -5,7 +5,7 @@), moved down by some lines."""
    return re.sub(r"([-+])(\d+)", lambda found: f"{found[1]}{int(found[2]) + lines}", heading)


class _Preview(Struct, frozen=True):
    """The effect of a change on the current file, even if it would be refused."""

    diff: str = ""
    problem: str = ""
    before: bytes | None = None  # what it replaces: a diff may be cut, or show bytes that are no text


def _previewed(workspace: Workspace, path: str, *, change: Callable[[bytes], bytes]) -> _Preview:
    before: bytes | None = None
    try:
        try:
            with workspace.spot(path) as spot:
                before = b"" if spot.look() is None else read_whole(spot)[0]
        except PathMissing:
            before = b""  # a new folder is made by the writing, not by asking for it
        after = change(before)
    except PathRefused as refused:
        first_line = str(refused).partition("\n")[0]
        return _Preview(problem=f" (it would currently be refused: {first_line})", before=before)
    decoded = [data.decode("utf-8", "replace") for data in (before, after)]
    diff = unified_diff(path, decoded[0], after=decoded[1])
    return _Preview(diff, before=before)


def _action(
    tool: str, summary: str, *, args: Mapping[str, object], preview: _Preview, workspace: Workspace
) -> Action:
    return Action(
        tool=tool,
        summary=summary + preview.problem,
        paths=(workspace.resolved(str(args["path"])),),
        diff=preview.diff,
        digest=_digest(tool, args, preview.before),
    )


def _digest(tool: str, args: Mapping[str, object], before: bytes | None) -> str:
    """Identifies the change together with the bytes that it replaces."""
    return arguments_hash(tool, {**args, "before": "" if before is None else sha256(before).hexdigest()})


def _insist_on_approved(spot: Spot, approved: str, digest: str) -> None:
    """Refuse to replace anything but what a person has seen and approved."""
    if approved != digest:
        raise PathRefused(
            f"{spot.inside} has changed since this was approved, so nothing was written. Read it again, "
            "then request the change again."
        )


def _seen_or_new(spot: Spot, seen: Stamp | None) -> Stamp | None:
    found = spot.look()
    if found is None:
        return None
    spot.insist_on_a_file(found)
    if seen is None:
        return Stamp(found.st_mtime_ns, found.st_size, "")
    _, now = read_whole(spot)
    insist_on_fresh(spot.inside, now, seen=seen)
    return now


def insist_on_fresh(path: str, now: Stamp, *, seen: Stamp | None) -> None:
    """Raise PathRefused if the file isn't as the session has last seen it."""
    if seen is not None and seen.differs(now):
        raise PathRefused(f"{path} has changed since it was last read. Read it again, then change it.")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise PathRefused(f"Character {error.start:,} of the text can't be encoded as UTF-8.") from error


def _with_crlf(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\n", "\r\n")


def _lines_with(text: str, old: str) -> list[int]:
    lines: list[int] = []
    place = text.find(old)
    while place >= 0 and len(lines) < _PLACES_NAMED:
        lines.append(text.count("\n", 0, place) + 1)
        place = text.find(old, place + len(old))
    return lines


LINES_MAX = 20_000  # of the file that are compared
LINE_CHARS_MAX = 300
SHOWN_LINES_MAX = 30
SIMILAR = 0.6
SPACES = "It's there with other spaces or indentation"
CLOSEST = "This is the closest text"
NOTHING = "Nothing in the file is similar. Read it again."


def near_miss(text: str, old: str) -> str:
    """Describe the closest part of the text, with its lines as they are."""
    lines, wanted = text.splitlines()[:LINES_MAX], old.splitlines()
    if not any(map(str.strip, wanted)):
        return NOTHING
    start, head = _but_for_spaces(lines, wanted), SPACES
    if start < 0:
        start, head = _similar(lines, wanted), CLOSEST
    if start < 0:
        return NOTHING
    shown = lines[start : start + min(len(wanted), SHOWN_LINES_MAX)]
    last = start + len(shown)
    where = f"at line {last}" if len(shown) == 1 else f"at lines {start + 1} to {last}"
    return "\n".join([f"{head}, {where}:", *(line[: 4 * LINE_CHARS_MAX] for line in shown)])


def _but_for_spaces(lines: list[str], wanted: list[str]) -> int:
    """Return where all lines are the same but for their spaces; -1 if nowhere."""
    plain, sought = [_plain(line) for line in lines], [_plain(line) for line in wanted]
    for start in range(len(plain) - len(sought) + 1):
        if plain[start] == sought[0] and plain[start : start + len(sought)] == sought:
            return start
    return -1


def _plain(line: str) -> str:
    return " ".join(line.split())


def _similar(lines: list[str], wanted: list[str]) -> int:
    """Return where the lines are most similar: around the one that is most like the longest wanted one."""
    anchor = max(range(len(wanted)), key=lambda n: len(wanted[n].strip()))
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted[anchor].strip()[:LINE_CHARS_MAX])
    best, found = SIMILAR, -1
    for number, line in enumerate(islice(lines, LINES_MAX)):
        matcher.set_seq1(line.strip()[:LINE_CHARS_MAX])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best and matcher.ratio() > best:
            best, found = matcher.ratio(), number
    return max(0, found - anchor) if found >= 0 else -1
