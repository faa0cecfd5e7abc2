"""Attached files in the workspace: whole, under a safe name, and over nothing that is there."""

import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from holdfast.agent.attachments import SAME_NAME_MAX, save_attachment
from holdfast.tools.files.workspace import PathRefused, Workspace

DATA = b"PK\x03\x04\0\xff"
DIGEST = sha256(DATA).hexdigest()[:8]


def test_an_attachment_is_saved_under_its_name_and_kept_out_of_git(tmp_path: Path) -> None:
    path = save_attachment(Workspace(tmp_path), "Sales report 2026.xlsx", DATA)
    assert path == f"attachments/Sales_report_2026-{DIGEST}.xlsx"
    assert (tmp_path / path).read_bytes() == DATA
    assert (tmp_path / "attachments/.gitignore").read_text() == "*\n"


def test_the_same_file_is_saved_once_and_a_changed_one_is_left_as_it_is(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    first = save_attachment(workspace, "a.bin", DATA)
    assert save_attachment(workspace, "a.bin", DATA) == first
    (tmp_path / first).write_bytes(b"changed by hand")
    second = save_attachment(workspace, "a.bin", DATA)
    assert (tmp_path / first).read_bytes() == b"changed by hand"
    assert (second, (tmp_path / second).read_bytes()) == (f"attachments/a-{DIGEST}-2.bin", DATA)


def test_a_folder_full_of_changed_files_of_one_name_is_refused(tmp_path: Path) -> None:
    for _ in range(SAME_NAME_MAX):
        (tmp_path / save_attachment(Workspace(tmp_path), "a.bin", DATA)).write_bytes(b"changed")
    with pytest.raises(PathRefused, match="100 other files of this name"):
        save_attachment(Workspace(tmp_path), "a.bin", DATA)


def test_a_hostile_name_becomes_one_harmless_name_in_the_folder(tmp_path: Path) -> None:
    """P11: no name leads out of the folder, starts something, or can't be typed."""
    names = [
        ("../../etc/cron.d/job", f"job-{DIGEST}"),
        ("..\\..\\autorun.inf", f"autorun-{DIGEST}.inf"),
        ("/etc/passwd", f"passwd-{DIGEST}"),
        (".bashrc", f"bashrc-{DIGEST}"),
        ("AGENTS.md", f"AGENTS-{DIGEST}.md"),
        ("a\nb\x1b[2J\0.txt", f"a_b__2J-{DIGEST}.txt"),
        ("$(rm -rf ~);`x`.sh", f"rm_-rf_____x-{DIGEST}.sh"),
        ("invoice\u202efdp.exe", f"invoice_fdp-{DIGEST}.exe"),
        ("报告 नमस्ते.pdf", f"报告_नमस्ते-{DIGEST}.pdf"),
        ("x" * 500 + ".tar", f"{'x' * 60}-{DIGEST}.tar"),
        ("\ud800", f"file-{DIGEST}"),
        ("", f"file-{DIGEST}"),
        ("...", f"file-{DIGEST}"),
        ("-rf", f"rf-{DIGEST}"),
    ]
    for number, (name, safe) in enumerate(names):
        root = tmp_path / str(number)
        root.mkdir()
        assert save_attachment(Workspace(root), name, DATA) == f"attachments/{safe}", repr(name)
        files = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
        assert files == {f"{number}/attachments/.gitignore", f"{number}/attachments/{safe}"}, repr(name)
        shutil.rmtree(root)


@pytest.mark.parametrize("where", ["outside", "inside", "dangling"])
def test_a_folder_that_is_a_link_is_refused_and_nothing_is_written(tmp_path: Path, where: str) -> None:
    """P11: not even to another place in the workspace."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, root / "inside", outside):
        folder.mkdir()
    (root / "attachments").symlink_to({"outside": outside, "inside": "inside", "dangling": "gone"}[where])
    with pytest.raises(PathRefused):
        save_attachment(Workspace(root), "a.bin", DATA)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not (root / "gone").exists()


def test_a_file_that_is_a_link_is_not_written_through(tmp_path: Path) -> None:
    """P11: what the link leads to stays as it is."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / "attachments").mkdir()
    (tmp_path / f"attachments/a-{DIGEST}.bin").symlink_to(victim)
    with pytest.raises(PathRefused, match="is a link"):
        save_attachment(Workspace(tmp_path), "a.bin", DATA)
    assert victim.read_bytes() == b"mine"


def test_a_workspace_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """P12: nothing is left behind."""
    (tmp_path / "attachments").write_bytes(b"a file, not a folder")
    with pytest.raises(PathRefused, match="isn't a folder"):
        save_attachment(Workspace(tmp_path), "a.bin", DATA)
    assert [path.name for path in tmp_path.iterdir()] == ["attachments"]
