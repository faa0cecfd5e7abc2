"""What the approval policy says of commands and tools: the corpus, modes, rules, grants."""

from collections.abc import Mapping

import pytest
from approval_world import PLACES, WORKSPACE, Shape, named, policy, shapes, shell, verdict

from holdfast.approval_rules import BadRule, Rule, rule_from
from holdfast.approvals import FINDINGS_MAX, ApprovalMode, choices_for, describe, digest_of, judge, rule_for
from holdfast.values import Action, GrantRule
from holdfast.verdicts import Allow, Ask, Deny

ALL_CHOICES = ("once", "session", "always", "deny")


def grant(*argv: str, cwd: str = WORKSPACE, writes: tuple[str, ...] = ()) -> GrantRule:
    return GrantRule(tool="shell", argv=argv, paths=(cwd, *writes))


def tool(name: str, *paths: str, host: str = "") -> Action:
    return Action(tool=name, summary=name, paths=paths, host=host)


@pytest.mark.parametrize("shape", shapes(), ids=lambda shape: shape.name)
def test_each_command_of_the_corpus_gets_what_was_written_down(shape: Shape) -> None:
    assert 1 <= len(shape.commands) <= 5
    for command in shape.commands:
        found = verdict(command)
        assert named(found) == shape.ask, f"{command!r} in mode ask: {found}"
        found = verdict(command, mode="allow-workspace")
        assert named(found) == shape.workspace, f"{command!r} in mode allow-workspace: {found}"
        found = verdict(command, mode="unattended")
        assert isinstance(found, Allow if shape.ask == "allow" else Deny), f"{command!r} unattended: {found}"


def test_unattended_says_that_nobody_was_there_and_what_would_have_been_asked() -> None:
    found = verdict("make", mode="unattended")
    assert isinstance(found, Deny)
    assert found.reason == "no_approver"
    assert found.findings == ("`make` is not on the list of programs that only read.",)


def test_what_is_always_denied_is_denied_for_itself_and_not_for_want_of_an_approver() -> None:
    found = verdict("rm -rf /", mode="unattended")
    assert isinstance(found, Deny)
    assert found.reason == "denied"


def test_all_findings_are_told_and_not_only_the_first() -> None:
    found = verdict("PATH=. curl $X > ../f; cat .env")
    assert isinstance(found, Ask)
    text = " ".join(found.findings)
    for reason in ("sets PATH", "other machines", "`$X`", "/home/u/f", "secrets"):
        assert reason in text


def test_allow_workspace_says_that_it_trusts_programs() -> None:
    found = verdict("make", mode="allow-workspace")
    assert isinstance(found, Allow)
    assert "trusted" in found.why


def test_findings_are_bounded_and_free_of_what_a_terminal_obeys() -> None:
    found = verdict(" ".join(["ls", "$'\\e[2J'", *(f"${{x{nth}}}" for nth in range(300))]))
    assert isinstance(found, Ask)
    assert len(found.findings) == FINDINGS_MAX + 1
    assert found.findings[-1].endswith("more.")
    assert "\x1b" not in "".join(found.findings)


def test_the_workspace_as_a_whole_is_not_taken_away_unasked() -> None:
    for command in ("rm -rf .", f"rm -r {WORKSPACE}", "find . -delete", "mv ../project x", "rm -r src/.."):
        assert isinstance(verdict(command, mode="allow-workspace"), Ask), command


def test_a_command_that_would_run_outside_the_workspace_asks() -> None:
    assert isinstance(judge(shell("ls", cwd="/etc"), policy()), Ask)
    assert isinstance(judge(shell("ls", cwd=f"{WORKSPACE}/src"), policy()), Allow)
    assert isinstance(judge(Action(tool="shell", summary="", argv=("bash", "-c", "ls")), policy()), Allow)


def test_an_argv_that_is_no_shell_is_judged_as_it_stands() -> None:
    assert isinstance(judge(Action(tool="shell", summary="", argv=("ls", "$(x)")), policy()), Allow)
    assert isinstance(judge(Action(tool="shell", summary="", argv=("rm", "-rf", "/")), policy()), Deny)
    assert isinstance(judge(Action(tool="shell", summary="", argv=("zsh", "-c", "ls")), policy()), Ask)
    assert isinstance(judge(Action(tool="shell", summary=""), policy()), Ask)


# Rules


def test_the_rule_of_the_manual_allows_git_status_with_any_fixed_words() -> None:
    rule = rule_from({"allow": "shell", "argv": ["make"]})
    assert isinstance(verdict("make test", rule), Allow)
    assert isinstance(verdict("/usr/bin/make", rule), Allow)
    assert isinstance(verdict("timeout 9 make && ls", rule), Allow)
    for beyond in (
        "make $X",
        "make > f",
        "X=1 make",
        "make; curl x",
        "./make",
        "make < .env",
        "makefile",
        "make &",
    ):
        assert isinstance(verdict(beyond, rule), Ask), beyond


def test_a_rule_with_a_longer_argv_covers_no_shorter_command() -> None:
    rule = Rule("allow", "shell", argv=("git", "commit"))
    assert isinstance(verdict("git commit -m x", rule), Allow)
    assert isinstance(verdict("git", rule), Ask)
    assert isinstance(verdict("git add .", rule), Ask)


def test_a_rule_with_paths_covers_what_stays_there() -> None:
    rule = Rule("allow", "shell", argv=("rm",), paths=("build",))
    assert isinstance(verdict("rm -r build/x build/y", rule), Allow)
    assert isinstance(verdict("rm -r build/x src", rule), Ask)
    assert isinstance(verdict("rm build/../src/x", rule), Ask)
    assert isinstance(verdict("rm -r out/x", rule), Ask)
    anywhere = Rule("allow", "shell", paths=("/tmp/job", "build"))
    assert isinstance(verdict("touch /tmp/job/a > build/b", anywhere), Allow)
    assert isinstance(verdict("touch /tmp/job/a > c", anywhere), Ask)
    assert isinstance(verdict("make", anywhere), Ask)


def test_a_rule_for_the_shell_as_a_whole_covers_all_but_what_cannot_be_read_and_what_is_always_denied() -> (
    None
):
    rule = Rule("allow", "shell")
    assert isinstance(verdict("sudo curl $X > /tmp/y", rule), Allow)
    assert isinstance(verdict("echo 'a", rule), Ask)
    assert isinstance(verdict("rm -rf /", rule), Deny)
    assert isinstance(verdict("echo x > /home/u/.config/holdfast/config.toml", rule), Deny)


def test_deny_and_ask_rules_see_through_options_wrappers_and_paths() -> None:
    deny = Rule("deny", "shell", argv=("git", "push"))
    for command in ("git push", "git -C . push", "ls; /opt/git push x", "sudo git push", "sh -c 'git push'"):
        assert isinstance(verdict(command, deny), Deny), command
    assert not isinstance(verdict("git status", deny), Deny)
    wrapper = Rule("deny", "shell", argv=("sudo",))
    assert isinstance(verdict("sudo ls", wrapper), Deny)
    ask = Rule("ask", "shell", argv=("cat",))
    found = verdict("cat README.md", ask)
    assert isinstance(found, Ask)
    assert found.findings == ("A rule says to ask about shell cat.",)


def test_deny_rules_with_paths_need_only_one_path() -> None:
    rule = Rule("deny", "shell", paths=("secret",))
    assert isinstance(verdict("cat README.md secret/x", rule), Deny)
    assert isinstance(verdict("ls > secret/x", rule), Deny)
    assert isinstance(verdict("cat README.md", rule), Allow)


def test_the_first_rule_that_matches_decides() -> None:
    allow, deny = Rule("allow", "shell", argv=("make", "test")), Rule("deny", "shell", argv=("make",))
    assert isinstance(verdict("make test", allow, deny), Allow)
    assert isinstance(verdict("make test", deny, allow), Deny)
    assert isinstance(verdict("make all", allow, deny), Deny)


def test_a_denied_part_denies_the_whole_whatever_else_is_allowed() -> None:
    rules = (Rule("allow", "shell", argv=("make",)), Rule("deny", "shell", argv=("curl",)))
    assert isinstance(verdict("make && curl x", *rules), Deny)


def test_rules_run_unattended() -> None:
    rule = Rule("allow", "shell", argv=("make",))
    found = verdict("make | tail -5", rule, mode="unattended")
    assert found == Allow("A rule allows shell make. It only reads, inside the workspace.")


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({}, "exactly one"),
        ({"allow": "shell", "deny": "shell"}, "exactly one"),
        ({"allow": "shell", "args": ["x"]}, "'args'"),
        ({"allow": 1}, "as text"),
        ({"allow": "shell", "argv": "ls"}, "list of texts"),
        ({"allow": "shell", "argv": []}, "not empty"),
        ({"allow": "shell", "paths": [1]}, "list of texts"),
        ({"allow": "read_file", "argv": ["ls"]}, "not read_file"),
        ({"allow": "fetch_url", "host": 1}, "as text"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_with_a_sentence(
    table: Mapping[str, object], says: str
) -> None:
    with pytest.raises(BadRule, match=says):
        rule_from(table)


# Grants


def test_a_grant_covers_exactly_its_command() -> None:
    granted = (grant("rm", "-r", "build"),)
    for command in (
        "rm -r build",
        "rm -r 'build'",
        "rm -r build; ls",
        "time rm -r build",
        "rm -r build | cat",
    ):
        assert isinstance(verdict(command, grants=granted), Allow), command
    for command in (
        "rm -r build; curl x | sh",
        "rm -r build ../x",
        "rm -rf build",
        "rm -r ./build",
        "rm -r build > f",
        "rm -r build &",
        "X=1 rm -r build",
        "cd src && rm -r build",
        "echo y | rm -r build",
        "rm -r build < f",
        "rm -r $build",
    ):
        assert isinstance(verdict(command, grants=granted), Ask), command


def test_a_grant_holds_only_in_its_directory() -> None:
    granted = (grant("make", cwd=f"{WORKSPACE}/src"),)
    assert isinstance(judge(shell("make", cwd=f"{WORKSPACE}/src"), policy(), granted), Allow)
    assert isinstance(judge(shell("make"), policy(), granted), Ask)


def test_a_grant_names_the_files_that_are_written() -> None:
    rule = rule_for(shell("make > build.log"), policy())
    assert rule == grant("make", writes=(f"{WORKSPACE}/build.log",))
    assert isinstance(verdict("make > build.log", grants=(rule,)), Allow)
    assert isinstance(verdict("make > other.log", grants=(rule,)), Ask)
    assert isinstance(verdict("make 2>/dev/null", grants=(rule,)), Allow)


def test_no_grant_reaches_what_is_always_denied_or_what_a_rule_denies() -> None:
    assert isinstance(verdict("rm -rf /", grants=(grant("rm", "-rf", "/"),)), Deny)
    deny = Rule("deny", "shell", argv=("make",))
    assert isinstance(verdict("make", deny, grants=(grant("make"),)), Deny)
    assert rule_for(shell("rm -rf /"), policy()) is None
    assert rule_for(shell("make"), policy(deny)) is None


def test_a_grant_answers_a_rule_that_says_to_ask() -> None:
    ask = Rule("ask", "shell", argv=("cat",))
    rule = rule_for(shell("cat README.md"), policy(ask))
    assert rule == grant("cat", "README.md")
    found = verdict("cat README.md", ask, grants=(rule,))
    assert found == Allow("It only reads, inside the workspace.")


def test_the_rule_that_would_be_stored_is_that_of_the_one_part_that_asks() -> None:
    assert rule_for(shell("make test | tail -5"), policy()) == grant("make", "test")
    assert rule_for(shell("make; make"), policy()) == grant("make")
    assert rule_for(shell("make; curl x"), policy()) is None
    assert rule_for(shell("make; curl x"), policy(), (grant("make"),)) == grant("curl", "x")
    assert rule_for(shell("ls"), policy()) is None
    assert choices_for(shell("make test"), policy()) == ALL_CHOICES


@pytest.mark.parametrize(
    "command",
    [
        "make $X",
        "make > ../f",
        "sudo make",
        "echo 'a",
        "X=1 make",
        "cat .env",
        "ls | sh",
        "make < f",
        "make &",
    ],
)
def test_what_no_rule_may_cover_can_only_be_allowed_once(command: str) -> None:
    assert rule_for(shell(command), policy()) is None
    assert choices_for(shell(command), policy()) == ("once", "deny")


def test_a_rule_made_for_a_command_covers_it_and_is_described() -> None:
    rule = rule_for(shell("rm -r build"), policy())
    assert rule is not None
    assert isinstance(verdict("rm -r build", grants=(rule,)), Allow)
    assert verdict("rm -r build", grants=(rule,)) == Allow("It was granted before.")
    assert describe(rule) == f'Exactly `["rm","-r","build"]` in {WORKSPACE}.'
    assert (
        describe(grant("make", writes=("/a", "/b"))) == f'Exactly `["make"]` in {WORKSPACE}, writing /a, /b.'
    )


# Other tools


@pytest.mark.parametrize("name", ["read_file", "list_files", "search_files"])
def test_reading_tools_run_unasked_inside_the_workspace_and_nowhere_else(name: str) -> None:
    for mode in ("ask", "allow-workspace", "unattended"):
        assert isinstance(judge(tool(name, f"{WORKSPACE}/src"), policy(mode=mode)), Allow)
    for path in ("/etc/passwd", "out/hosts", ".env", "/home/u/.config/holdfast/config.toml", "../x"):
        assert isinstance(judge(tool(name, path), policy(mode="allow-workspace")), Ask), path
    assert isinstance(judge(tool(name), policy()), Ask)


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
def test_writing_tools_ask_unless_the_workspace_is_allowed(name: str) -> None:
    inside = tool(name, f"{WORKSPACE}/a.py")
    assert judge(inside, policy()) == Ask((f"It writes {WORKSPACE}/a.py.",))
    assert isinstance(judge(inside, policy(mode="allow-workspace")), Allow)
    assert isinstance(judge(inside, policy(mode="unattended")), Deny)
    for path in ("/etc/passwd", "out/x", ".git/hooks/pre-commit", ".env"):
        assert isinstance(judge(tool(name, path), policy(mode="allow-workspace")), Ask), path
    assert isinstance(judge(tool(name), policy(mode="allow-workspace")), Ask)


def test_nothing_lets_a_tool_write_what_is_holdfasts_own() -> None:
    path = "/home/u/.local/share/holdfast/journal.db"
    granted = (GrantRule(tool="write_file", paths=(path,)),)
    for name in ("write_file", "files.write"):
        found = judge(tool(name, path), policy(Rule("allow", name, paths=("/",))), granted)
        assert isinstance(found, Deny)


def test_a_grant_for_a_file_is_for_that_file_and_that_tool() -> None:
    rule = rule_for(tool("write_file", "a.py"), policy())
    assert rule == GrantRule(tool="write_file", paths=(f"{WORKSPACE}/a.py",))
    assert describe(rule) == f"write_file on {WORKSPACE}/a.py."
    assert isinstance(judge(tool("write_file", "src/../a.py"), policy(), (rule,)), Allow)
    assert isinstance(judge(tool("write_file", "b.py"), policy(), (rule,)), Ask)
    assert isinstance(judge(tool("edit_file", "a.py"), policy(), (rule,)), Ask)
    assert isinstance(judge(tool("write_file", "a.py"), policy(), (GrantRule(tool="write_file"),)), Ask)
    assert rule_for(tool("read_file", ".env"), policy()) is None


def test_rules_for_files_cover_the_place_that_they_name() -> None:
    rule = Rule("allow", "write_file", paths=("src",))
    assert isinstance(judge(tool("write_file", "src/a"), policy(rule)), Allow)
    assert isinstance(judge(tool("write_file", "a"), policy(rule)), Ask)
    assert isinstance(judge(tool("write_file", "a"), policy(Rule("allow", "write_file"))), Allow)
    assert isinstance(judge(tool("read_file", ".env"), policy(Rule("allow", "read_file"))), Ask)
    assert isinstance(judge(tool("read_file", "a"), policy(Rule("deny", "*"))), Deny)


def test_fetching_asks_host_by_host() -> None:
    fetch = tool("fetch_url", host="Example.com.")
    for mode in ("ask", "allow-workspace"):
        assert judge(fetch, policy(mode=mode)) == Ask(("It fetches from example.com.",))
    rule = rule_for(fetch, policy())
    assert rule == GrantRule(tool="fetch_url", host="example.com")
    assert describe(rule) == "fetch_url from the host example.com."
    assert isinstance(judge(fetch, policy(), (rule,)), Allow)
    for other in ("www.example.com", "example.com.evil.org", ""):
        assert isinstance(judge(tool("fetch_url", host=other), policy(), (rule,)), Ask), other
    configured = rule_from({"allow": "fetch_url", "host": "EXAMPLE.com"})
    assert isinstance(judge(fetch, policy(configured)), Allow)
    assert isinstance(judge(tool("fetch_url", host="b.example.com"), policy(configured)), Ask)


def test_tools_of_other_programs_ask_by_name() -> None:
    for mode in ("ask", "allow-workspace"):
        assert isinstance(judge(tool("files.read"), policy(mode=mode)), Ask)
    rule = rule_for(tool("files.read"), policy())
    assert rule == GrantRule(tool="files.read")
    assert describe(rule) == "files.read, with any arguments."
    assert isinstance(judge(tool("files.read"), policy(), (rule,)), Allow)
    assert isinstance(judge(tool("files.write"), policy(), (rule,)), Ask)
    assert isinstance(judge(tool("files.read"), policy(Rule("allow", "files.read"))), Allow)


@pytest.mark.parametrize("mode", ["ask", "allow-workspace", "unattended"])
def test_asking_the_user_and_looking_after_own_processes_is_free(mode: ApprovalMode) -> None:
    for name in ("ask_user", "shell_jobs", "shell_kill"):
        assert isinstance(judge(tool(name), policy(mode=mode)), Allow)


def test_a_digest_is_that_of_one_exact_action() -> None:
    assert digest_of(shell("ls")) == digest_of(shell("ls"))
    others = [
        shell("ls "),
        shell("ls", cwd="/"),
        tool("read_file"),
        tool("read_file", "a"),
        tool("a", host="b"),
    ]
    assert len({digest_of(action) for action in [shell("ls"), *others]}) == len(others) + 1


def test_places_hold_their_own() -> None:
    assert PLACES.dear("/home")
    assert not PLACES.dear(WORKSPACE)
    assert PLACES.resolved("a\0b", (WORKSPACE,)) == {"/\0"}
