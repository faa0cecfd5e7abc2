"""`holdfast diff`, `undo` and `redo` as people use them, with the real shell tool and a store on disk."""

import asyncio
from pathlib import Path

import pytest

from cli.lab import command, configured, executed
from holdfast.chaos import CallTool, ChaosServer, Say

SCRIPT = "printf 'changed\\n' > notes.txt; rm old.txt; mkdir -p made; printf 'x' > made/new.txt"
ALLOWED = '\n[approvals]\nmode = "workspace"\n'


@pytest.mark.long
async def test_what_a_command_of_the_agent_did_is_shown_undone_and_redone(tmp_path: Path) -> None:
    """P13: also without a server, and for what a program changed."""
    workspace = tmp_path / "ws"

    def prepare() -> None:
        workspace.mkdir()
        (workspace / "notes.txt").write_text("mine\n")
        (workspace / "old.txt").write_text("old\n")

    def names() -> list[str]:
        return sorted(str(path.relative_to(workspace)) for path in workspace.rglob("*"))

    await asyncio.to_thread(prepare)
    async with ChaosServer([CallTool("shell", {"command": SCRIPT})], [Say("done")]) as chaos:
        await asyncio.to_thread(configured, tmp_path, chaos.base_url, more=ALLOWED)
        ran = await command(tmp_path, "run", "go", "--workspace", str(workspace))
        assert (ran.code, ran.out) == (0, "done\n"), ran.err
    shown = await command(tmp_path, "diff", start=executed)
    assert "-mine\n+changed\n" in shown.out, shown
    assert "created  made/new.txt" in shown.out
    asked = await command(tmp_path, "undo", "--dry-run")
    assert asked.out.splitlines() == [
        "removed   run 1: go",
        "deleted   made/new.txt",
        "restored  notes.txt",
        "recreated old.txt",
    ]
    undone = await command(tmp_path, "undo")
    assert (undone.code, undone.out) == (0, "Restored 3 files to their state before the run.\n"), undone.err
    assert await asyncio.to_thread(names) == ["notes.txt", "old.txt"]
    redone = await command(tmp_path, "redo")
    assert (redone.code, redone.out) == (0, "Redone: 3 files and 1 run restored.\n")
    assert await asyncio.to_thread(names) == ["made", "made/new.txt", "notes.txt"]
    await asyncio.to_thread((workspace / "notes.txt").write_text, "mine again")
    refused = await command(tmp_path, "undo")
    assert refused.code == 1
    assert "notes.txt (changed since)" in refused.err
