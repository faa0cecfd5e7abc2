"""Protected paths: whatever a command creates, changes, renames or removes there goes to quarantine."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.policy.autorun_files import is_protected
from holdfast.sandbox.protected_paths import CHANGES_TOLD_MAX, ProtectedPaths
from holdfast.sandbox.quarantine import Quarantine

GIT = {"PATH": os.defpath, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A repository with a guide, a hook, a makefile and ordinary files."""
    root = tmp_path / "work"
    (root / "src" / "deep").mkdir(parents=True)
    _git(root, "init", "-q", ".")
    (root / "AGENTS.md").write_text("Be kind.\n")
    (root / "Makefile").write_text("all:\n\ttrue\n")
    (root / "src" / "main.py").write_text("print(1)\n")
    (root / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
    (root / ".git" / "hooks" / "pre-push").chmod(0o755)
    return root


@pytest.fixture
def protected(tmp_path: Path) -> ProtectedPaths:
    """The watch over it."""
    return ProtectedPaths(Quarantine(tmp_path / "data" / "quarantine"))


def _git(root: Path, *args: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    subprocess.run(["git", *who, *args], cwd=root, env=GIT, check=True, capture_output=True)


def _hook(root: Path) -> None:
    (root / ".git" / "hooks" / "pre-commit").write_text("evil")


def _link(root: Path) -> None:
    (root / "CLAUDE.md").symlink_to("/etc/passwd")


def _folder(root: Path) -> None:
    (root / ".claude" / "commands").mkdir(parents=True)
    (root / ".claude" / "commands" / "x.md").write_text("evil")


def _deep(root: Path) -> None:
    (root / "src" / "new" / ".vscode").mkdir(parents=True)
    (root / "src" / "new" / ".vscode" / "tasks.json").write_text("evil")


def _mercurial(root: Path) -> None:
    (root / "src" / ".hg").mkdir()
    (root / "src" / ".hg" / "hgrc").write_text("[hooks]\nupdate = ./evil\n")


def _fifo(root: Path) -> None:
    os.mkfifo(root / ".envrc")


def _nested_repository(root: Path) -> None:
    _git(root / "src", "init", "-q", "inner")


def _archive(root: Path) -> None:
    (root / "src" / "deep" / ".github" / "workflows").mkdir(parents=True)
    (root / "src" / "deep" / ".github" / "workflows" / "ci.yml").write_text("evil")


def _linked_to(name: str) -> Callable[[Path], None]:
    def act(root: Path) -> None:
        (root / "plain").mkdir()
        (root / "plain" / "config.toml").write_text("evil")
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).symlink_to(root / "plain")

    return act


def _alternates(root: Path) -> None:
    (root / ".git" / "objects" / "info" / "alternates").write_text("/elsewhere\n")


def _worktree(root: Path) -> None:
    (root / ".git" / "worktrees" / "x").mkdir(parents=True)
    (root / ".git" / "worktrees" / "x" / "config.worktree").write_text("evil")


def _bare_repository(root: Path) -> None:
    for name in ("src/objects", "src/refs"):
        (root / name).mkdir()
    (root / "src" / "HEAD").write_text("ref: refs/heads/main\n")
    (root / "src" / "config").write_text("evil")


@pytest.mark.parametrize(
    ("act", "path"),
    [
        (_alternates, ".git/objects/info/alternates"),
        (_worktree, ".git/worktrees/x/config.worktree"),
        (_bare_repository, "src/config"),
        *((_linked_to(name), name) for name in (".cargo", ".hg", ".jj", ".github", "src/gradle", ".jj/repo")),
        (_hook, ".git/hooks/pre-commit"),
        (_mercurial, "src/.hg/hgrc"),
        (_link, "CLAUDE.md"),
        (_folder, ".claude"),
        (_deep, "src/new/.vscode"),
        (_fifo, ".envrc"),
        (_nested_repository, "src/inner/.git"),
        (_archive, "src/deep/.github/workflows"),
    ],
)
def test_a_protected_path_that_was_not_there_is_moved_to_quarantine(
    workspace: Path, protected: ProtectedPaths, act: Callable[[Path], None], path: str
) -> None:
    """P13: also where no file was that the sandbox could have made read-only."""
    watch = protected.begin(str(workspace))
    act(workspace)
    [found] = protected.end(watch).changes
    assert (found.path, found.kind) == (path, "created")
    assert not os.path.lexists(workspace / path)
    assert os.path.lexists(found.kept)
    assert f"created {path}" in found.sentence()
    assert protected.end(protected.begin(str(workspace))).changes == ()


def test_a_change_comes_back_even_with_the_same_size_and_time(
    workspace: Path, protected: ProtectedPaths
) -> None:
    guide, hook = workspace / "AGENTS.md", workspace / ".git" / "hooks" / "pre-push"
    before = guide.stat()
    watch = protected.begin(str(workspace))
    guide.write_text("Be evil.\n"[: before.st_size])
    os.utime(guide, ns=(before.st_atime_ns, before.st_mtime_ns))
    hook.unlink()
    found = {each.path: each for each in protected.end(watch).changes}
    assert found["AGENTS.md"].kind == "changed"
    assert Path(found["AGENTS.md"].kept).read_text() == "Be evil.\n"
    assert guide.read_text() == "Be kind.\n"
    assert found[".git/hooks/pre-push"].kind == "removed"
    assert hook.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("other", ["old", ".a"])
def test_a_git_folder_that_is_renamed_away_comes_back_and_the_new_one_goes(
    workspace: Path, protected: ProtectedPaths, other: str
) -> None:
    watch = protected.begin(str(workspace))
    (workspace / ".git").rename(workspace / other)
    _git(workspace, "init", "-q", ".")
    (workspace / ".git" / "config").write_text("[core]\n\tfsmonitor = ./evil\n")
    [found] = protected.end(watch).changes
    assert (found.path, found.kind, found.restored) == (".git", "changed", True)
    assert (workspace / ".git" / "hooks" / "pre-push").exists()
    assert not (workspace / other).exists()
    assert "evil" in (Path(found.kept) / "config").read_text()


def test_ordinary_work_is_left_alone(workspace: Path, protected: ProtectedPaths) -> None:
    watch = protected.begin(str(workspace))
    (workspace / "src" / "main.py").write_text("print(2)\n")
    (workspace / "build").mkdir()
    (workspace / "build" / "Makefile").write_text("all:\n")
    (workspace / "node_modules" / "x").mkdir(parents=True)
    (workspace / "node_modules" / "x" / "AGENTS.md").write_text("theirs")
    _git(workspace, "add", "src")
    _git(workspace, "commit", "-qm", "x")
    _git(workspace, "branch", "other")
    assert protected.end(watch).changes == ()


def test_what_was_approved_stays(workspace: Path, protected: ProtectedPaths) -> None:
    watch = protected.begin(str(workspace), approved=[str(workspace / ".git" / "hooks")])
    _hook(workspace)
    (workspace / ".envrc").write_text("evil")
    assert [each.path for each in protected.end(watch).changes] == [".envrc"]
    assert (workspace / ".git" / "hooks" / "pre-commit").exists()


def test_a_persons_edit_while_something_runs_stays(workspace: Path, protected: ProtectedPaths) -> None:
    guide = workspace / "AGENTS.md"
    watch = protected.begin(str(workspace), read_only=[str(guide)])
    guide.write_text("Be brief.\n")
    assert protected.end(watch).changes == ()
    assert guide.read_text() == "Be brief.\n"
    watch = protected.begin(str(workspace))
    guide.write_text("Be long.\n")
    with protected.approving(str(workspace), [str(workspace / "CLAUDE.md")]):
        (workspace / "CLAUDE.md").write_text("By an approved tool.\n")
    assert (workspace / "CLAUDE.md").exists()
    assert [each.path for each in protected.end(watch).changes] == ["AGENTS.md"]
    assert guide.read_text() == "Be brief.\n"


def test_what_a_background_process_did_is_found_before_anything_reads_it(
    workspace: Path, protected: ProtectedPaths
) -> None:
    job = protected.begin(str(workspace))
    _hook(workspace)
    protected.look(str(workspace))
    assert not (workspace / ".git" / "hooks" / "pre-commit").exists()
    _link(workspace)
    command = protected.begin(str(workspace))  # what the job did is no part of how the workspace should be
    assert not os.path.lexists(workspace / "CLAUDE.md")
    assert [each.path for each in protected.end(command).changes] == [".git/hooks/pre-commit", "CLAUDE.md"]
    assert protected.end(job).changes == ()
    _hook(workspace)  # nothing runs: a person did it
    protected.look(str(workspace))
    assert protected.end(protected.begin(str(workspace))).changes == ()
    assert (workspace / ".git" / "hooks" / "pre-commit").exists()


def test_nothing_outside_is_touched_when_a_folder_becomes_a_link(
    workspace: Path, protected: ProtectedPaths, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "AGENTS.md").write_text("theirs")
    watch = protected.begin(str(workspace))
    (workspace / "src").rename(workspace / "gone")
    (workspace / "src").symlink_to(outside)
    assert protected.end(watch).changes == ()
    assert (outside / "AGENTS.md").read_text() == "theirs"


def test_a_quarantine_on_another_disk_gets_a_copy(workspace: Path) -> None:
    shared = Path("/dev/shm")  # noqa: S108
    if not shared.is_dir() or shared.stat().st_dev == workspace.stat().st_dev:
        pytest.skip("there is one disk here")
    place = shared / f"holdfast-test-{os.getpid()}"
    try:
        protected = ProtectedPaths(Quarantine(place))
        watch = protected.begin(str(workspace))
        _folder(workspace)
        [found] = protected.end(watch).changes
        assert (Path(found.kept) / "commands" / "x.md").read_text() == "evil"
        assert not (workspace / ".claude").exists()
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


def test_however_many_changes_there_are_all_are_taken(workspace: Path, protected: ProtectedPaths) -> None:
    """P13: the last of many changes goes to quarantine as well, and the report counts them."""
    watch = protected.begin(str(workspace))
    for number in range(CHANGES_TOLD_MAX):
        (workspace / f".a{number}").mkdir()
        (workspace / f".a{number}" / ".envrc").write_text("evil")
    (workspace / "AGENTS.md").write_text("Be evil.\n")
    _deep(workspace)
    report = protected.end(watch)
    assert (len(report.changes), report.more, report.complete) == (CHANGES_TOLD_MAX, 2, True)
    assert (workspace / "AGENTS.md").read_text() == "Be kind.\n"
    assert not list(workspace.rglob(".envrc"))
    assert not (workspace / "src" / "new" / ".vscode").exists()


def test_in_a_workspace_with_too_many_folders_nothing_new_is_believed(tmp_path: Path) -> None:
    """P13: what couldn't be looked at is compared with the earlier state once it can be."""
    root = tmp_path / "work"
    (root / "zz").mkdir(parents=True)
    (root / "zz" / "AGENTS.md").write_text("Be kind.\n")
    protected = ProtectedPaths(Quarantine(tmp_path / "quarantine"), folders_max=20)
    watch = protected.begin(str(root))
    for number in range(30):
        (root / f"a{number:02}").mkdir()
    (root / "zz" / "y" / "z").mkdir(parents=True)
    (root / "zz" / "y" / "z" / "AGENTS.md").write_text("evil")
    assert not protected.end(watch).complete
    assert not protected.look(str(root))
    assert not protected.is_complete(str(root))
    _removed(root, "a")
    assert protected.is_complete(str(root))
    assert protected.look(str(root))
    assert not (root / "zz" / "y" / "z" / "AGENTS.md").exists()
    assert (root / "zz" / "AGENTS.md").read_text() == "Be kind.\n"
    [change] = protected.end(protected.begin(str(root))).changes
    assert change.path == "zz/y/z/AGENTS.md"


def test_a_workspace_that_was_always_too_large_keeps_its_files(tmp_path: Path) -> None:
    root = tmp_path / "work"
    for number in range(30):
        (root / f"a{number:02}" / "b").mkdir(parents=True)
        (root / f"a{number:02}" / "b" / "AGENTS.md").write_text("Be kind.\n")
    protected = ProtectedPaths(Quarantine(tmp_path / "quarantine"), folders_max=20)
    assert not protected.is_complete(str(root))
    watch = protected.begin(str(root))
    (root / "CLAUDE.md").write_text("evil")
    assert [each.path for each in protected.end(watch).changes] == ["CLAUDE.md"]
    assert protected.look(str(root))
    assert len(list(root.rglob("AGENTS.md"))) == 30


def _removed(root: Path, beginning: str) -> None:
    for folder in root.glob(f"{beginning}*"):
        folder.rmdir()


def test_a_folder_that_was_made_read_only_gives_up_what_was_planted(
    workspace: Path, protected: ProtectedPaths
) -> None:
    watch = protected.begin(str(workspace))
    _deep(workspace)
    (workspace / "src" / "new" / ".vscode").chmod(0o500)
    (workspace / "src" / "new").chmod(0o500)
    [change] = protected.end(watch).changes
    assert change.kept
    assert not (workspace / "src" / "new" / ".vscode").exists()


def test_a_change_that_cannot_be_taken_away_is_never_believed(workspace: Path, tmp_path: Path) -> None:
    """P13: not by the next look either, though nothing runs any more."""
    place = tmp_path / "quarantine"
    place.write_text("no folder")
    protected = ProtectedPaths(Quarantine(place))
    watch = protected.begin(str(workspace))
    _link(workspace)
    assert not protected.end(watch).complete
    assert not protected.look(str(workspace))
    assert not protected.is_complete(str(workspace))
    place.unlink()
    assert protected.look(str(workspace))
    assert not os.path.lexists(workspace / "CLAUDE.md")


def test_which_paths_are_protected() -> None:
    expected = dict(
        [
            (".git", True),
            (".git/config", True),
            ("sub/.git/hooks/x", True),
            (".git/modules/a/config", True),
            (".git/index", False),
            (".git/objects/aa/bb", False),
            ("Makefile", True),
            ("build/Makefile", False),
            ("a/.vscode/x.mk", True),
            (".mcp.json", True),
            (".envrc", True),
            ("README.md", False),
            (".git/objects/info/alternates", True),
            (".git/objects/info/packs", False),
            (".git/worktrees/x/config.worktree", True),
            (".git/worktrees/x/gitdir", False),
            *((name, True) for name in ("holdfast.toml", "noxfile.py", "tasks.py", "dodo.py", "magefile.go")),
            *((name, True) for name in ("Snakefile", "gulpfile.js", "config.fish", ".wgetrc", ".curlrc")),
            ("app/tasks.py", False),
        ]
    )
    assert {path: is_protected(path) for path in expected} == expected
