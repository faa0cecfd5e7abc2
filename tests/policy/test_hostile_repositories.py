"""No repository has git run a program or show a file elsewhere unasked, tried in each way with a real git."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from shlex import quote

import pytest

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.path_facts import SecretFinder
from holdfast.policy.verdicts import Allow, NeedsApproval, Verdict
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.tools.git_repositories import ENTRIES_MAX, GitFolders
from holdfast.tools.shell.environment import child_environment
from holdfast.values import Action, ApprovalMode
from policy.hostile_repositories import (
    COMMANDS,
    GIT_ENVIRONMENT,
    HOSTILE,
    Ground,
    batches,
    ground,
    hooks_path,
    looks_like_a_repository,
    other_diff,
    submodule,
    watcher,
)
from policy.leaking_repositories import COMMANDS as SHOWING
from policy.leaking_repositories import LEAKING, SECRET, linked_alternates

pytestmark = pytest.mark.long

# Git's own wishes for who commits, and no file of the user's; all else is what every child gets.
KEPT = ("GIT_AUTHOR", "GIT_COMMITTER", "GIT_CONFIG_NOSYSTEM")
ENVIRONMENT = child_environment({}) | {
    name: value for name, value in GIT_ENVIRONMENT.items() if name.startswith(KEPT)
}


class Remembered(SecretFinder):
    """Looks for secrets once, for commands that are judged one after the other while nothing changes."""

    def __init__(self) -> None:
        found = SecretFiles()
        self.secret_below = cache(found.secret_below)
        self.secret_in_history = cache(found.secret_in_history)
        self.secret_in_remotes = cache(found.secret_in_remotes)


def judged(command: str, made: Ground, *rules: ApprovalRule, mode: ApprovalMode = "ask") -> Verdict:
    judge = ConfiguredJudge(mode=mode, rules=rules, home=made.root.parent / "home")
    return judge.verdict(shell(command, made), (), workspace=made.root)


def shell(command: str, made: Ground) -> Action:
    return Action(tool="shell", summary=command, argv=("/bin/bash", "-c", command), paths=(str(made.root),))


def unasked(commands: Iterable[str], made: Ground) -> list[str]:
    """The commands that the mildest mode runs without a question; it also runs what any other mode runs."""
    remembered = Remembered()
    judge = ConfiguredJudge(
        mode="workspace", home=made.root.parent / "home", secret_finder=lambda: remembered
    )
    return [
        command
        for command in commands
        if isinstance(judge.verdict(shell(command, made), (), workspace=made.root), Allow)
    ]


def first_that_runs_the_program(commands: Iterable[str], made: Ground, environment: dict[str, str]) -> str:
    script = "".join(
        f"({command}) > /dev/null 2>&1\n[ ! -e {made.mark} ] || {{ printf %s {quote(command)}; exit; }}\n"
        for command in commands
    )
    return run(script, made, environment)


def outputs(commands: Iterable[str], made: Ground, environment: dict[str, str]) -> dict[str, str]:
    script = "".join(f"printf '\\0%s\\0' {quote(command)}; ({command})\n" for command in commands)
    fields = run(script, made, environment).split("\0")[1:]
    return dict(zip(fields[::2], fields[1::2], strict=True))


def run(script: str, made: Ground, environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["/bin/bash", "-c", script],
        cwd=made.root,
        env={**environment, "HOME": str(made.root.parent)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: build.__name__)
def test_no_program_of_a_repository_runs_unasked(build: Callable[[Ground], None], tmp_path: Path) -> None:
    """P11."""
    made = ground(tmp_path)
    build(made)
    for commands in batches():
        assert first_that_runs_the_program(unasked(commands, made), made, ENVIRONMENT) == ""
        assert not made.mark.exists(), f"judging {commands} ran it"


@pytest.mark.parametrize("build", HOSTILE, ids=lambda build: build.__name__)
def test_each_of_these_repositories_would_run_its_program(
    build: Callable[[Ground], None], tmp_path: Path
) -> None:
    made = ground(tmp_path)
    build(made)
    assert first_that_runs_the_program(COMMANDS, made, GIT_ENVIRONMENT), (
        "nothing in it ran: it is not hostile"
    )


@pytest.mark.parametrize(
    "build", [watcher, submodule, looks_like_a_repository], ids=lambda build: build.__name__
)
def test_what_every_child_is_given_keeps_git_from_watchers_and_false_repositories(
    build: Callable[[Ground], None], tmp_path: Path
) -> None:
    """P11: whatever the policy says, and in submodules too."""
    made = ground(tmp_path)
    build(made)
    for command in ("git status", "cd sub && git status"):
        run(command, made, ENVIRONMENT)
    assert not made.mark.exists()


def test_a_person_hears_which_program_the_repository_names(tmp_path: Path) -> None:
    """P8."""
    made = ground(tmp_path)
    other_diff(made)
    found = judged("git diff", made)
    assert isinstance(found, NeedsApproval)
    sentence = f"This repository's configuration names a program: diff.external = {made.program}."
    assert found.findings == (sentence,)


def test_a_rule_for_git_covers_such_a_repository_only_if_it_names_the_place(tmp_path: Path) -> None:
    made = ground(tmp_path)
    other_diff(made)
    assert isinstance(
        judged("git diff", made, ApprovalRule("allow", "shell", argv=("git", "diff"))), NeedsApproval
    )
    there = ApprovalRule("allow", "shell", argv=("git", "diff"), paths=(str(made.root),))
    assert isinstance(judged("git diff", made, there), Allow)


def test_hooks_that_only_a_commit_runs_ask_about_commits_alone(tmp_path: Path) -> None:
    made = ground(tmp_path)
    hooks_path(made)
    for command, verdict in {
        "git status": Allow,
        "git diff": Allow,
        "git commit -m x": NeedsApproval,
    }.items():
        assert isinstance(judged(command, made, mode="workspace"), verdict), command
    assert isinstance(judged("git status", made), Allow)


def test_an_ordinary_repository_is_not_asked_about(tmp_path: Path) -> None:
    made = ground(tmp_path)
    made.make()
    made.says(
        '[core]\n\tfsmonitor = true\n[branch "main"]\n\tremote = origin\n[remote "origin"]\n'
        "\turl = https://example.org/x\n[user]\n\tname = A\n[lfs]\n\trepositoryformatversion = 0\n"
        "[core]\n\tsshCommand = ssh -i key\n[credential]\n\thelper = store\n[merge]\n\ttool = x\n"
    )
    for command in ("git status", "git diff", "git log -p", "git show HEAD", "git blame a.txt"):
        assert isinstance(judged(command, made), Allow), command


def test_a_linked_working_tree_is_an_ordinary_repository(tmp_path: Path) -> None:
    made = ground(tmp_path)
    main = tmp_path / "main"
    made.make(main)
    made.git("worktree", "add", "-q", str(tmp_path / "linked"), "HEAD", cwd=main)
    linked = Ground(tmp_path / "linked", made.program, made.mark)
    assert isinstance(judged("git status", linked), Allow)
    with (main / ".git" / "config").open("a") as file:
        file.write(f"[core]\n\tfsmonitor = {made.program}\n")
    assert isinstance(judged("git status", linked), NeedsApproval)


def test_a_submodule_without_programs_is_not_asked_about(tmp_path: Path) -> None:
    made = ground(tmp_path)
    submodule(made)
    made.git("config", "--unset", "core.fsmonitor", cwd=made.root / "sub")
    assert isinstance(judged("git status", made), Allow)


@pytest.mark.parametrize("kind", ["fifo", "folder", "huge", "broken", "nul", "loop", "link out"])
def test_a_configuration_that_cannot_be_read_asks(kind: str, tmp_path: Path) -> None:
    """P3: and nobody waits for the other end of a FIFO."""
    made = ground(tmp_path)
    made.make()
    config = made.root / ".git" / "config"
    text = config.read_text()
    config.unlink()
    match kind:
        case "fifo":
            os.mkfifo(config)
        case "folder":
            config.mkdir()
        case "huge":
            config.write_text(text + "#" * 2**20)
        case "broken":
            config.write_text(text + "[core\n")
        case "nul":
            config.write_text(text + "\0")
        case "loop":
            config.write_text(text + "[include]\n\tpath = config\n")
        case _:
            (tmp_path / "config").write_text(text)
            config.symlink_to(tmp_path / "config")
    assert isinstance(judged("git status", made), NeedsApproval)


def test_an_index_that_cannot_be_read_asks(tmp_path: Path) -> None:
    made = ground(tmp_path)
    submodule(made)
    made.git("config", "--unset", "core.fsmonitor", cwd=made.root / "sub")
    index = made.root / ".git" / "index"
    whole = index.read_bytes()
    for broken in (b"XXXX" + whole[4:], whole[:4] + b"\0\0\0\x09" + whole[8:], whole[:120]):
        index.write_bytes(broken + b"\0\0\xe0\0")
        assert isinstance(judged("git status", made), NeedsApproval)


def test_a_working_tree_or_objects_outside_ask(tmp_path: Path) -> None:
    """P11: `git grep --untracked` would read what lies there."""
    made = ground(tmp_path)
    made.make()
    config = made.root / ".git" / "config"
    text = config.read_text()
    config.write_text(f"{text}[core]\n\tworktree = {tmp_path}\n")
    assert isinstance(judged("git grep --untracked key", made), NeedsApproval)
    config.write_text(text)
    assert isinstance(judged("git grep --untracked key", made), Allow)
    (made.root / ".git" / "objects" / "info" / "alternates").write_text(f"{tmp_path}/other\n")
    assert isinstance(judged("git log", made), NeedsApproval)


@pytest.mark.parametrize("build", LEAKING, ids=lambda build: build.__name__)
def test_no_repository_shows_a_file_elsewhere_unasked(
    build: Callable[[Ground], None], tmp_path: Path
) -> None:
    """P11."""
    made = ground(tmp_path)
    build(made)
    shown = outputs(unasked(SHOWING, made), made, ENVIRONMENT)
    assert {command: text for command, text in shown.items() if SECRET in text} == {}
    assert SECRET in run("\n".join(f"({command})" for command in SHOWING), made, GIT_ENVIRONMENT), (
        "it leaks nothing"
    )


def test_a_person_hears_which_entry_is_a_link_and_which_file_is_named(tmp_path: Path) -> None:
    """P8."""
    made = ground(tmp_path)
    linked_alternates(made)
    made.says("[mailmap]\n\tfile = ~/names\n[http]\n\tcookieFile = /cookies\n")
    found = judged("git log", made)
    assert isinstance(found, NeedsApproval)
    assert "`.git/objects/info/alternates` is a link, which git would follow or wait for." in found.findings
    assert (
        "This repository's configuration names a file outside the workspace: mailmap.file = ~/names."
        in found.findings
    )
    assert not any("cookie" in finding for finding in found.findings), "only what reaches a server reads it"


def test_a_fifo_in_the_git_folder_asks(tmp_path: Path) -> None:
    """P3."""
    made = ground(tmp_path)
    made.make()
    for name in ("info/exclude", "info/attributes", "info/grafts", "refs/heads/x", "HEAD.lock"):
        entry = made.root / ".git" / name
        entry.unlink(missing_ok=True)
        os.mkfifo(entry)
        found = judged("git status", made)
        assert isinstance(found, NeedsApproval), name
        assert f"`.git/{name}` is a FIFO, which git would follow or wait for." in found.findings
        entry.unlink()


def test_a_setting_that_names_a_fifo_asks(tmp_path: Path) -> None:
    """P3."""
    made = ground(tmp_path)
    made.make()
    os.mkfifo(made.root / "ignored")
    made.says("[core]\n\texcludesFile = ignored\n")
    assert isinstance(judged("git status", made), NeedsApproval)


def test_a_git_folder_with_very_many_files_asks(tmp_path: Path) -> None:
    """P3."""
    made = ground(tmp_path)
    made.make()
    searched = GitFolders(entries=ENTRIES_MAX)  # as if other folders of the repository held as many
    found = list(searched.doubts(str(made.root / ".git"), top=str(made.root)))
    assert found == ["`.git` has more than 50,000 files, too many to check."]


def test_linked_hooks_and_files_of_the_workspace_are_not_asked_about(tmp_path: Path) -> None:
    made = ground(tmp_path)
    made.make()
    (made.root / ".git" / "hooks" / "pre-commit").symlink_to(made.program)
    (made.root / ".git-blame-ignore-revs").write_text("# none\n")
    made.says(
        "[blame]\n\tignoreRevsFile = .git-blame-ignore-revs\n[mailmap]\n\tfile = .mailmap\n"
        f"[core]\n\texcludesFile = /dev/null\n\tattributesFile = {made.root}/attributes\n"
        "[commit]\n\ttemplate = ~/template\n[http]\n\tsslCAInfo = /etc/ssl/ca\n"
    )
    for command in ("git status", "git blame a.txt", "git log"):
        assert isinstance(judged(command, made), Allow), command
    assert isinstance(judged("git commit -m x", made, mode="workspace"), NeedsApproval)


def test_the_socket_of_gits_own_watcher_is_not_asked_about(tmp_path: Path) -> None:
    made = ground(tmp_path)
    made.make()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(made.root / ".git" / "fsmonitor--daemon.ipc"))
        assert isinstance(judged("git status", made), Allow)
