"""What the sandbox took away can be seen, brought back and deleted, and nothing is lost on the way."""

import os
from pathlib import Path

import pytest

from holdfast.sandbox.protected_paths import ProtectedPaths
from holdfast.sandbox.quarantine import NotInQuarantine, Quarantine


def _taken(folder: Path, name: str, *, before: str | None, after: str) -> Quarantine:
    """A quarantine with one file that a command changed."""
    workspace, quarantine = folder / "work", Quarantine(folder / "quarantine")
    workspace.mkdir()
    if before is not None:
        (workspace / name).write_text(before)
    protected = ProtectedPaths(quarantine)
    watch = protected.begin(workspace)
    (workspace / name).write_text(after)
    (change,) = protected.end(watch).changes
    assert "holdfast quarantine restore" in change.sentence()
    return quarantine


def test_a_restored_file_changes_places_with_the_earlier_version(tmp_path: Path) -> None:
    quarantine = _taken(tmp_path, "AGENTS.md", before="mine", after="theirs")
    place = tmp_path / "work" / "AGENTS.md"
    assert place.read_text() == "mine"
    (file,) = quarantine.files()
    assert (file.path, Path(file.kept).read_text()) == (str(place), "theirs")
    quarantine.restore(file.id)
    assert place.read_text() == "theirs"
    assert [Path(each.kept).read_text() for each in quarantine.files()] == ["mine"]
    quarantine.restore(file.id)
    assert place.read_text() == "mine"


def test_a_new_file_goes_back_and_leaves_the_quarantine_empty(tmp_path: Path) -> None:
    quarantine = _taken(tmp_path, ".envrc", before=None, after="new")
    assert not (tmp_path / "work" / ".envrc").exists()
    quarantine.restore(quarantine.files()[0].id)
    assert (tmp_path / "work" / ".envrc").read_text() == "new"
    assert list((tmp_path / "quarantine").iterdir()) == []


def test_a_file_is_not_restored_through_a_link(tmp_path: Path) -> None:
    quarantine = _taken(tmp_path, ".envrc", before=None, after="new")
    (tmp_path / "work").rename(tmp_path / "moved")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "work").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotInQuarantine, match="leads elsewhere"):
        quarantine.restore(quarantine.files()[0].id)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_dropped_file_is_gone_and_an_unknown_id_is_refused(tmp_path: Path) -> None:
    quarantine = _taken(tmp_path, ".envrc", before=None, after="new")
    (file,) = quarantine.files()
    for wrong in ("../work", "", "x"):
        with pytest.raises(NotInQuarantine):
            quarantine.drop(wrong)
    quarantine.drop(file.id)
    assert quarantine.files() == ()
    assert (tmp_path / "work").exists()


def test_a_file_whose_name_is_not_text_is_taken_and_comes_back_too(tmp_path: Path) -> None:
    """P13: a name that isn't UTF-8 is no way around it."""
    name = os.fsdecode(b"x\xff.code-workspace")
    quarantine = _taken(tmp_path, name, before=None, after="theirs")
    assert not (tmp_path / "work" / name).exists()
    (file,) = quarantine.files()
    assert file.path == str(tmp_path / "work" / name)
    quarantine.restore(file.id)
    assert (tmp_path / "work" / name).read_text() == "theirs"
    assert quarantine.files() == ()
