"""`scripts/release` tags only what is ready, and the workflows run only pinned actions."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[0-9.]+")
# The real ones take an hour; here they only leave a trace.
MAKEFILE = "test release-check:\n\t@echo made $@\n"
PACKAGE = "#!/bin/sh\necho packaged\n"
CHANGELOG = "# Changelog\n\n## [0.1.0] - 2026-11-30\n\nThe first.\n"


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    return subprocess.run(
        ["git", *who, *words], cwd=tree, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A source tree as scripts/release knows it, ready for 0.1.0."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "release", tmp_path / "scripts")
    shutil.copytree(ROOT / ".github" / "workflows", tmp_path / ".github" / "workflows")
    (tmp_path / "scripts" / "package").write_text(PACKAGE)
    (tmp_path / "scripts" / "package").chmod(0o755)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "tests" / "cli" / "old_data").mkdir(parents=True)
    (tmp_path / "tests" / "cli" / "old_data" / "0.1.0.tar.xz").touch()
    (tmp_path / "src" / "holdfast").mkdir(parents=True)
    (tmp_path / "src" / "holdfast" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "Ann")
    git(tmp_path, "config", "user.email", "ann@example.com")
    commit(tmp_path)
    return tmp_path


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "work")


def release(tree: Path, version: str = "0.1.0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(["scripts/release", version], cwd=tree, capture_output=True, text=True, check=False)


def test_a_tree_that_is_ready_is_tested_packaged_and_tagged(tree: Path) -> None:
    done = release(tree)
    assert done.returncode == 0, done.stderr
    steps = [line for line in done.stdout.splitlines() if line.startswith(("made", "packaged", "Tagged"))]
    assert steps == ["made test", "made release-check", "packaged", steps[-1]]
    assert git(tree, "tag", "--list") == "v0.1.0"
    assert git(tree, "rev-list", "-n1", "v0.1.0") == git(tree, "rev-parse", "HEAD")


def no_date(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(CHANGELOG.replace("2026-11-30", "unreleased"))
    commit(tree)


def other_version(tree: Path) -> None:
    (tree / "src" / "holdfast" / "__init__.py").write_text('__version__ = "0.1.0.dev0"\n')
    commit(tree)


def unpinned(tree: Path) -> None:
    (tree / ".github" / "workflows" / "more.yml").write_text("      - uses: actions/checkout@v5\n")
    commit(tree)


def no_old_data(tree: Path) -> None:
    (tree / "tests" / "cli" / "old_data" / "0.1.0.tar.xz").unlink()
    commit(tree)


def failing_tests(tree: Path) -> None:
    (tree / "Makefile").write_text("test release-check:\n\t@false\n")
    commit(tree)


def changed(tree: Path) -> None:
    (tree / "new").touch()


def tagged(tree: Path) -> None:
    git(tree, "tag", "v0.1.0")


@pytest.mark.parametrize(
    ("unready", "reason"),
    [
        (no_date, "CHANGELOG.md has no section"),
        (no_old_data, "the suite has no data directory of 0.1.0"),
        (other_version, "has another version"),
        (unpinned, "actions/checkout@v5"),
        (changed, "changes that no commit has"),
        (tagged, "the tag v0.1.0 exists"),
        (failing_tests, "make"),
    ],
)
def test_a_tree_that_is_not_ready_is_refused(
    unready: Callable[[Path], object], reason: str, tree: Path
) -> None:
    unready(tree)
    before = git(tree, "tag", "--list")
    done = release(tree)
    assert done.returncode != 0
    assert reason in done.stderr
    assert git(tree, "tag", "--list") == before


def test_actions_are_pinned_by_commit() -> None:
    used = [
        line.strip().removeprefix("- ").removeprefix("uses:").strip()
        for path in WORKFLOWS
        for line in path.read_text().splitlines()
        if re.match(r" *(- )?uses:", line)
    ]
    assert len(used) > len(WORKFLOWS)
    assert [action for action in used if not PINNED.fullmatch(action)] == []


def test_the_notes_of_a_release_are_its_part_of_the_changelog_with_links_that_work_anywhere() -> None:
    command = [sys.executable, ROOT / "scripts" / "release_notes.py", "0.1.0"]
    notes = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert notes.startswith("The first release.")
    targets = re.findall(r"\]\(([^)\s]+)", notes)
    assert targets
    assert [one for one in targets if not one.startswith("https://")] == []
