"""Where git stands is read without git, and the way back that people are told is the right one."""

import os
import subprocess
from pathlib import Path

import pytest

from holdfast.features.undo.git_heads import GitHead, GitMove, read_head

IDENTITY = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "init.defaultBranch=main")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *IDENTITY, *words],
        cwd=folder,
        env={"PATH": os.defpath, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(folder: Path, text: str) -> str:
    (folder / "file").write_text(text)
    git(folder, "add", "file")
    git(folder, "commit", "-qm", text)
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    return tmp_path


def test_a_branch_a_detached_head_packed_refs_and_a_worktree_are_read_as_git_reads_them(
    repository: Path,
) -> None:
    assert read_head(str(repository)) == GitHead("main", "")
    first = commit(repository, "1")
    assert read_head(str(repository)) == GitHead("main", first)
    git(repository, "switch", "-qc", "odd/$(name)")
    second = commit(repository, "2")
    git(repository, "pack-refs", "--all")
    assert not (repository / ".git/refs/heads/odd/$(name)").exists()
    assert read_head(str(repository)) == GitHead("odd/$(name)", second)
    git(repository, "worktree", "add", "-q", "tree", "main")
    assert read_head(str(repository / "tree")) == GitHead("main", first)
    git(repository, "checkout", "-q", "--detach", first)
    assert read_head(str(repository)) == GitHead("", first)
    assert read_head(str(repository / ".git")) == GitHead()


@pytest.mark.parametrize(
    "head",
    [
        "",
        "ref: refs/heads/../../secret",
        "ref: HEAD",
        "secret words",
        "ref: refs/heads/a b",
        "ref: /etc/passwd",
    ],
)
def test_a_repository_cannot_make_it_read_or_wait_for_anything_else(head: str, tmp_path: Path) -> None:
    """P11."""
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "secret").write_text("0" * 40)
    (tmp_path / ".git" / "HEAD").write_text(head)
    assert read_head(str(tmp_path)) == GitHead()
    (tmp_path / ".git" / "HEAD").unlink()
    os.mkfifo(tmp_path / ".git" / "HEAD")
    assert read_head(str(tmp_path)) == GitHead()


def test_the_way_back_takes_git_back_and_leaves_the_files_alone(repository: Path) -> None:
    first = commit(repository, "1")

    def moved_and_back(before: GitHead) -> None:
        (repository / "file").write_text("as an undo left it")
        move = GitMove(before, read_head(str(repository)))
        assert move.before != move.after
        subprocess.run(["sh", "-c", move.way_back], cwd=repository, check=True, capture_output=True)
        assert read_head(str(repository)) == before
        assert (repository / "file").read_text() == "as an undo left it"
        git(repository, "reset", "-q", "--hard")

    commit(repository, "2")
    moved_and_back(GitHead("main", first))
    git(repository, "switch", "-qc", "$(id>hit)")
    odd = GitHead("$(id>hit)", commit(repository, "3"))
    git(repository, "switch", "-q", "main")
    moved_and_back(odd)
    git(repository, "checkout", "-q", "--detach", first)
    git(repository, "switch", "-q", "main")
    commit(repository, "4")
    moved_and_back(GitHead("", first))
    assert not (repository / "hit").exists()


def test_a_first_commit_is_taken_back_too(repository: Path) -> None:
    before = read_head(str(repository))
    commit(repository, "1")
    move = GitMove(before, read_head(str(repository)))
    subprocess.run(["sh", "-c", move.way_back], cwd=repository, check=True)
    assert read_head(str(repository)) == before
