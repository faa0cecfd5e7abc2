"""What holds for every command: nothing raises, nothing makes a verdict milder, quotes change nothing."""

import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.policy.approvals import choices_for, judge
from holdfast.policy.shell.syntax import SYNTAX_BYTES_MAX, parse
from holdfast.policy.verdicts import NeedsApproval
from holdfast.values import ApprovalMode
from policy.approval_world import closed_commands, policy, rank, shell, verdict

pytestmark = pytest.mark.long

MODES: tuple[ApprovalMode, ...] = ("ask", "workspace")
CLOSED = closed_commands()
SIMPLE = [text for text in CLOSED if len(parse(text).commands) == 1 and not parse(text).findings]
JOINED = (
    "{}; {}",
    "{} && {}",
    "{} || {}",
    "{} | {}",
    "{} |& {}",
    "{} & {}",
    "{}\n{}",
    "({}; {})",
    "{{ {}; {}; }}",
    "{}; ( {} )",
    "echo $({}) $({})",
    "cat <({}) <({})",
    "if {}; then {}; fi",
    "while {}; do {}; done",
    "f() {{ {}; {}; }}",
    "! {} || ! {}",
)
# fmt: off
WRAPPERS = (
    "time ", "env ", "nohup ", "timeout 5 ", "command ", "sudo ", "xargs ", "nice -n 5 ", "exec ",
    "X=1 ",
)
REDIRECTS = (
    " > f", " 2>/dev/null", " < f", " >> ../x", " &> f", " 2>&1", " <<< x", " > $f", " <<'E'\nx\nE\n",
)
TOKENS = (
    "ls", "rm", "-rf", "/", "~", "$HOME", "cat", "'", '"', "\\", "\n", " ", "\t", ";", "&&", "||", "|",
    "&", "(", ")", "{", "}", "#", "$", "$(", "`", "<", ">", "<<", "<<<", "<<'E'", "E", "2>", "&1", "=",
    "x=", "*", "[", "]", "[[", "]]", "((", "))", "if", "then", "fi", "for", "in", "do", "done", "case",
    "esac", "function", "sh -c ", "eval ", "env ", "xargs ", "find . -exec ", "git ", "sed ", "awk ",
    "\r", "\x00", "\u202e", "\ud800", "é", "cd ",
)
PLAIN_WORDS = st.sampled_from((
    "ls", "cat", "rm", "git", "status", "log", "-l", "-rf", "src/a.py", "/etc/passwd", "../x", ".env",
    "make", "grep", "find", ".", "-name", "-delete", "timeout", "5", "env", "curl", "sh", "-c", "/",
    "python", "--",
))
UNITS = (
    "(", "$(", "`", "a && ", "<<E ", "{a,", '"$(', "a|", "a=(", "${", ")", "?a", "if ", "time ",
    "cd a;", "a:",
)
# fmt: on


@settings(max_examples=250)
@given(st.sampled_from(CLOSED), st.sampled_from(CLOSED), st.sampled_from(JOINED), st.sampled_from(MODES))
def test_a_compound_command_is_never_milder_than_its_worst_part(
    one: str, two: str, joined: str, mode: ApprovalMode
) -> None:
    text = joined.format(one, two)
    assert rank(text, mode) >= max(rank(one, mode), rank(two, mode)), text


@settings(max_examples=250)
@given(st.sampled_from(CLOSED), st.sampled_from(CLOSED), st.sampled_from(JOINED))
def test_no_mode_is_milder_than_the_one_that_allows_the_workspace(one: str, two: str, joined: str) -> None:
    text = joined.format(one, two)
    assert min(rank(text, mode) for mode in MODES) == rank(text, "workspace"), text


@settings(max_examples=150)
@given(st.sampled_from(CLOSED), st.sampled_from(("sh -c {}", "bash -lc {}", "eval {}", "env sh -c {}")))
def test_a_text_inside_a_shell_is_never_milder_than_outside(text: str, outer: str) -> None:
    assert rank(outer.format(shlex.quote(text))) >= rank(text)


@settings(max_examples=200)
@given(st.sampled_from(SIMPLE), st.sampled_from(WRAPPERS), st.sampled_from(MODES))
def test_a_wrapper_never_makes_a_command_milder(text: str, wrapper: str, mode: ApprovalMode) -> None:
    assert rank(wrapper + text, mode) >= rank(text, mode), wrapper + text


@settings(max_examples=200)
@given(st.sampled_from(SIMPLE), st.sampled_from(REDIRECTS), st.sampled_from(MODES))
def test_a_redirection_never_makes_a_command_milder(text: str, redirect: str, mode: ApprovalMode) -> None:
    assert rank(text + redirect, mode) >= rank(text, mode), text + redirect


@settings(max_examples=200)
@given(st.lists(PLAIN_WORDS, min_size=1, max_size=6), st.sampled_from(MODES))
def test_quoting_a_literal_word_changes_nothing(words: list[str], mode: ApprovalMode) -> None:
    plain = rank(" ".join(words), mode)
    assert rank(" ".join(f"'{word}'" for word in words), mode) == plain
    assert rank(" ".join(f'"{word}"' for word in words), mode) == plain
    assert rank(" ".join(f"{word[:1]}''{word[1:]}" for word in words), mode) == plain


@settings(max_examples=300)
@given(st.one_of(st.text(max_size=200), st.lists(st.sampled_from(TOKENS), max_size=30).map("".join)))
def test_no_text_makes_the_policy_raise(text: str) -> None:
    for mode in ("ask", "workspace", "unattended"):
        judge(shell(text), policy(mode=mode))
    choices_for(shell(text), policy())


def test_a_text_that_would_take_the_parser_long_asks_unread() -> None:
    """With these the parser alone takes seconds for 60 kB, so that only so much is ever handed to it."""
    for unit in UNITS:
        assert isinstance(verdict(unit * (SYNTAX_BYTES_MAX // len(unit))), NeedsApproval), unit
        found = verdict(unit * (60_000 // len(unit)))
        assert found == NeedsApproval(("The command is too long to check.",)), unit


def test_nesting_has_an_end() -> None:
    deep = "ls"
    for _ in range(12):
        deep = f"sh -c {shlex.quote(deep)}"[:60_000]
    assert isinstance(verdict(deep), NeedsApproval)
    assert isinstance(verdict(" ".join(["time"] * 12 + ["ls"])), NeedsApproval)
    assert isinstance(verdict(" ".join(["eval"] * 12 + ["ls"])), NeedsApproval)
    assert isinstance(verdict("ls " + "a:" * 40), NeedsApproval)
    assert isinstance(verdict("(" * 70 + "ls" + ")" * 70), NeedsApproval)
    assert isinstance(verdict("echo " + "$(echo " * 70 + "ls" + ")" * 70), NeedsApproval)
