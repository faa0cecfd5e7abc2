"""What runs unasked shows no secret: judged as by a server, then run by a real bash in a real repository."""

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.verdicts import Allow
from holdfast.tools.files.secret_files import SecretFiles
from holdfast.values import Action
from policy.approval_world import CORPUS, TOO_MILD, WORKSPACE, shapes

MARK = "the-secret-itself"
PATH = "/usr/local/bin:/usr/bin:/bin"
ADDRESS = "https://user:the-secret-itself@example.invalid/x.git"
NAMED = {
    "names of secrets",
    "more names of secrets",
    "names of keys and tokens",
    "more names of keys and tokens",
}
READS = NAMED | {
    "searches that go down to a secret",
    "secrets in the history of the repository",
    "more secrets in the history of the repository",
    "addresses with a token",
    "secrets by patterns",
}
LEAKS_MIN = 45

pytestmark = pytest.mark.skipif(
    not shutil.which("git") or not shutil.which("bash"), reason="needs git and bash"
)


def bash(text: str, folder: Path) -> str:
    environment = {"PATH": PATH, "HOME": str(folder.parent / "home"), "LC_ALL": "C", "GIT_PAGER": "cat"}
    try:
        done = subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=20,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        return (late.stdout or b"").decode(errors="replace")
    return done.stdout.decode(errors="replace")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository with secrets: some tracked, one in a commit of the past, some only lying there."""
    root = tmp_path / "project"
    texts = [text for shape in shapes(TOO_MILD) if shape.name in NAMED for text in shape.commands]
    named = [text.split()[-1].strip("'") for text in texts]
    for name in (".env", "config/prod.env", "certs/server.key", *named):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"x = {MARK}\n")
    for name in ("src/a.py", "README.md", "config/readme", "a.txt", ".env.example"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = plain\n" * 5)
    git = "git -c user.name=a -c user.email=b -c commit.gpgsign=false"
    bash(f"git init -q . && git remote add origin {ADDRESS} && git add -f .env && {git} commit -qm one", root)
    bash(f"git rm -q --cached .env && git add src README.md config/prod.env && {git} commit -qm two", root)
    (root / "config/prod.env").write_text(f"y = {MARK}\n")
    return root


def is_allowed(text: str, folder: Path) -> bool:
    action = Action(tool="shell", summary=text, argv=("/bin/bash", "-c", text), paths=(str(folder),))
    judge = ConfiguredJudge(home=folder.parent / "home", secret_finder=lambda: SecretFiles({"PATH": PATH}))
    return isinstance(judge.verdict(action, (), workspace=folder), Allow)


def commands_of(*corpora: Path) -> list[str]:
    return [
        command
        for corpus in corpora
        for shape in shapes(corpus)
        if not shape.rule
        for command in shape.commands
        if "tail -f" not in command and "sleep" not in command and WORKSPACE not in command
    ]


def test_nothing_that_runs_unasked_shows_a_secret(folder: Path) -> None:
    """P11: every command of the corpus that this policy lets run."""
    allowed = [text for text in commands_of(CORPUS, TOO_MILD) if is_allowed(text, folder)]
    before = sorted(path for path in folder.rglob("*") if ".git/" not in str(path))
    for text in allowed:
        assert MARK not in bash(text, folder), text
    assert sorted(path for path in folder.rglob("*") if ".git/" not in str(path)) == before
    assert len(allowed) > 60


def test_what_is_asked_about_would_have_shown_one(folder: Path) -> None:
    """The corpus is about real leaks: most of these commands do print the secret."""
    asked = [text for shape in shapes(TOO_MILD) if shape.name in READS for text in shape.commands]
    assert not any(is_allowed(text, folder) for text in asked)
    shown = [text for text in asked if MARK in bash(text, folder)]
    assert len(shown) >= LEAKS_MIN, sorted(set(asked) - set(shown))


def test_without_secrets_the_same_commands_run(tmp_path: Path) -> None:
    """A repository that has no secret is searched and compared unasked, as before."""
    root = tmp_path / "plain"
    (root / "src").mkdir(parents=True)
    (root / "src" / "a.py").write_text("x\n")
    (root / ".npmrc").write_text("save-exact=true\n")
    git = "git -c user.name=a -c user.email=b -c commit.gpgsign=false"
    bash(f"git init -q . && git add . && {git} commit -qm a", root)
    bash("git remote add origin https://example.invalid/x.git", root)
    for text in (
        "grep -r x .",
        "rg x",
        "git log -p",
        "git show HEAD",
        "git diff",
        "git grep x",
        "git remote -v",
    ):
        assert is_allowed(text, root), text
    (root / ".npmrc").write_text("//registry.invalid/:_authToken=abc\n")
    assert not is_allowed("grep -r x .", root)


def test_links_lead_to_no_secret(folder: Path) -> None:
    (folder / "src" / "notes.txt").symlink_to("../.env")
    (folder / "src" / "more").symlink_to("../config")
    assert not is_allowed("cat src/notes.txt", folder)
    assert not is_allowed("diff -r src build", folder)
    assert is_allowed("grep -r x src", folder)  # it follows none of them
    assert MARK not in bash("grep -r x src", folder)


def test_a_walk_has_an_end_and_leaves_out_what_others_publish(tmp_path: Path) -> None:
    look = SecretFiles({"PATH": PATH})
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "x.pem").write_text("x")
    assert not look.secret_below(str(tmp_path), reach="all")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert not look.secret_below(str(tmp_path), reach="linked")
    (tmp_path / ".x").mkdir()
    (tmp_path / ".x" / "a.key").write_text("x")
    assert not look.secret_below(str(tmp_path), reach="shown")
    assert look.secret_below(str(tmp_path), reach="all")
    assert look.secret_below(str(tmp_path / "missing"), reach="all") == ""


def test_a_folder_that_is_in_no_repository_has_no_history(tmp_path: Path) -> None:
    look = SecretFiles({"PATH": PATH})
    assert look.secret_in_history(str(tmp_path)) == ""
    assert look.secret_in_remotes(str(tmp_path)) == ""
    (tmp_path / ".git").mkdir()
    assert "could not be checked" in look.secret_in_history(str(tmp_path))
    assert "could not be checked" in SecretFiles({"PATH": ""}).secret_in_history(str(tmp_path))


def test_a_worktree_has_the_addresses_of_its_repository(folder: Path) -> None:
    bash("git worktree add -q ../other", folder)
    assert SecretFiles({"PATH": PATH}).secret_in_remotes(str(folder.parent / "other"))


def test_a_repository_runs_no_program_of_its_own_while_it_is_looked_at(folder: Path) -> None:
    """P11: what the repository's settings name is not started to judge a command."""
    ran = folder.parent / "ran"
    for key in ("core.fsmonitor", "core.pager", "diff.external", "core.sshCommand", "gpg.program"):
        bash(f"git config {key} 'touch {ran}'", folder)
    bash("git config log.showSignature true", folder)
    assert SecretFiles({"PATH": PATH}).secret_in_history(str(folder))
    assert not ran.exists()


def test_a_link_that_cannot_be_read_is_asked_about(folder: Path) -> None:
    """P12: a link of another process is none of ours to read, and no error either."""
    for text in ("cat /proc/1/cwd/x", "ls /proc/1/root", "cat /proc/1/fd/0"):
        assert not is_allowed(text, folder)
