"""Repositories that make git show what lies elsewhere, each in a way of its own, made with a real git."""

import os
from collections.abc import Callable
from pathlib import Path

from policy.hostile_repositories import Ground

SECRET = "hunter2hunter2"  # noqa: S105 - what must not be shown
COMMANDS = (
    "git status",
    "git log",
    "git log -p",
    "git log --format=%aN",
    "git show",
    "git show HEAD:secret.txt",
    "git blame a.txt",
    "git stash list",
    "git branch --list",
    "git rev-list --all",
    "git shortlog -s HEAD",
    "git -C sub status",
)


def _private(ground: Ground, text: str = f"{SECRET}\n") -> Path:
    """A file outside the workspace."""
    file = ground.root.parent / "private"
    file.write_text(text)
    return file


def _private_repository(ground: Ground) -> Path:
    place = ground.root.parent / "private.d"
    place.mkdir()
    ground.git("init", "-q", "-b", "main", str(place))
    (place / "secret.txt").write_text(f"{SECRET}\n")
    ground.git("add", "secret.txt", cwd=place)
    ground.git("commit", "-qm", SECRET, cwd=place)
    return place / ".git"


def _link(ground: Ground, name: str, target: Path | str) -> None:
    """Put a link into the git folder in place of what is there."""
    entry = ground.root / ".git" / name
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.unlink(missing_ok=True)
    entry.symlink_to(target)


def linked_alternates(ground: Ground) -> None:
    ground.make()
    (ground.root / ".env").write_text(f"KEY={SECRET}\n")
    _link(ground, "objects/info/alternates", "../../../.env")


def linked_alternates_of_alternates(ground: Ground) -> None:
    ground.make()
    more = ground.root / "more" / "info"
    more.mkdir(parents=True)
    (more / "alternates").symlink_to(_private(ground))
    (ground.root / ".git" / "objects" / "info" / "alternates").write_text("../../more\n")


def quoted_alternates(ground: Ground) -> None:
    """Git unquotes the line; as it stands it looks like a path inside."""
    ground.make()
    private = _private_repository(ground)
    line = str(private / "objects").replace("/", "\\057")
    (ground.root / ".git" / "objects" / "info" / "alternates").write_text(f'"{line}"\n')
    head = (private / "refs" / "heads" / "main").read_text()
    (ground.root / ".git" / "refs" / "heads" / "main").write_text(head)


def many_alternates(ground: Ground) -> None:
    ground.make()
    private = _private_repository(ground)
    lines = [f"nothing{number}" for number in range(150)]
    alternates = ground.root / ".git" / "objects" / "info" / "alternates"
    alternates.write_text("\n".join((*lines, f"{private}/objects\n")))
    head = (private / "refs" / "heads" / "main").read_text()
    (ground.root / ".git" / "refs" / "heads" / "main").write_text(head)


def alternates_of_a_folder_in_the_git_folder(ground: Ground) -> None:
    ground.make()
    private = _private_repository(ground)
    git_dir = ground.root / ".git"
    (git_dir / "more" / "info").mkdir(parents=True)
    (git_dir / "more" / "info" / "alternates").write_text(f"{private}/objects\n")
    (git_dir / "objects" / "info" / "alternates").write_text("../more\n")
    (git_dir / "refs" / "heads" / "main").write_text((private / "refs" / "heads" / "main").read_text())


def linked_objects(ground: Ground) -> None:
    ground.make()
    private = _private_repository(ground)
    (ground.root / ".git" / "objects").rename(ground.root / "old")
    _link(ground, "objects", private / "objects")
    _link(ground, "refs/heads/main", private / "refs" / "heads" / "main")


def linked_file_of_a_submodule(ground: Ground) -> None:
    """The submodule's git folder is where hooks are, among which links are not looked for."""
    ground.make()
    sub = ground.root / "sub"
    ground.make(sub)
    head = ground.asked("rev-parse", "HEAD", cwd=sub)
    ground.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    moved = ground.root / ".git" / "hooks" / "sub"
    moved.parent.mkdir(exist_ok=True)
    (sub / ".git").rename(moved)
    (sub / ".git").write_text("gitdir: ../.git/hooks/sub\n")
    (moved / "BISECT_START").symlink_to(_private(ground))
    (moved / "BISECT_LOG").write_text("")


def linked_shallow(ground: Ground) -> None:
    ground.make()
    _link(ground, "shallow", _private(ground))


def linked_grafts(ground: Ground) -> None:
    ground.make()
    _link(ground, "info/grafts", _private(ground))


def linked_packed_refs(ground: Ground) -> None:
    ground.make()
    _link(ground, "packed-refs", _private(ground))


def linked_rebase(ground: Ground) -> None:
    ground.make()
    folder = ground.root.parent / "folder"
    folder.mkdir()
    for name in ("git-rebase-todo", "done", "onto", "head-name", "interactive"):
        (folder / name).write_text(f"pick {SECRET}\n")
    _link(ground, "rebase-merge", folder)


def linked_file_of_a_rebase(ground: Ground) -> None:
    ground.make()
    folder = ground.root / ".git" / "rebase-merge"
    folder.mkdir()
    (folder / "interactive").write_text("")
    (folder / "done").write_text("")
    _link(ground, "rebase-merge/git-rebase-todo", _private(ground))


def linked_bisection(ground: Ground) -> None:
    ground.make()
    (ground.root / ".git" / "BISECT_LOG").write_text("")
    _link(ground, "BISECT_START", _private(ground))


def linked_stash_log(ground: Ground) -> None:
    ground.make()
    head = ground.asked("rev-parse", "HEAD")
    ground.git("update-ref", "refs/stash", head)
    private = _private(ground, f"{'0' * 40} {head} a <a@b> 1700000000 +0000\t{SECRET}\n")
    _link(ground, "logs/refs/stash", private)


def git_file_with_a_nul(ground: Ground) -> None:
    """Git reads the name up to the NUL byte."""
    linked_bisection(ground)
    (ground.root / ".git").rename(ground.root / "data")
    (ground.root / ".git").write_bytes(b"gitdir: data\0more\n")


def git_file_with_a_blank(ground: Ground) -> None:
    """Git keeps the blank at the end of the name."""
    linked_bisection(ground)
    (ground.root / ".git").rename(ground.root / "data ")
    ground.git("init", "-q", str(ground.root / "clean"))
    (ground.root / "clean" / ".git").rename(ground.root / "data")
    (ground.root / ".git").write_text("gitdir: data \n")


def revisions_to_ignore(ground: Ground) -> None:
    ground.make()
    ground.says(f"[blame]\n\tignoreRevsFile = {_private(ground)}\n")


def revisions_to_ignore_behind_a_link(ground: Ground) -> None:
    ground.make()
    (ground.root / "revs").symlink_to(os.path.relpath(_private(ground), ground.root))
    ground.says("[blame]\n\tignoreRevsFile = revs\n")


def secret_revisions_to_ignore(ground: Ground) -> None:
    ground.make()
    (ground.root / "api-key").write_text(f"{SECRET}\n")
    ground.says("[blame]\n\tignoreRevsFile = api-key\n")


def names_of_authors(ground: Ground) -> None:
    ground.make()
    ground.says(f"[mailmap]\n\tfile = {_private(ground, f'{SECRET} <a@b>')}\n")


def names_of_authors_at_home(ground: Ground) -> None:
    ground.make()
    _private(ground, f"{SECRET} <a@b>")
    ground.says("[mailmap]\n\tfile = ~/private\n")


LEAKING: tuple[Callable[[Ground], None], ...] = (
    linked_alternates,
    linked_alternates_of_alternates,
    quoted_alternates,
    many_alternates,
    alternates_of_a_folder_in_the_git_folder,
    linked_objects,
    linked_file_of_a_submodule,
    linked_shallow,
    linked_grafts,
    linked_packed_refs,
    linked_rebase,
    linked_file_of_a_rebase,
    linked_bisection,
    linked_stash_log,
    git_file_with_a_nul,
    git_file_with_a_blank,
    revisions_to_ignore,
    revisions_to_ignore_behind_a_link,
    secret_revisions_to_ignore,
    names_of_authors,
    names_of_authors_at_home,
)
