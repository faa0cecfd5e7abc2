"""A .gitignore means here what it means to git."""

import os
import subprocess

import pytest

from holdfast.tools.files.ignore_rules import parse_rules

PATTERNS = """
# a comment
*.log
!keep.log
/root-only
build/
docs/*.html
**/cache/*.tmp
a/**/z
trailing/**
\\#hash
\\!bang
sp\\ ace\\
star*middle*end
[abc].txt
[!abc].md
[a-c]-[0-9]
[[:digit:]]x
q?estion
*.py[co]
name with spaces\x20\x20
literal\\*star
unclosed[
deep/er/path
/anchored/*/leaf
"""
PATHS = (
    *("a.log", "keep.log", "sub/a.log", "sub/keep.log", "root-only", "sub/root-only", "build/", "build"),
    *("sub/build/", "docs/a.html", "docs/sub/a.html", "cache/a.tmp", "x/y/cache/a.tmp", "cache/sub/a.tmp"),
    *("a/z", "a/b/z", "a/b/c/z", "b/a/z", "trailing/x", "trailing/x/y", "trailing", "#hash", "!bang"),
    *("star-middle-end", "starmiddleend", "star/middle/end", "a.txt", "d.txt", "a.md", "d.md", "b-7", "d-7"),
    *(
        "7x",
        "xx",
        "question",
        "q/estion",
        "a.pyc",
        "a.pyd",
        "name with spaces",
        "literal*star",
        "literalxstar",
    ),
    *("unclosed[", "deep/er/path", "x/deep/er/path", "anchored/1/leaf", "anchored/1/2/leaf", "plain"),
)


@pytest.fixture(scope="module")
def of_git(tmp_path_factory: pytest.TempPathFactory) -> frozenset[str]:
    """The paths that the real git ignores."""
    root = tmp_path_factory.mktemp("ignored")
    environment = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "PATH": os.defpath}
    subprocess.run(["git", "init", "-q", root], env=environment, check=True)
    (root / ".gitignore").write_text(PATTERNS)
    done = subprocess.run(
        ["git", "-C", str(root), "check-ignore", "--stdin", "-z", "--no-index"],
        env=environment,
        input="\0".join(PATHS).encode(),
        capture_output=True,
        check=False,
    )
    return frozenset(done.stdout.decode().split("\0")) - {""}


def ignored(path: str) -> bool:
    """Whether the path, or a folder above it, is ignored."""
    rules, is_folder = parse_rules(PATTERNS), path.endswith("/")
    parts = path.rstrip("/").split("/")
    for depth in range(1, len(parts)):
        if rules.verdict("/".join(parts[:depth]), is_folder=True):
            return True
    return bool(rules.verdict("/".join(parts), is_folder=is_folder))


@pytest.mark.parametrize("path", PATHS)
def test_git_says_the_same(path: str, of_git: frozenset[str]) -> None:
    assert ignored(path) == (path in of_git)


def test_a_file_that_begins_with_a_byte_order_mark_or_ends_its_lines_like_windows_is_read() -> None:
    rules = parse_rules("\ufeff*.tmp\r\nlast\r\n")
    assert rules.verdict("a.tmp", is_folder=False)
    assert rules.verdict("last", is_folder=False)
    assert rules.verdict("other", is_folder=False) is None
    assert parse_rules("").verdict("a", is_folder=False) is None
