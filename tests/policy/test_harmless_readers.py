"""Commands that only read and so need no question, and those next to them that still ask."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.agent.policy import ConfiguredJudge
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.file_patterns import with_names
from holdfast.policy.shell.words import Word, read_word
from holdfast.policy.verdicts import Allow, Verdict
from holdfast.tools.files.trees import MATCHES_MAX, NAMES_MAX, matches
from holdfast.values import Action, ApprovalMode

_SLASHES = re.compile("/+")
RUNS = (
    "ls *.py",
    "cat src/*.md",
    "wc -l *.py src/*.md",
    "grep -n foo src/*.md",
    "head -n 1 ./*.py",
    "ls s*/*.md",
    "cat *.none",
    "cat *.py | sort | uniq -c",
    "ls ?.py",
    "cat [ab].py",
    "ls src/[x-z].md [!q].py",
    "cat {a,b}.py",
    "wc -l *.{py,json} src/{x,y}.md",
    "cd src && cat *.md",
    "cd src; ls {x,y}.md && grep -n foo [xy].md",
    "for i in 1 2 3; do echo $i; done",
    'for name in a b/c; do echo "file: $name" ${name}; ls src; done',
    "python3 --version",
    "python3.11 -V",
    "git --version",
    "node --version",
    "make --version",
    "git config --get user.name",
    "git config --get branch.main.remote",
    "echo $HOME",
    'echo "home: ${HOME}" $? $USER',
    "jq . a.json",
    "jq -r '.a.b | length' a.json",
    "cat a.json | jq '.[0]'",
)
ASKS = (
    "cat *",  # a name that is an option
    "ls ?*",
    "grep x *",
    "cat conf/*",  # secrets
    "cat c*/prod*",
    "cat links/*",  # out of the workspace
    "ls out/*",
    "cat ../*",
    "cat /etc/host*",
    "cat ~/*",
    "cat .*",
    "cat **",
    "cat [a]*",
    "cat [!x]*",  # a name that is an option
    "cat l[i]nks/*",
    "cat conf/[p]rod.env",
    "cat .[e]nv",
    "cat [[:alpha:]].py",
    "cat {a,b}{",
    "cat {a,../../x}.py",
    "cat {a,.env}",
    "cat conf/{prod.env,a.toml}",
    "cat {a,-n}",
    "cat {,-}n",
    "cat {a..c}.py",
    "cat {a,{b,c}}.py",
    "cat {a,$x}.py",
    "cat {a,'b'}.py",
    "{cat,a.py}",
    "rm {a,b}.py",
    "sort {-o,a.py}",
    "uniq {a,b}.py",
    "cat 'a'*.py",
    "cat \\*.py",
    "cat $x*.py",
    "uniq *.py",  # writes to the second
    "sort -o *.py",
    "rm *.py",
    "jq *",  # a file named env
    "printf *.py",
    "find *.py",
    "date *.py",
    "git diff *.py",
    "cat *.py > all.py",
    "touch -- -n; cat *.py",
    "ln -s /etc/passwd c.py; cat *.py",
    "cd conf && cat *",
    "cd src && cat ../conf/*.env",
    "cd out && ls *",
    "cd links; cat *",
    "cd src || cat c*/*",  # of the folder before
    "ls -*",
    "xargs cat *.py",
    "cargo --version",  # reads rust-toolchain.toml
    "go version -m x",
    "npm --version",
    "python3 --version -c 1",
    "./python3 --version",
    "git --version --exec-path=/etc",
    "git -c core.pager=x --version",
    "git config --get http.extraheader",
    "git config --get-all user.name",
    "git config --list",
    "git config user.name x",
    "git config --get user.name --file /etc/x",
    "echo $SECRET",
    "echo $HOMER",
    "echo $HOME/*",
    "echo ${HOME:-$SECRET}",
    "echo $HOME$(cat x)",
    "HOME=x; echo $HOME",
    "ls $HOME",
    "jq env a.json",
    "jq '$ENV.KEY' a.json",
    "jq -f a.jq a.json",
    "jq . /etc/passwd",
    "jq . .env",
    "jq --rawfile a .env . a.json",
    "jq 'import \"a\" as a; .' a.json",
    "jq -n input_filename a.json",
    "find . -name '*.py' | xargs grep foo",  # a name with a blank is two words
    "for i in 1 2; do cat $i; done",
    "for i in 1 2; do $i; done",
    "for i in *; do echo $i; done",
    "for i in $(ls); do echo $i; done",
    "for i in; do :; done; echo $i",
    "for i in 1; do :; done; echo $i",
    "(for token in 1; do :; done); echo $token",
    "for tokenx in 1; do echo ${token}x; done",
    "for i in 1; do i=$TOKEN; echo $i; done",
    "for i in 1; do read i; echo $i; done",
    "for PATH in /tmp/x; do ls; done",
    "for https_proxy in x; do echo $https_proxy; done",
    "for i in 1 2; do echo $i > a.py; done",
    "for i in 1 2; do echo $i $TOKEN; done",
    "for i in 1 2; do echo ${i:-$TOKEN}; done",
    "select i in 1 2; do echo $i; done",
    "for i in 1 2; do touch x; echo $i; done",
    "echo ${HO}ME",
    "echo $HOME${HO}ME",
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    for name in ("a.py", "b.py", "a.json", "-n", "src/x.md", "src/y.md", "conf/prod.env", "conf/a.toml"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x")
    (tmp_path / "elsewhere").mkdir()
    (root / "links").mkdir()
    (root / "links" / "p").symlink_to("/etc/passwd")
    (root / "out").symlink_to(tmp_path / "elsewhere")
    return root


def judged(text: str, workspace: Path, mode: ApprovalMode = "ask") -> Verdict:
    action = Action(tool="shell", summary=text, argv=("/bin/bash", "-c", text), paths=(str(workspace),))
    return ConfiguredJudge(home=workspace.parent, mode=mode).verdict(action, (), workspace=workspace)


def test_a_harmless_reader_runs_without_a_question(workspace: Path) -> None:
    assert {text: found for text in RUNS if not isinstance(found := judged(text, workspace), Allow)} == {}


def test_what_only_looks_like_a_harmless_reader_asks(workspace: Path) -> None:
    """P11, P8: a pattern may match an option, a secret or a link; a version may be asked of anything."""
    assert {text: found for text in ASKS if isinstance(found := judged(text, workspace), Allow)} == {}


def test_a_pattern_behind_a_step_that_makes_files_asks_where_the_workspace_is_trusted(tmp_path: Path) -> None:
    """P11: the file that the first step makes would be an option of the second, which then reads a secret."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".env").write_text("SECRET=1")
    (tmp_path / "b").write_text("x")
    assert isinstance(judged("grep SECRET *", tmp_path, "workspace"), Allow)
    assert isinstance(judged("touch -- -r", tmp_path, "workspace"), Allow)
    assert not isinstance(judged("touch -- -r; grep SECRET *", tmp_path, "workspace"), Allow)


def test_the_order_of_the_names_decides_nothing(tmp_path: Path) -> None:
    """P8: where `--` comes behind it, `-ob` is an option; which comes first depends on the language."""
    for name in ("--", "-ob", "a"):
        (tmp_path / name).write_text("x")
    assert not isinstance(judged("sort *", tmp_path), Allow)
    other = tmp_path / "other"
    other.mkdir()
    for name in ("a.pem", "b.txt"):
        (other / name).write_text("x")
    assert not isinstance(judged("grep *", other), Allow)  # the first is a pattern, the others are read


def test_a_pattern_matches_what_a_shell_matches_or_more(tmp_path: Path) -> None:
    for name in ("a", "ab", ".hidden", "é", "d/x", "d/.y", "e/x"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    folder = str(tmp_path)
    assert sorted(matches(folder, "*") or ()) == ["a", "ab", "d", "e", "é"]
    assert sorted(matches(folder, "*/x") or ()) == ["d/x", "e/x"]
    assert set(matches(folder, "?") or ()) >= {"a", "d", "e", "é"}
    assert matches(folder, "none*") == ("none*",)
    assert matches(folder, "a/*") == ("a/*",)
    assert matches(folder, f"{folder}/d/*") == (f"{folder}/d/x",)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text("ab{},*?[]!^-./x", min_size=1, max_size=9), min_size=30, max_size=60))
def test_a_real_bash_passes_no_word_that_was_not_judged(tmp_path: Path, texts: list[str]) -> None:
    """P8, P11: whatever braces, classes and stars are combined."""
    for name in ("a", "b", "ab", "x.a", "[ab]", "{a,b}", "-a", ".x", "x/a", "x/b"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    folder = str(tmp_path)
    facts = PathFacts(folder, "/home/u", (), os.path.realpath, matches=matches)
    read = {text: with_names((Word("ls"), read_word(text)), facts, cwd=folder) for text in texts}
    known = {text: {word.text for word in words} for text, words in read.items() if words}
    script = "\n".join(f"printf '%s\\0' {text}; printf '\\n'" for text in known)
    for shell in ("bash", "sh"):
        said = subprocess.run([shell, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
        for (text, words), line in zip(known.items(), said.stdout.splitlines(), strict=True):
            # Shells don't agree on how many of several slashes they keep.
            passed = {_SLASHES.sub("/", word) for word in line.rstrip("\0").split("\0")}
            assert passed <= {_SLASHES.sub("/", word) for word in words}, (shell, text)


def test_too_many_names_are_not_looked_through(tmp_path: Path) -> None:
    for number in range(MATCHES_MAX + 1):
        (tmp_path / f"{number}.txt").touch()
    assert matches(str(tmp_path), "*.txt") is None
    assert matches(str(tmp_path), "1.*") == ("1.txt",)
    for number in range(MATCHES_MAX + 1, NAMES_MAX + 1):
        (tmp_path / f"{number}.txt").touch()
    assert matches(str(tmp_path), "1.*") is None


def test_a_folder_that_cannot_be_read_asks(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    assert matches(str(tmp_path), "loop/*") is None
