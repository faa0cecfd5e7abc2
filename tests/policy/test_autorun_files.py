"""What acts after the session is asked about in every mode, however a command would bring it."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.verdicts import Allow, NeedsApproval, Verdict
from holdfast.tools.files.trees import NAMES_MAX, below
from holdfast.values import Action

# fmt: off
AUTORUN = (
    ".git/hooks/pre-commit", ".git/config", ".git/info/attributes", ".git/modules/x/config",
    ".gitattributes", "AGENTS.md", "sub/CLAUDE.md", ".agents/x.md", ".claude/settings.json", ".mcp.json",
    ".envrc", ".vscode/tasks.json", ".idea/workspace.xml", ".devcontainer/devcontainer.json",
    ".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-commit", ".pre-commit-config.yaml",
    "Makefile", "sub/GNUmakefile", "justfile", "Rakefile", ".VSCode/tasks.json", "agents.MD",
    ".cargo/config.toml", "x.code-workspace", "venv/lib/x.pth",
    "rules.mk", "opencode.json", ".opencode/agent/x.md", ".aider.conf.yml", "CONVENTIONS.md",
    ".junie/guidelines.md", ".run/x.run.xml", ".vs/tasks.vs.json", ".lvimrc", ".vim/vimrc", ".nvim.lua",
    ".exrc", ".bazelrc", "user.bazelrc", ".tool-versions", "mise.toml", ".mise.toml", ".envrc.local",
    "cloudbuild.yaml", "cloudbuild.yml", "GEMINI.md", ".cursor/rules/x.mdc", ".cursorrules",
    ".windsurfrules", ".clinerules", ".continue/config.yaml", "azure-pipelines.yaml", "Taskfile.dist.yml",
    ".hg/hgrc", ".jj/repo/config.toml", "buildspec.yml", ".drone.yaml", ".semaphore/x.yml", ".pryrc",
    "flake.nix", ".mvn/extensions.xml", "gradle/wrapper/gradle-wrapper.jar", ".yarn/releases/yarn.cjs",
    "lefthook-local.yml", ".lintstagedrc.mjs", "ci.just", "Procfile.dev", ".github/hooks/x.json", "QWEN.md",
    ".ipython/profile_default/startup/00.py", ".amp/settings.json", ".watchmanconfig", "sub/.pylintrc",
)
ORDINARY = (
    "src/main.py", "package.json", "setup.py", "conftest.py", "pyproject.toml", "README.md",
    "docs/agents.rst", "gradle/libs.versions.toml", ".hg/store/data/x.i", "yarn/releases/x",
    ".github/CODEOWNERS", ".github/ISSUE_TEMPLATE/bug.md", "workflows/ci.yml",
    "tests/Makefile.am", ".gitignore", "Cargo.toml", "build.rs", "CMakeLists.txt", ".editorconfig",
)
BRINGS = (
    "cp -r evil/. .", "cp -a evil/. .", "cp -R evil/. sub", "mv evil/AGENTS.md .", "mv gh .github",
    "cp -r gh .github", "cp -r gh/. .github", "cp -rt .github gh/workflows",
    "cp gh/workflows/ci.yml .github/workflows/", "cp --recursive --target-directory=.github gh/workflows",
    "ln -s evil .vscode", "ln -s ../evil/AGENTS.md", "ln -sf src/main.py AGENTS.md", "mv evil other",
    "install -D src/main.py .husky/pre-commit", "tar xf a.tar", "tar -xzf a.tgz",
    "tar --extract --file=a.tar", "tar -C sub -x -f a.tar", "unzip a.zip", "unzip -o a.zip -d sub",
    "bsdtar -xf a.zip", "7z x a.7z", "7z -y x a.7z", "ditto evil .", "unzip -ov a.zip",
    "python -m zipfile -e a.zip .", "cpio -id", "patch -p1 -i a.diff", "git apply a.diff", "git am a.mbox",
    "git -C . apply a.diff", "gunzip AGENTS.md.gz", "git mv src/main.py Makefile",
    "git checkout HEAD -- AGENTS.md", "git restore Makefile", "sed -i s/a/b/ Makefile", "tee .envrc",
    "touch AGENTS.md", "rm -f .github/workflows/ci.yml", "echo x > AGENTS.md", "echo x >> sub/Makefile",
    "cp src/main.py AGENTS.md", "cp -r not-there/. .", "mv not-there sub", "truncate -s0 .gitattributes",
    "dd if=src/main.py of=AGENTS.md",
)
BRINGS_NOTHING = (
    "cp -r src lib", "mv src/main.py src/other.py", "cp src/main.py lib.py", "git add AGENTS.md Makefile",
    "git commit -m x Makefile", "make -f Makefile test", "tar cf a.tar src", "tar -tf a.tar",
    "tar czf a.tgz src", "unzip -l a.zip", "git apply --check a.diff", "mkdir -p a/b",
    "echo x > src/new.py", "ln src/main.py src/twin.py", "cat AGENTS.md", "grep -n x Makefile",
    "touch package.json", "gunzip data.gz", "mv src/main.py src/b.py && cat src/b.py",
    "cp -r src lib && ls lib",
)
BY_OPTION = (
    "git log -1 --format=x --output=AGENTS.md", "git log --output AGENTS.md", "git diff --output=CLAUDE.md",
    "git diff --no-index --output=AGENTS.md a b", "git diff-tree --output=AGENTS.md HEAD",
    "git shortlog --output=AGENTS.md", "git whatchanged --output=AGENTS.md", "git blame --output=AGENTS.md x",
    "git range-diff --output=AGENTS.md a b c", "git format-patch -1 --output=AGENTS.md",
    "git format-patch -1 -o .github/workflows --suffix=.yml", "git format-patch --output-directory=.claude",
    "git format-patch -1 --suffix=.mk", "git mailinfo AGENTS.md Makefile", "git merge-file AGENTS.md a b",
    "git bundle create AGENTS.md HEAD", "git fast-export --export-marks=AGENTS.md HEAD",
    "git credential-store --file AGENTS.md store", "git bugreport -o .vscode", "git diagnose -o .vscode",
    "git mailsplit -o.vscode x", "git pack-objects .vscode/x", "git archive -oAGENTS.md HEAD",
    "git --namespace add log --output=AGENTS.md", "git --attr-source add bundle create AGENTS.md HEAD",
    "git -C .vscode format-patch -1 -o x", "git -C .github format-patch -1 -o workflows",
    "git -C sub log --output=Makefile", "git stash push AGENTS.md", "git rm AGENTS.md",
    "sort -oAGENTS.md a", "sort -uoMakefile a", "cc -vvvvvvvvvvvvvvvvvvvvvoMakefile a.c",
    "ld -osub/AGENTS.md a.o", "prettier --write AGENTS.md", "prettier --check --write AGENTS.md",
    "prettier --check --cache-location=AGENTS.md x", "make Makefile", "make -f x AGENTS.md",
    "make -f Makefile Makefile", "make x OUT=AGENTS.md", "markdownlint --fix AGENTS.md",
    "yamllint -o AGENTS.md", "git rm -- --cached AGENTS.md", "git rm --cached --no-cached AGENTS.md",
    "pytest --junitxml=AGENTS.md", "pytest --basetemp=.claude", "python -m pytest --junitxml=Makefile",
)
BY_NEW_NAME = (
    "cp -b -S GENTS.md a.txt A", "cp -bSGENTS.md a.txt A", "cp -b --suffix=GENTS.md a.txt A",
    "cp -b --suf GENTS.md a.txt A", "install -b -S e a.txt Makefil", "ln -b -S e a.txt Makefil",
    "mv -b -S GENTS.md src/main.py A", "rsync -b --suffix=GENTS.md a.txt A",
    "SIMPLE_BACKUP_SUFFIX=GENTS.md cp -b a.txt A", "env SIMPLE_BACKUP_SUFFIX=e cp -b a.txt Makefil",
    "export SIMPLE_BACKUP_SUFFIX=e; cp -b a.txt Makefil", "VERSION_CONTROL=simple cp a.txt Makefil",
    "split -n4 -a1 x AGENTS.m", "split -n5 -a1 x Makefil", "split -n5 x sub/Makefi", "split x a.m",
    "split -a1 --additional-suffix=ents.md x a", "split --additional-suffix ENTS.md x A",
    "csplit -f AGENTS.m x 1", "csplit -fAGENTS.m x 1", "csplit --prefix=Makefil x 1",
    "csplit -f AGENTS. -b md%.0d x 1", "csplit -f x --suffix-format=%d.mk x 1",
    "rename.ul x '' AGENTS.mdx", "rename s/x// AGENTS.mdx", "rename x y a", "mmv a b", "logrotate x.conf",
    "git checkout-index --prefix=A GENTS.md", "sed -iGENTS.md s/a/b/ A", "sed -ni.d s/a/b/ x/../AGENTS.md",
    "sed --in-place=e s/a/b/ Makefil", "sed -i'../A*' s/a/b/ GENTS.md", "gunzip -S x AGENTS.mdx",
    "gzip -dSx AGENTS.mdx", "gunzip -N a.gz", "gunzip AGENTS.md-gz", "gunzip Makefile.z",
)
LEFT_ALONE = (
    "git add .vscode AGENTS.md", "git -C . add Makefile", "git commit -o AGENTS.md -m Makefile",
    "git rm --cached AGENTS.md", "git log -p --stat=200 -- AGENTS.md", "git diff --histogram Makefile",
    "make", "make test", "make -fMakefile", "make --file=Makefile x", "make -C sub -f Makefile",
    "pytest --ignore=.claude", "pytest -q tests", "prettier --check AGENTS.md",
    "shellcheck .husky/pre-commit",
    "actionlint .github/workflows/ci.yml", "yamllint -s .github/workflows/ci.yml", "markdownlint AGENTS.md",
    "cp -b a.txt b.txt", "cp -b -S .bak a.txt b.txt", "cp -b --suffix=.orig a.txt b.txt", "mv -S~ -b lib/a b",
    "split -n4 big part-", "split -l 100 big.csv", "split -a3 -d --additional-suffix=.txt big a",
    "csplit -f part x 1", "csplit -b %03d.txt x 1", "sed -i.bak s/a/b/ src/main.py",
    "gzip -k data", "gcc -Wall -omain main.c", "git format-patch -1 -o out",
    "git -C sub commit -m x", "git merge-file a b c",
)
THROUGH_LINKS = (
    "cd sub/deep && ln -s ../.. ../../x && cat ../../x/etc/passwd", "ln -s . x; cat x/a",
    "ln -s src x && cd x && ls", "ln -s src x; echo y > x/main.py", "mv sub/link x && cat x/a",
    "cp -a sub/link x; ls x", "cp -r sub lib && cat lib/link/a", "ln -s src/main.py; cat main.py",
    "ln -t lib -s src && ls lib/src",
)
# fmt: on


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / ".claude" / "work"  # what lies above the workspace says nothing about its files
    for name in ("src/main.py", "evil/AGENTS.md", "gh/workflows/ci.yml", "sub/deep/a", "lib/a"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / "sub" / "link").symlink_to("deep")
    return root


def judged(root: Path, action: Action, *rules: ApprovalRule) -> Verdict:
    judge = ConfiguredJudge(mode="workspace", rules=rules, home=root.parent.parent / "home")
    return judge.verdict(action, (), workspace=root)


def shell(root: Path, command: str) -> Action:
    return Action(tool="shell", summary=command, argv=("/bin/bash", "-c", command), paths=(str(root),))


def commands(root: Path, *texts: str) -> dict[str, type[Verdict]]:
    """What each command gets."""
    return {text: type(judged(root, shell(root, text))) for text in texts}


def files(root: Path, tool: str, *names: str) -> dict[str, type[Verdict]]:
    """What each file gets that the tool changes."""
    changes = {name: Action(tool=tool, summary="", paths=(str(root / name),)) for name in names}
    return {name: type(judged(root, action)) for name, action in changes.items()}


def test_a_file_that_acts_later_is_not_written_unasked(root: Path) -> None:
    """P8."""
    for tool in ("write_file", "edit_file"):
        assert files(root, tool, *AUTORUN) == dict.fromkeys(AUTORUN, NeedsApproval), tool


def test_what_an_agent_edits_all_day_is_not_asked_about(root: Path) -> None:
    assert files(root, "edit_file", *ORDINARY) == dict.fromkeys(ORDINARY, Allow)
    edits = [f"sed -i s/a/b/ {name}" for name in ORDINARY]
    assert commands(root, *edits) == dict.fromkeys(edits, Allow)


def test_no_command_brings_a_file_that_acts_later_unasked(root: Path) -> None:
    """P8."""
    bring = (*BRINGS, *BY_OPTION, *BY_NEW_NAME)
    assert commands(root, *bring) == dict.fromkeys(bring, NeedsApproval)


def test_a_command_that_brings_no_such_file_is_not_asked_about(root: Path) -> None:
    harmless = (*BRINGS_NOTHING, *LEFT_ALONE)
    assert commands(root, *harmless) == dict.fromkeys(harmless, Allow)


def test_a_path_through_a_link_that_the_same_command_can_make_is_asked_about(root: Path) -> None:
    """P8: where it leads is not known before the command runs."""
    assert commands(root, *THROUGH_LINKS) == dict.fromkeys(THROUGH_LINKS, NeedsApproval)


def test_a_rule_for_a_command_does_not_cover_them_with_its_folder_either(root: Path) -> None:
    for command in ("tar xf a.tar", "cp src/main.py AGENTS.md", "mv evil other"):
        action = shell(root, command)
        rule = ApprovalRule("allow", "shell", argv=tuple(command.split()))
        for each in (rule, replace(rule, paths=(str(root),)), replace(rule, argv=(), paths=(str(root),))):
            assert isinstance(judged(root, action, each), NeedsApproval), (command, each)
        assert isinstance(judged(root, action, ApprovalRule("allow", "shell")), Allow), command


def test_a_rule_for_an_edit_in_place_does_not_cover_a_backup_that_acts_later(root: Path) -> None:
    """P8."""
    for command in ("sed -i.md s/a/b/ CLAUDE", "sed --in-place=.md s/a/b/ CLAUDE", "sed -i*.txt s/a/b/ a"):
        plain = command.replace("CLAUDE", "a").replace("*", "")
        for text, said in ((command, NeedsApproval), (plain, Allow)):
            action = Action(tool="shell", summary="", argv=tuple(text.split()), paths=(str(root),))
            rule = ApprovalRule("allow", "shell", argv=action.argv)
            assert isinstance(judged(root, action, rule), said), text


def test_a_person_hears_why(root: Path) -> None:
    found = judged(root, shell(root, "cp -r evil/. ."))
    assert isinstance(found, NeedsApproval)
    assert f"{root}/evil/AGENTS.md takes effect after this session" in " ".join(found.findings)


def test_a_folder_with_too_much_in_it_is_not_known(tmp_path: Path) -> None:
    for number in range(NAMES_MAX + 1):
        (tmp_path / str(number)).touch()
    assert not below(str(tmp_path)).known
    assert not below(str(tmp_path / "none")).known
    assert not below("\0").known


def test_more_files_than_are_looked_into_are_asked_about(root: Path) -> None:
    many = " ".join(f"src/{number}" for number in range(30))
    assert isinstance(judged(root, shell(root, f"cp -r {many} evil .")), NeedsApproval)
    assert isinstance(judged(root, shell(root, f"cp {many} lib")), Allow)
    assert isinstance(judged(root, shell(root, f"cp -a {many} lib; cat lib/a")), NeedsApproval)
