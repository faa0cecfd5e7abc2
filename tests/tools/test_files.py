"""Reading, writing and editing files."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes.cancel import CancelAt
from holdfast.interfaces.tool import ToolResult
from holdfast.tools.arguments import BadArguments
from holdfast.tools.files.contents import FILES_MAX, SESSIONS_MAX, WHOLE_BYTES_MAX, FilesSeen, Stamp
from holdfast.tools.files.edits import DIFF_CHARS_MAX, NOTHING, EditFile, WriteFile, near_miss, unified_diff
from holdfast.tools.files.read_file import ReadFile
from holdfast.values import ImagePart
from tools.calls import Call, descriptors, until
from tools.loops import ON_BOTH_LOOPS


async def read(call: Call, path: str = "file", **more: object) -> ToolResult:
    return await ReadFile(FilesSeen()).run({"path": path, **more}, call)


async def edit(call: Call, old: str, new: str, *, replace_all: bool = False) -> ToolResult:
    args = {"path": "file", "old_text": old, "new_text": new, "replace_all": replace_all}
    return await EditFile(FilesSeen()).run(args, call)


async def test_lines_are_read(call: Call) -> None:
    rows: list[tuple[bytes, dict[str, Any], str]] = [
        (b"one\ntwo\n", {}, "     1\tone\n     2\ttwo"),
        (b"one\r\ntwo", {"numbered": False}, "one\ntwo"),
        (b"", {}, "(empty)"),
        (b"\n\nx", {"numbered": False}, "\n\nx"),
        (
            b"a\nb\nc\nd\n",
            {"first_line": 2, "lines": 2, "numbered": False},
            "b\nc\n[lines 2 to 3 of 4; continue with first_line=4]",
        ),
        (b"a\nb\n", {"first_line": 2, "numbered": False}, "b\n[lines 2 to 2 of 2]"),
        (b"a\nb\n", {"first_line": 5}, "(no line 5: the file has 2 lines)"),
        (b"caf\xe9\n", {"numbered": False}, "caf\ufffd"),
        ("äöü€\n".encode(), {"numbered": False}, "äöü€"),
        (b"x" * 3000, {"numbered": False}, "x" * 2000 + " [… 1,000 more characters on this line]"),
    ]
    for data, args, text in rows:
        (call.workspace / "file").write_bytes(data)
        assert await read(call, **args) == ToolResult(text), (data, args)


async def test_a_long_file_is_read_piece_by_piece(call: Call) -> None:
    (call.workspace / "file").write_text("".join(f"line {number}\n" for number in range(1, 20_001)))
    seen: list[str] = []
    first = 1
    while True:
        result = await read(call, first_line=first, lines=10_000, numbered=False)
        *lines, note = result.text.splitlines()
        assert len(result.text) < 51_000
        seen += lines
        if "continue with" not in note:
            break
        first = int(note.partition("first_line=")[2].rstrip("]"))
    assert seen == [f"line {number}" for number in range(1, 20_001)]


async def test_a_huge_file_is_read_without_reading_it_whole(call: Call) -> None:
    path = call.workspace / "file"
    with path.open("wb") as file:
        file.write(b"first\nsecond\n")
        for _ in range(18):
            file.write(b"x" * (1024 * 1024 - 1) + b"\n")
        file.write(b"last\n")
    assert path.stat().st_size > WHOLE_BYTES_MAX
    assert (
        await read(call, lines=2)
    ).text == "     1\tfirst\n     2\tsecond\n[lines 1 to 2; continue with first_line=3]"
    assert "    21\tlast" in (await read(call, first_line=21)).text
    for beyond in (22, 10**15, 10**30):
        assert (await read(call, first_line=beyond)).text == f"(no line {beyond:,}: the file ends before)"
    assert not (await edit(call, "first", "x")).ok


async def test_what_is_no_text_is_said_to_be_none(call: Call) -> None:
    (call.workspace / "file").write_bytes(b"\x7fELF\x02\x01\x01\0\0\0")
    result = await read(call)
    assert not result.ok
    assert (
        result.text
        == "file is a binary file, not text; it begins with the bytes 7f 45 4c 46 02 01 01 00 00 00."
    )


async def test_an_image_is_shown_as_one(call: Call) -> None:
    data = b"\x89PNG\r\n\x1a\n" + bytes(100)
    (call.workspace / "picture.png").write_bytes(data)
    result = await read(call, "picture.png")
    assert result.ok
    (part,) = result.parts
    assert isinstance(part, ImagePart)
    assert (part.media_type, part.name) == ("image/png", "picture.png")
    assert await call.blobs.blob(part.blob) == data
    (call.workspace / "picture.png").write_bytes(data + bytes(6_000_000))
    assert "too large to show" in (await read(call, "picture.png")).text


async def test_a_file_is_made_with_its_folders_and_replaced_in_one_step(call: Call) -> None:
    tool = WriteFile(FilesSeen())
    assert (await tool.run({"path": "a/b/file", "content": "täxt"}, call)).text == "Wrote a/b/file: 5 bytes."
    path = call.workspace / "a" / "b" / "file"
    path.chmod(0o750)
    inode = path.stat().st_ino
    assert (await tool.run({"path": "a/b/file", "content": "new"}, call)).ok
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o750
    assert path.stat().st_ino != inode
    assert [one.name for one in path.parent.iterdir()] == ["file"]
    assert not (await tool.run({"path": "a/b/file", "content": "\ud800"}, call)).ok
    assert path.read_text() == "new"
    assert (await tool.run({"path": "🙂" * 63, "content": "as long as a name can be"}, call)).ok


async def test_one_exact_text_is_replaced(call: Call) -> None:
    path = call.workspace / "file"
    for data, old, new, after in (
        (b"one two\n", "two", "2", b"one 2\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"mixed\r\nends\n", "ends", "end", b"mixed\r\nend\n"),
        (b"\xef\xbb\xbfbom\n", "bom", "x", b"\xef\xbb\xbfx\n"),
        (b"no end", "end", "END", b"no END"),
        (b"gone", "gone", "", b""),
    ):
        path.write_bytes(data)
        assert await edit(call, old, new) == ToolResult("Edited file: replaced 1 place."), data
        assert path.read_bytes() == after


async def test_several_edits_are_made_in_order_or_not_at_all(call: Call) -> None:
    file = call.workspace / "file"
    file.write_text("one\ntwo\ntwo\n")
    edits = [
        {"old_text": "one", "new_text": "zero"},
        {"old_text": "two", "new_text": "2", "replace_all": True},
        {"old_text": "zero\n2", "new_text": "0\n2"},
    ]
    result = await EditFile(FilesSeen()).run({"path": "file", "edits": edits}, call)
    assert result == ToolResult("Edited file: replaced 4 places.")
    assert file.read_text() == "0\n2\n2\n"
    edits = [{"old_text": "0", "new_text": "1"}, {"old_text": "three", "new_text": ""}]
    result = await EditFile(FilesSeen()).run({"path": "file", "edits": edits}, call)
    assert not result.ok
    assert result.text.startswith("Nothing was changed, because of edit 2. The old text isn't in file.")
    assert file.read_text() == "0\n2\n2\n"


@pytest.mark.parametrize(
    "args",
    [{}, {"old_text": "a"}, {"edits": []}, {"edits": [{"old_text": "", "new_text": "b"}]}],
    ids=str,
)
async def test_an_edit_without_its_texts_is_refused(call: Call, args: dict[str, Any]) -> None:
    """P12."""
    with pytest.raises(BadArguments, match="Expected: path"):
        await EditFile(FilesSeen()).run({"path": "file", **args}, call)


def test_a_near_miss_is_shown_as_it_is() -> None:
    text = "def a():\n    return 1\n\ndef b(x):\n\treturn x + 1\n"
    last = "lines 4 to 5:\ndef b(x):\n\treturn x + 1"
    spaces = "It's there with other spaces or indentation, at"
    rows = {
        "def b(x):\n    return x + 1": f"{spaces} {last}",
        "    return  1": f"{spaces} line 2:\n    return 1",
        "def c(x):\n    return x + 2": f"This is the closest text, at {last}",
        "import something": NOTHING,
        " \n": NOTHING,
    }
    assert {old: near_miss(text, old) for old in rows} == rows


async def test_an_edit_that_is_not_clear_changes_nothing(call: Call) -> None:
    path = call.workspace / "file"
    for data, old, new, why in (
        (b"a a\na\n", "a", "b", "3 times (lines 1, 1, 2)"),
        (b"abc", "x", "y", "isn't in file"),
        (b"abc", "a", "a", "the same as the old text"),
        (b"caf\xe9 a", "a", "b", "isn't UTF-8 (byte 3)"),
    ):
        path.write_bytes(data)
        result = await edit(call, old, new)
        assert not result.ok, data
        assert why in result.text
        assert path.read_bytes() == data


async def test_all_places_are_replaced_when_asked_for(call: Call) -> None:
    (call.workspace / "file").write_text("a a\na\n")
    assert (await edit(call, "a", "b", replace_all=True)).text == "Edited file: replaced 3 places."
    assert (call.workspace / "file").read_text() == "b b\nb\n"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(call: Call) -> None:
    seen = FilesSeen()
    path = call.workspace / "file"
    path.write_text("one")
    editing = {"path": "file", "old_text": "one", "new_text": "two"}
    writing = {"path": "file", "content": "three"}
    await ReadFile(seen).run({"path": "file"}, call)
    path.write_text("one, by another")
    for tool, args in ((EditFile(seen), editing), (WriteFile(seen), writing)):
        result = await tool.run(args, call)
        assert not result.ok
        assert "has changed since it was last read" in result.text
    other = Call(workspace=call.workspace, session_id="session-2")
    assert (await EditFile(seen).run(editing, other)).ok
    await ReadFile(seen).run({"path": "file"}, call)
    assert (await WriteFile(seen).run(writing, call)).ok
    assert (await EditFile(seen).run({**editing, "old_text": "three"}, call)).ok
    path.touch()
    assert (await EditFile(seen).run({**editing, "old_text": "two", "new_text": "four"}, call)).ok


def test_what_is_remembered_of_reads_is_bounded() -> None:
    seen = FilesSeen()
    stamp = Stamp(1, 1, "")
    for number in range(FILES_MAX + 1):
        seen.note("session", str(number), stamp=stamp)
    assert seen.last("session", "0") is None
    assert seen.last("session", "1") == stamp
    for number in range(SESSIONS_MAX):
        seen.note(str(number), "x", stamp=stamp)
    assert seen.last("session", "1") is None


def test_a_person_sees_the_change_before_it_is_made(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one\ntwo\nthree\n")
    action = EditFile(FilesSeen()).action(
        {"path": "file", "old_text": "two", "new_text": "2"}, workspace=tmp_path
    )
    assert action.diff == "--- a/file\n+++ b/file\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert action.paths == (str(path),)
    assert path.read_text() == "one\ntwo\nthree\n"
    making = WriteFile(FilesSeen()).action({"path": "new/file", "content": "x"}, workspace=tmp_path)
    assert making.diff == "--- a/new/file\n+++ b/new/file\n@@ -0,0 +1 @@\n+x\n\\ No newline at end of file\n"
    assert not (tmp_path / "new").exists()
    for path_out in ("../file", "/etc/passwd"):
        refused = WriteFile(FilesSeen()).action({"path": path_out, "content": "x"}, workspace=tmp_path)
        assert "would currently be refused" in refused.summary
        assert refused.diff == ""


def test_a_small_change_of_a_long_file_is_shown() -> None:
    before = [f"line {number}\n" for number in range(5_000)]
    after = [*before[:7], "line 7; evil\n", *before[8:]]
    shown = unified_diff("file", "".join(before), after="".join(after))
    assert "\n@@ -5,7 +5,7 @@\n" in shown
    assert "\n-line 7\n+line 7; evil\n" in shown
    shown = unified_diff("file", "".join(before), after="".join([*before, "x"]))
    assert shown.endswith(" line 4999\n+x\n\\ No newline at end of file\n")
    assert "\n@@ -4998,3 +4998,4 @@\n" in shown


@given(*[st.lists(st.sampled_from("abc"), max_size=30)] * 4)
def test_a_diff_is_that_of_the_whole_texts(
    first: list[str], old: list[str], new: list[str], last: list[str]
) -> None:
    before, after = ("".join(f"{one}\n" for one in [*first, *mid, *last]) for mid in (old, new))
    shown = unified_diff("file", before, after=after).splitlines()[2:]
    rebuilt, at = list[str](), 0
    for line in shown:
        if found := re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line):
            start = int(found[1]) - (found[2] != "0")
            rebuilt += before.splitlines()[at:start]
            at = start
            assert len(rebuilt) == int(found[3]) - (found[4] != "0")
        else:
            assert line[0] == "+" or before.splitlines()[at] == line[1:]
            rebuilt += [line[1:]] if line[0] != "-" else []
            at += line[0] != "+"
    assert [*rebuilt, *before.splitlines()[at:]] == after.splitlines()


def test_a_diff_is_bounded() -> None:
    before = "".join(f"{number}\n" for number in range(10_000))
    shown = unified_diff("file", before, after="0\nx\n" + before * 2)
    assert shown.splitlines()[2] == "[too large to compare: 10,000 lines become 20,002]"
    assert len(unified_diff("file", "", after=before * 10)) < DIFF_CHARS_MAX + 100


@ON_BOTH_LOOPS
async def test_cancelled_at_any_await_a_write_happens_whole_or_not_at_all(call: Call) -> None:
    path = call.workspace / "file"
    tool = WriteFile(FilesSeen())
    before = await asyncio.to_thread(descriptors)
    nth = 0
    while True:
        nth += 1
        path.write_text("old")
        attempt = CancelAt(tool.run({"path": "file", "content": "new"}, call), nth)
        task = await attempt.in_own_task()
        assert path.read_text() in {"old", "new"}
        assert [one.name for one in call.workspace.iterdir()] == ["file"]
        if not attempt.reached:
            assert task.result().ok
            break
    await until(lambda: descriptors() <= before)
