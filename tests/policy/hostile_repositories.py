"""Repositories that make git run a program of theirs, each in a way of its own, made with a real git."""

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],  # noqa: TID251 - tests are an edge
    "HOME": "/nonexistent",
    "LANG": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "TERM": "dumb",
}


@dataclass(frozen=True, slots=True)
class Ground:
    """A workspace, the program that a repository would like to have run, and the mark that it leaves."""

    root: Path
    program: Path
    mark: Path

    def git(self, *words: str, cwd: Path | None = None) -> None:
        self.asked(*words, cwd=cwd)

    def asked(self, *words: str, cwd: Path | None = None, told: str = "") -> str:
        done = subprocess.run(
            ["git", *words],
            cwd=cwd or self.root,
            env=GIT_ENVIRONMENT,
            input=told.encode(),
            check=True,
            capture_output=True,
        )
        return done.stdout.decode().strip()

    def make(self, place: Path | None = None) -> None:
        """A repository with one commit and one change."""
        place = place or self.root
        for name, data in _committed().items():
            file = place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if data is None:
                file.mkdir(exist_ok=True)
            else:
                file.write_bytes(data)
        self.change(place)

    def change(self, place: Path | None = None) -> None:
        for name in ("a.txt", "b.bin"):
            file = (place or self.root) / name
            file.write_text(file.read_text() + "more\n")

    def says(self, text: str, *, place: Path | None = None) -> None:
        """Add to the configuration."""
        with ((place or self.root) / ".git" / "config").open("a") as file:
            file.write(text)

    def attributes(self, text: str, *, place: Path | None = None) -> None:
        ((place or self.root) / ".gitattributes").write_text(text)

    def hook(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n: > {self.mark}\n")
        (folder / name).chmod(0o755)


@cache
def _committed() -> dict[str, bytes | None]:
    """The files and (as None) folders of a repository with one commit, made by git once."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        made = Ground(place, place / "none", place / "none")
        made.git("init", "-q", "-b", "main", ".")
        (place / "a.txt").write_text("one\n")
        (place / "b.bin").write_text("two\n")
        made.git("add", "a.txt", "b.bin")
        made.git("commit", "-qm", "first")
        return {
            str(path.relative_to(place)): None if path.is_dir() else path.read_bytes()
            for path in sorted(place.rglob("*"))
            if path.suffix != ".sample"
        }


def ground(folder: Path) -> Ground:
    found = Ground(folder / "work", folder / "work" / "evil.sh", folder / "MARK")
    found.root.mkdir()
    found.program.write_text(f"#!/bin/sh\n: > {found.mark}\ncat 2>/dev/null\n")
    found.program.chmod(0o755)
    return found


def watcher(ground: Ground) -> None:
    ground.make()
    ground.says(f"[core]\n\tfsmonitor = {ground.program}\n")


def watcher_in_odd_letters(ground: Ground) -> None:
    ground.make()
    ground.says(f'[CORE]fsMonitor="{ground.program}" ; a comment\n')


def watcher_in_two_lines(ground: Ground) -> None:
    ground.make()
    text = str(ground.program)
    ground.says(f"[core]\n\tfsmonitor = {text[:5]}\\\n{text[5:]}\n")


def watcher_included(ground: Ground) -> None:
    ground.make()
    (ground.root / "more.txt").write_text(f"[core]\n\tfsmonitor = {ground.program}\n")
    ground.says("[include]\n\tpath = ../more.txt\n")


def watcher_included_under_a_condition(ground: Ground) -> None:
    ground.make()
    (ground.root / "more.txt").write_text(f"[diff]\n\texternal = {ground.program}\n")
    ground.says('[includeIf "onbranch:main"]\n\tpath = ../more.txt\n')


def included_from_outside(ground: Ground) -> None:
    ground.make()
    outside = ground.root.parent / "elsewhere"
    outside.write_text(f"[diff]\n\texternal = {ground.program}\n")
    ground.says(f"[include]\n\tpath = {outside}\n")


def watcher_in_the_trees_own_settings(ground: Ground) -> None:
    ground.make()
    ground.says("[extensions]\n\tworktreeConfig = true\n")
    (ground.root / ".git" / "config.worktree").write_text(f"[diff]\n\texternal = {ground.program}\n")


def other_diff(ground: Ground) -> None:
    ground.make()
    ground.says(f"[diff]\n\texternal = {ground.program}\n")


def diff_driver(ground: Ground) -> None:
    ground.make()
    ground.attributes("*.txt diff=x\n")
    ground.says(f'[diff "x"]\n\tcommand = {ground.program}\n')


def text_of_binary(ground: Ground) -> None:
    ground.make()
    ground.attributes("*.bin diff=x\n")
    ground.says(f'[diff "x"]\n\ttextconv = {ground.program}\n')


def clean_filter(ground: Ground) -> None:
    ground.make()
    ground.attributes("*.txt filter=x\n")
    ground.says(f'[filter "x"]\n\tclean = {ground.program}\n')


def process_filter(ground: Ground) -> None:
    ground.make()
    (ground.root / ".git" / "info").mkdir(exist_ok=True)
    (ground.root / ".git" / "info" / "attributes").write_text("* filter=x\n")
    ground.says(f'[filter "x"]\n\tprocess = {ground.program}\n')


def filter_of_the_user(ground: Ground) -> None:
    """A filter that the user installed takes its own program from the repository."""
    ground.make()
    (ground.root.parent / ".gitconfig").write_text(
        '[filter "tool"]\n\tclean = "$(git config tool.x.clean)"\n'
    )
    ground.attributes("*.txt filter=tool\n")
    ground.says(f'[tool "x"]\n\tclean = {ground.program}\n')


def signatures(ground: Ground) -> None:
    ground.make()
    ground.says(f"[gpg]\n\tprogram = {ground.program}\n[log]\n\tshowSignature = true\n")
    before, _, after = ground.asked("cat-file", "commit", "HEAD").partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    signed = f"{before}\n{signature}\n\n{after}\n"
    ground.git(
        "update-ref", "HEAD", ground.asked("hash-object", "-t", "commit", "-w", "--stdin", told=signed)
    )


def hook_for_looking(ground: Ground) -> None:
    ground.make()
    ground.hook(ground.root / ".git" / "hooks", "post-index-change")


def hook_for_looking_elsewhere(ground: Ground) -> None:
    ground.make()
    ground.hook(ground.root / "scripts", "post-index-change")
    ground.says("[core]\n\thooksPath = scripts\n")


def hooks_path(ground: Ground) -> None:
    ground.make()
    ground.hook(ground.root / "scripts", "pre-commit")
    ground.says("[core]\n\thooksPath = scripts\n")


def commit_hook(ground: Ground) -> None:
    ground.make()
    ground.hook(ground.root / ".git" / "hooks", "pre-commit")


def reference_hook(ground: Ground) -> None:
    ground.make()
    ground.hook(ground.root / ".git" / "hooks", "reference-transaction")


def editor(ground: Ground) -> None:
    ground.make()
    ground.says(f"[core]\n\teditor = {ground.program}\n")


def alias(ground: Ground) -> None:
    ground.make()
    ground.says(f"[alias]\n\tst = !{ground.program}\n")


def merge_driver(ground: Ground) -> None:
    ground.make()
    ground.git("checkout", "-qb", "other")
    ground.git("commit", "-qam", "theirs")
    ground.git("checkout", "-q", "main")
    (ground.root / "a.txt").write_text("ours\n")
    ground.git("commit", "-qam", "ours")
    ground.attributes("*.txt merge=x\n")
    ground.says(f'[merge "x"]\n\tdriver = {ground.program}\n')


def partial_clone(ground: Ground) -> None:
    ground.make()
    other = ground.root.parent / "other.git"
    ground.git("init", "-q", "--bare", str(other))
    lost = ground.asked("rev-parse", "HEAD:a.txt")
    (ground.root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
    ground.says(
        "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tpartialClone = origin\n"
        f'[remote "origin"]\n\turl = {other}\n\tpromisor = true\n\tuploadpack = ": > {ground.mark}; false"\n'
    )


def submodule(ground: Ground) -> None:
    ground.make()
    _sub(ground, "sub")
    ground.says(f"[core]\n\tfsmonitor = {ground.program}\n", place=ground.root / "sub")


def submodule_with_filter(ground: Ground) -> None:
    ground.make()
    _sub(ground, "deep/er/sub")
    _filtered(ground, ground.root / "deep" / "er" / "sub")


def submodule_in_a_compressed_index(ground: Ground) -> None:
    submodule_with_filter(ground)
    ground.git("-c", "core.fsmonitor=", "update-index", "--index-version", "4")


def submodule_in_a_split_index(ground: Ground) -> None:
    ground.make()
    _sub(ground, "sub")
    ground.git("update-index", "--split-index")
    _filtered(ground, ground.root / "sub")


def _filtered(ground: Ground, place: Path) -> None:
    ground.attributes("*.txt filter=x\n", place=place)
    ground.says(f'[filter "x"]\n\tclean = {ground.program}\n', place=place)
    (place / "a.txt").write_text("one\n")  # as committed, so that only its contents tell whether it changed


def _sub(ground: Ground, name: str) -> None:
    place = ground.root / name
    ground.make(place)
    head = ground.asked("rev-parse", "HEAD", cwd=place)
    ground.git("update-index", "--add", "--cacheinfo", f"160000,{head},{name}")


def file_that_names_a_repository(ground: Ground) -> None:
    """The repository is a folder of another name, which a checkout may bring."""
    ground.make()
    (ground.root / ".git").rename(ground.root / "data")
    (ground.root / ".git").write_text("gitdir: data\n")
    with (ground.root / "data" / "config").open("a") as file:
        file.write(f"[diff]\n\texternal = {ground.program}\n")


def file_that_names_a_repository_outside(ground: Ground) -> None:
    ground.make()
    outside = ground.root.parent / "outside"
    (ground.root / ".git").rename(outside)
    (ground.root / ".git").write_text(f"gitdir: {outside}\n")
    with (outside / "config").open("a") as file:
        file.write(f"[diff]\n\texternal = {ground.program}\n")


def settings_of_another(ground: Ground) -> None:
    """A folder like that of a linked working tree, whose settings are those of a folder beside it."""
    file_that_names_a_repository(ground)
    data = ground.root / "data"
    linked = ground.root / "linked"
    linked.mkdir()
    (linked / "HEAD").write_text("ref: refs/heads/main\n")
    (linked / "commondir").write_text("../data\n")
    (data / "index").rename(linked / "index")
    (ground.root / ".git").write_text("gitdir: linked\n")


def looks_like_a_repository(ground: Ground) -> None:
    """A subfolder that any checkout may bring: it has no `.git`, and is one."""
    ground.make()
    sub = ground.root / "sub"
    ground.git("init", "-q", "--bare", str(sub))
    with (sub / "config").open("a") as file:
        file.write(f"[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = {ground.program}\n")


def is_a_repository_itself(ground: Ground) -> None:
    """The workspace has no `.git`, and looks like one."""
    ground.git("init", "-q", "--bare", str(ground.root))
    (ground.root / "tree").mkdir()
    with (ground.root / "config").open("a") as file:
        file.write(
            f"[core]\n\tbare = false\n\tworktree = {ground.root}/tree\n\tfsmonitor = {ground.program}\n"
        )


def nested(ground: Ground) -> None:
    ground.make()
    ground.make(ground.root / "sub")
    ground.says(f"[diff]\n\texternal = {ground.program}\n", place=ground.root / "sub")


def above_the_workspace(ground: Ground) -> None:
    """The workspace is a subfolder of the repository."""
    above = ground.root.parent
    ground.git("init", "-q", "-b", "main", str(above))
    (ground.root / "a.txt").write_text("one\n")
    ground.git("add", "a.txt")
    ground.git("commit", "-qm", "first")
    (ground.root / "a.txt").write_text("two\n")
    with (above / ".git" / "config").open("a") as file:
        file.write(f"[diff]\n\texternal = {ground.program}\n")


HOSTILE: tuple[Callable[[Ground], None], ...] = (
    watcher,
    watcher_in_odd_letters,
    watcher_in_two_lines,
    watcher_included,
    watcher_included_under_a_condition,
    included_from_outside,
    watcher_in_the_trees_own_settings,
    other_diff,
    diff_driver,
    text_of_binary,
    clean_filter,
    process_filter,
    filter_of_the_user,
    signatures,
    hook_for_looking,
    hook_for_looking_elsewhere,
    hooks_path,
    commit_hook,
    reference_hook,
    editor,
    alias,
    merge_driver,
    partial_clone,
    submodule,
    submodule_with_filter,
    submodule_in_a_compressed_index,
    submodule_in_a_split_index,
    file_that_names_a_repository,
    file_that_names_a_repository_outside,
    settings_of_another,
    looks_like_a_repository,
    is_a_repository_itself,
    nested,
    above_the_workspace,
)

# fmt: off
COMMANDS = (
    "git status", "git status --short --branch", "git status -v", "git diff", "git diff --stat",
    "git diff --cached", "git diff HEAD -- a.txt", "git diff --no-ext-diff --no-textconv", "git log",
    "git log -p", "git log --oneline -5", "git log --format=%G?", "git show", "git show HEAD",
    "git show HEAD:a.txt", "git shortlog -s HEAD", "git blame a.txt", "git blame b.bin",
    "git branch --list", "git branch --show-current", "git tag --list", "git rev-parse HEAD",
    "git rev-list --all", "git ls-files", "git ls-files -m", "git ls-files --others --exclude-standard",
    "git ls-tree HEAD", "git cat-file -p HEAD", "git describe --always --dirty",
    "git merge-base HEAD HEAD", "git grep one", "git grep --untracked one", "git remote -v",
    "git stash list", "git stash show", "git worktree list", "git reflog", "cd sub && git status",
    "cd sub && git diff", "git -C sub status", "git -C sub diff", "git -C . diff",
    "git --git-dir=.git diff", "git --git-dir=.git --work-tree=. status", "git --git-dir sub/.git diff",
    "git commit -a", "git add a.txt", "git commit -am x", "git stash", "git checkout -b new",
    "git reset --hard", "git st", "git merge other", "git tag v1", "timeout 5 git diff",
    "bash -c 'git status'", "git diff | head -5", "git status; git diff",
)
CHANGING = {
    "git commit -a", "git add a.txt", "git commit -am x", "git stash", "git checkout -b new",
    "git reset --hard", "git st", "git merge other", "git tag v1",
}
# fmt: on


def batches() -> Iterator[tuple[str, ...]]:
    """The commands in their order: those that change nothing together, each of the others alone."""
    for _, commands in groupby(COMMANDS, lambda command: command if command in CHANGING else ""):
        yield tuple(commands)
