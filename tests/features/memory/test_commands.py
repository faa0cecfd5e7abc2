"""`holdfast memory` and `holdfast skills`, with the server that a command starts for itself."""

import asyncio
from pathlib import Path

import pytest

from cli.lab import command, configured, executed
from holdfast.cli.ids import AmbiguousName, resolve_id, short_id
from holdfast.features.memory.memories import Memories, MemoryEdit, user_scope
from holdfast.features.memory.state import DOCUMENT
from holdfast.features.skills.actions import trust
from holdfast.features.skills.folders import skill_file
from holdfast.interfaces.system_clock import SystemClock
from stores import SqliteStore

FIRST, SECOND = f"run_{'a1' * 16}/call_1", f"run_{'a1' * 16}/call_2"
NOWHERE = "http://127.0.0.1:9/v1"


async def _propose(data: Path) -> None:
    await asyncio.to_thread(data.mkdir)
    store = await SqliteStore.open(data / "holdfast.db")
    for change_id, text in ((FIRST, "likes tea"), (SECOND, "likes cake")):
        edit = MemoryEdit(change_id=change_id, document=DOCUMENT, new=text)
        await Memories(store, SystemClock()).propose(user_scope("first"), edit, because=())
    await store.close()


async def test_a_proposal_is_accepted_by_the_beginning_of_its_id_that_is_shown(tmp_path: Path) -> None:
    await asyncio.to_thread(configured, tmp_path, NOWHERE)
    await _propose(tmp_path / "data")
    lines = (await command(tmp_path, "memory", "show", start=executed)).out.splitlines()
    shown = [line.split()[1].rstrip(":") for line in lines if "proposed" in line]
    assert shown == [short_id(one, [FIRST, SECOND]) for one in (FIRST, SECOND)]
    refused = await command(tmp_path, "memory", "accept", FIRST[:8])
    assert (refused.code, "matches 2 proposals; type more of the id" in refused.err) == (1, True)
    assert (await command(tmp_path, "memory", "accept", shown[1])).out == "Accepted: likes cake\n"
    elsewhere = await command(tmp_path, "memory", "show", "--workspace", str(tmp_path))
    assert (elsewhere.code, "likes" in elsewhere.out) == (0, False)
    said = (await command(tmp_path, "memory", "show")).out
    assert "About you\n\nlikes cake" in said
    assert f"proposed {FIRST[:8]}: likes tea" in said


def test_an_id_of_a_few_letters_or_of_nothing_is_refused() -> None:
    ids = ["abcdefghijk", "abcdefgxyz"]
    assert [short_id(one, ids) for one in ids] == ["abcdefgh", "abcdefgx"]
    assert resolve_id("abcdefgx", ids, kind="rule") == "abcdefgxyz"
    for word in ("abc", "", "nothing"):
        with pytest.raises(AmbiguousName, match="no rule has the id"):
            resolve_id(word, ids, kind="rule")


async def test_skills_that_were_trusted_here_are_listed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    await asyncio.to_thread(configured, tmp_path, NOWHERE)
    for place, name in ((".agents/skills", "notes"), ("elsewhere", "stray")):
        folder = tmp_path / place / name
        await asyncio.to_thread(folder.mkdir, parents=True)
        text = skill_file(name, "Take notes.", "Steps.")
        await asyncio.to_thread((folder / "SKILL.md").write_text, text)
    assert "workspace, not trusted" in (await command(tmp_path, "skills", "list")).out
    assert await asyncio.to_thread(trust, tmp_path) == 0
    assert "stray isn't used: a workspace's skills must be in .agents/skills" in capsys.readouterr().err
    rows = (await command(tmp_path, "skills", "list")).out.splitlines()
    assert [row.split() for row in rows[1:]] == [["notes", "workspace", "Take", "notes."]]
