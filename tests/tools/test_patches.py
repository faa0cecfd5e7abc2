"""The tool apply_patch: what a patch does to files, and which patches are refused."""

import asyncio
from collections.abc import Mapping
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.targets import Target, patching
from holdfast.tools.files.contents import FilesSeen
from holdfast.tools.files.patches import ApplyPatch, parsed_patch, patched
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.workspace import PathRefused
from holdfast.values import Action
from tables import for_each_row
from tools.calls import Call

LINES = st.lists(st.sampled_from(["a", "b", "  b", "", "def f():", "*** x", "@@"]), max_size=8)


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def applied(call: Call, *lines: str, approved: str = "") -> str:
    call.approved = approved
    result = await ApplyPatch(FilesSeen()).run({"input": patch(*lines)}, call)
    return f"{'ok' if result.ok else 'no'}: {result.text}"


async def judged(tool: ApplyPatch, args: Mapping[str, object], call: Call) -> Action:
    return await asyncio.to_thread(tool.action, args, workspace=call.workspace)


def files_in(folder: Path) -> dict[str, str]:
    return {str(one.relative_to(folder)): one.read_text() for one in folder.rglob("*") if one.is_file()}


async def test_a_patch_adds_changes_moves_and_deletes_files(call: Call) -> None:
    work = call.workspace
    (work / "a.py").write_text("import os\n\ndef f():\n    x = 1\n\ndef g():\n    x = 1\n    return x\n")
    (work / "old.txt").write_bytes(b"one\r\ntwo\r\n")
    (work / "gone.txt").write_text("bye\n")
    (work / "run.sh").write_text("echo 1")
    (work / "run.sh").chmod(0o755)
    lines = (
        *("*** Update File: a.py", "@@", " import os", "+import sys", "", "@@ def g():", "-    x = 1"),
        *("+    x = 2", "     return x  ", "*** End of File"),
        *("*** Update File: old.txt", "*** Move to: deep/new.txt", "@@", "-two", "+2", "+3"),
        *("*** Delete File: gone.txt", "*** Add File: made/b.txt", "+hello", "+"),
        *("*** Update File: run.sh", "-echo 1", "+echo 2"),
    )
    tool = ApplyPatch(FilesSeen())
    action = await judged(tool, {"input": patch(*lines)}, call)
    assert action.paths == tuple(
        str(work / name) for name in ("a.py", "old.txt", "deep/new.txt", "gone.txt", "made/b.txt", "run.sh")
    )
    assert "-    x = 1\n+    x = 2" in action.diff
    assert "move old.txt to deep/new.txt, delete gone.txt, add made/b.txt" in action.summary
    call.judged_paths = action.paths
    assert (await applied(call, *lines, approved=action.digest)).startswith("ok: Done: update a.py, move old")
    assert files_in(work) == {
        "a.py": "import os\nimport sys\n\ndef f():\n    x = 1\n\ndef g():\n    x = 2\n    return x\n",
        "deep/new.txt": "one\n2\n3\n",  # read as text; its line ends are looked at below
        "made/b.txt": "hello\n\n",
        "run.sh": "echo 2",
    }
    assert (work / "deep/new.txt").read_bytes() == b"one\r\n2\r\n3\r\n"
    assert (work / "run.sh").stat().st_mode & 0o777 == 0o755


@for_each_row(
    "lines, why",
    [
        (("*** Update File: a", "@@", "-two", "+2", "*** Delete File: none"), "none doesn't exist"),
        (("*** Update File: a", "@@", " one", "-three"), "these lines aren't in a, or not in this order"),
        (("*** Update File: a", "@@ class X", "-two"), "a has no line 'class X' there"),
        (("*** Add File: a", "+x"), "a already exists. Use *** Update File"),
        (("*** Update File: b", "*** Move to: a", "-b", "+c"), "a already exists"),
        (("*** Add File: ../x", "+x"), "outside the workspace"),
        (("*** Delete File: a", "*** Update File: a", "-one"), "each once"),
        (("*** Update File: a", "two"), "Line 3 of the patch isn't valid: 'two'"),
        (("*** Frobnicate File: a",), "Line 2 of the patch isn't valid"),
        ((), "A patch changes 1 to 100 files"),
    ],
)
async def test_a_patch_that_does_not_fit_changes_nothing(
    lines: tuple[str, ...], why: str, call: Call
) -> None:
    """P12, P13: the error names what doesn't fit."""
    (call.workspace / "a").write_text("one\ntwo\n")
    (call.workspace / "b").write_text("b\n")
    before = files_in(call.workspace)
    said = await applied(call, *lines)
    assert said.startswith("no: ")
    assert why in said
    assert files_in(call.workspace) == before
    # people are shown a request for it anyway
    assert (await judged(ApplyPatch(FilesSeen()), {"input": patch(*lines)}, call)).summary


async def test_only_what_was_approved_and_seen_is_changed(call: Call) -> None:
    """P8: neither a file that changed since it was read nor one that changed since the approval."""
    file, seen = call.workspace / "a", FilesSeen()
    args = {"input": patch("*** Update File: a", "-one", "+1")}
    file.write_text("one\n")
    await ReadFile(seen).run({"path": "a"}, call)
    file.write_text("one\nmore\n")
    tool = ApplyPatch(seen)
    assert "has changed since it was last read" in (await tool.run(args, call)).text
    await ReadFile(seen).run({"path": "a"}, call)
    call.approved = (await judged(tool, args, call)).digest
    file.write_text("one\nmore still\n")
    await ReadFile(seen).run({"path": "a"}, call)
    assert "changed since this was approved" in (await tool.run(args, call)).text
    assert file.read_text() == "one\nmore still\n"
    call.approved = (await judged(tool, args, call)).digest
    call.judged_paths = (str(call.workspace / "b"),)
    assert "not to the file that was approved" in (await tool.run(args, call)).text


@given(old=LINES, new=LINES)
def test_a_patch_of_the_whole_file_makes_the_other_file(old: list[str], new: list[str]) -> None:
    lines: list[str] = []
    for tag, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += [f" {line}" for line in old[first:last]]
        else:
            lines += [f"-{line}" for line in old[first:last]] + [f"+{line}" for line in new[begin:end]]
    (change,) = parsed_patch(patch("*** Update File: a", "@@", *lines))
    before, after = ("".join(f"{line}\n" for line in some) for some in (old, new))
    assert patched(before, change) == after


def test_text_around_the_patch_does_not_count() -> None:
    """Models wrap it in a command or a code block."""
    (change,) = parsed_patch(f"```\n{patch('*** Delete File: a')}\n```")
    assert (change.kind, change.path) == ("delete", "a")
    with pytest.raises(PathRefused, match="must begin with"):
        parsed_patch("*** Delete File: a")


def test_models_that_are_trained_on_patches_get_the_tool() -> None:
    models = (
        "claude-x",
        "gpt-5-codex",
        "openai/gpt-4.1-mini",
        "o4-mini",
        "o3xyz",
        "my-gpt-5x-like",
        "gpt-4o",
    )
    targets = [
        Target(name=f"t{nth}", wire="chat", base_url="https://a.example", model=model)
        for nth, model in enumerate(models)
    ]
    assert patching(targets) == {"t1", "t2", "t3", *models[1:4]}
    assert "" in patching(targets[1:])
    assert patching([]) == frozenset()
