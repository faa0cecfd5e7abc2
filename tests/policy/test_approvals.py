"""What the approval policy says of commands and tools: the corpus, modes, rules, grants."""

from msgspec.structs import replace

from holdfast.policy.approval_rules import ApprovalRule, rule_from
from holdfast.policy.approvals import FINDINGS_MAX, digest_of, judge, rule_for
from holdfast.policy.grants import describe
from holdfast.policy.path_facts import SPELLINGS_MAX
from holdfast.policy.shell.syntax import SYNTAX_BYTES_MAX, TEXT_BYTES_MAX, parse
from holdfast.policy.shell.verdicts import judge_script
from holdfast.policy.shell.words import BRACES, Word
from holdfast.policy.shell.wrappers import steps
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval
from holdfast.values import Action, GrantRule
from policy.approval_world import (
    FACTS,
    WORKSPACE,
    in_each_mode,
    named,
    policy,
    rule_made_for,
    shapes,
    shell,
    verdict,
    written_down,
)


def tool(name: str, *paths: str, host: str = "") -> Action:
    return Action(tool=name, summary=name, paths=paths, host=host)


def test_each_command_of_the_corpus_gets_what_was_written_down() -> None:
    assert {shape.name for shape in shapes() if not 1 <= len(shape.commands) <= 5} == set()
    assert in_each_mode(shapes(), lambda command, _, mode: verdict(command, mode=mode)) == written_down(
        shapes()
    )


def test_unattended_says_that_nobody_was_there_and_what_would_have_been_asked() -> None:
    found = verdict("make", mode="unattended")
    assert isinstance(found, Deny)
    assert found.reason == "no_approver"
    assert found.findings == ("`make` can change files.",)


def test_what_is_always_denied_is_denied_for_itself_and_not_for_want_of_an_approver() -> None:
    found = verdict("rm -rf /", mode="unattended")
    assert isinstance(found, Deny)
    assert found.reason == "denied"


def test_all_findings_are_told_and_not_only_the_first() -> None:
    found = verdict("PATH=. curl $X > ../f; cat .env")
    assert isinstance(found, NeedsApproval)
    text = " ".join(found.findings)
    for reason in ("sets PATH", "other machines", "`$X`", "/home/u/f", "secrets"):
        assert reason in text


def test_allow_workspace_says_that_it_trusts_programs() -> None:
    found = verdict("make", mode="workspace")
    assert isinstance(found, Allow)
    assert "trusted" in found.why


def test_findings_are_bounded_and_free_of_what_a_terminal_obeys() -> None:
    found = verdict(" ".join(["ls", "$'\\e[2J'", *(f"${{x{nth}}}" for nth in range(300))]))
    assert isinstance(found, NeedsApproval)
    assert len(found.findings) == FINDINGS_MAX + 1
    assert found.findings[-1].endswith("more.")
    assert "\x1b" not in "".join(found.findings)


def test_the_workspace_as_a_whole_is_not_taken_away_unasked() -> None:
    for command in ("rm -rf .", f"rm -r {WORKSPACE}", "find . -delete", "mv ../project x", "rm -r src/.."):
        assert isinstance(verdict(command, mode="workspace"), NeedsApproval), command


def test_a_command_that_would_run_outside_the_workspace_asks() -> None:
    assert isinstance(judge(shell("ls", cwd="/etc"), policy()), NeedsApproval)
    assert isinstance(judge(shell("ls", cwd=f"{WORKSPACE}/src"), policy()), Allow)
    assert isinstance(judge(Action(tool="shell", summary="", argv=("bash", "-c", "ls")), policy()), Allow)


def test_an_argv_that_is_no_shell_is_judged_as_it_stands() -> None:
    assert isinstance(judge(Action(tool="shell", summary="", argv=("ls", "$(x)")), policy()), Allow)
    assert isinstance(judge(Action(tool="shell", summary="", argv=("rm", "-rf", "/")), policy()), Deny)
    assert isinstance(
        judge(Action(tool="shell", summary="", argv=("zsh", "-c", "ls")), policy()), NeedsApproval
    )
    assert isinstance(judge(Action(tool="shell", summary=""), policy()), NeedsApproval)


def test_reading_tools_run_unasked_inside_the_workspace_and_nowhere_else() -> None:
    for name in ("read_file", "send_file", "list_files", "search_files"):
        for mode in ("ask", "workspace", "unattended"):
            assert isinstance(judge(tool(name, f"{WORKSPACE}/src"), policy(mode=mode)), Allow), (name, mode)
        for path in ("/etc/passwd", "out/hosts", ".env", "../x"):
            found = judge(tool(name, path), policy(mode="workspace"))
            assert isinstance(found, NeedsApproval), (name, path)
        assert isinstance(judge(tool(name), policy()), NeedsApproval), name


def test_writing_tools_ask_unless_the_workspace_is_allowed() -> None:
    for name in ("write_file", "edit_file"):
        inside = tool(name, f"{WORKSPACE}/a.py")
        assert judge(inside, policy()) == NeedsApproval((f"It writes {WORKSPACE}/a.py.",)), name
        assert isinstance(judge(inside, policy(mode="workspace")), Allow), name
        assert isinstance(judge(inside, policy(mode="unattended")), Deny), name
        for path in ("/etc/passwd", "out/x", ".git/hooks/pre-commit", ".env"):
            found = judge(tool(name, path), policy(mode="workspace"))
            assert isinstance(found, NeedsApproval), (name, path)
        assert isinstance(judge(tool(name), policy(mode="workspace")), NeedsApproval), name


def test_nothing_lets_a_tool_touch_what_is_holdfasts_own() -> None:
    for name in ("read_file", "send_file", "search_files", "write_file", "files.write"):
        for path in ("/home/u/.local/share/holdfast/journal.db", f"{WORKSPACE}/holdfast.toml"):
            granted = (GrantRule(tool=name, paths=(path,)),)
            found = judge(tool(name, path), policy(ApprovalRule("allow", name, paths=("/",))), grants=granted)
            refused = Deny(f"{path} belongs to Holdfast, so tools can't access it.")
            assert found == refused, (name, path)


def test_a_device_that_holds_nothing_is_nobodys_own() -> None:
    """P11: `--config /dev/null` is for who wants no configuration, and every command may write there."""
    without = replace(policy(mode="workspace"), facts=replace(FACTS, config="/dev/null"))
    assert isinstance(judge(shell("make 2>/dev/null; cp /dev/null a; cp x/null src"), without), Allow)
    assert isinstance(judge(tool("read_file", "/dev/null"), without), NeedsApproval)


def test_a_grant_for_a_file_is_for_that_file_and_that_tool() -> None:
    rule = rule_made_for(tool("write_file", "a.py"), policy())
    assert rule == GrantRule(tool="write_file", paths=(f"{WORKSPACE}/a.py",))
    assert describe(rule) == f"write_file on {WORKSPACE}/a.py."
    assert isinstance(judge(tool("write_file", "src/../a.py"), policy(), grants=(rule,)), Allow)
    assert isinstance(judge(tool("write_file", "b.py"), policy(), grants=(rule,)), NeedsApproval)
    assert isinstance(judge(tool("edit_file", "a.py"), policy(), grants=(rule,)), NeedsApproval)
    assert isinstance(
        judge(tool("write_file", "a.py"), policy(), grants=(GrantRule(tool="write_file"),)), NeedsApproval
    )
    assert rule_for(tool("read_file", ".env"), policy()) is None


def test_rules_for_files_cover_the_place_that_they_name() -> None:
    rule = ApprovalRule("allow", "write_file", paths=("src",))
    assert isinstance(judge(tool("write_file", "src/a"), policy(rule)), Allow)
    assert isinstance(judge(tool("write_file", "a"), policy(rule)), NeedsApproval)
    assert isinstance(judge(tool("write_file", "a"), policy(ApprovalRule("allow", "write_file"))), Allow)
    assert isinstance(
        judge(tool("read_file", ".env"), policy(ApprovalRule("allow", "read_file"))), NeedsApproval
    )
    assert isinstance(judge(tool("read_file", "a"), policy(ApprovalRule("deny", "*"))), Deny)


def test_fetching_asks_host_by_host() -> None:
    fetch = tool("fetch_url", host="Example.com.")
    for mode in ("ask", "workspace"):
        assert judge(fetch, policy(mode=mode)) == NeedsApproval(("It fetches from example.com.",))
    rule = rule_made_for(fetch, policy())
    assert rule == GrantRule(tool="fetch_url", host="example.com")
    assert describe(rule) == "fetch_url from the host example.com."
    assert isinstance(judge(fetch, policy(), grants=(rule,)), Allow)
    for other in ("www.example.com", "example.com.evil.org", ""):
        assert isinstance(judge(tool("fetch_url", host=other), policy(), grants=(rule,)), NeedsApproval), (
            other
        )
    configured = rule_from({"allow": "fetch_url", "host": "EXAMPLE.com"})
    assert isinstance(judge(fetch, policy(configured)), Allow)
    assert isinstance(judge(tool("fetch_url", host="b.example.com"), policy(configured)), NeedsApproval)


def test_tools_of_other_programs_ask_by_name() -> None:
    for mode in ("ask", "workspace"):
        assert isinstance(judge(tool("files.read"), policy(mode=mode)), NeedsApproval)
    rule = rule_made_for(tool("files.read"), policy())
    assert rule == GrantRule(tool="files.read")
    assert describe(rule) == "files.read, with any arguments."
    assert describe(GrantRule(tool="files.read", host="example.com")) == describe(rule)
    assert isinstance(judge(tool("files.read"), policy(), grants=(rule,)), Allow)
    assert isinstance(judge(tool("files.write"), policy(), grants=(rule,)), NeedsApproval)
    assert isinstance(judge(tool("files.read"), policy(ApprovalRule("allow", "files.read"))), Allow)


def test_asking_the_user_and_looking_after_own_processes_is_free() -> None:
    for mode in ("ask", "workspace", "unattended"):
        for name in ("ask_user", "shell_jobs", "shell_kill"):
            assert isinstance(judge(tool(name), policy(mode=mode)), Allow), (mode, name)


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
    assert FACTS.dear("/home")
    assert not FACTS.dear(WORKSPACE)
    assert FACTS.resolved("a\0b", (WORKSPACE,)) == {"/\0"}
    assert FACTS.spellings(Word("{a,b}/{c,d}", BRACES)) == ("a/c", "a/d", "b/c", "b/d")
    assert len(FACTS.spellings(Word("{a,b}" * 20, BRACES))) == SPELLINGS_MAX


def test_a_directory_that_is_no_path_asks() -> None:
    for cwd in ("a\0b", f"{WORKSPACE}/a\0b"):
        assert isinstance(judge(shell("ls", cwd=cwd), policy()), NeedsApproval)


def test_a_wipe_in_a_text_that_is_too_long_to_be_read_is_denied_all_the_same() -> None:
    text = "true;" * SYNTAX_BYTES_MAX
    assert isinstance(verdict(f"{text[:9_000]} rm -rf /"), Deny)
    assert isinstance(verdict(f"rm -rf / ; {text * 3}"), Deny)
    assert isinstance(verdict(f"{text[:9_000]} echo 'rm -rf /'"), NeedsApproval)


def test_a_command_that_is_too_long_is_refused_unread() -> None:
    """P10 P12: nobody approves 64 kB by looking at them, and nothing need be read to say so."""
    found = verdict("cat > f <<'E'\n" + "x" * TEXT_BYTES_MAX + "\nE", ApprovalRule("allow", "shell"))
    assert isinstance(found, Deny)
    assert "64 kB" in found.why
    assert isinstance(
        verdict("cat > f <<'E'\n" + "x" * 60_000 + "\nE", ApprovalRule("allow", "shell")), Allow
    )


def test_what_a_find_runs_is_its_own_to_run() -> None:
    """P8: a text of finds within finds is judged once for each, not in every way to leave some out."""
    argv = ("bash", "-c", "find . -exec " * 12 + "rm x")
    assert len(judge_script(argv, FACTS, cwd=WORKSPACE).steps) < 12


def nested(form: str, *, times: int) -> str:
    """A text in a text, and so on: @ stands for the next one, quoted as bash wants it."""
    text = "ls x"
    for _ in range(times):
        text = form.replace("@", text.replace("\\", "\\\\").replace('"', '\\"'))
    return text


def test_a_text_is_not_guessed_at_in_every_way_that_leads_to_it() -> None:
    texts = {
        "option": nested('A= sudo --zz="@"', times=9),
        "setting": nested('A= sudo zz="@"', times=9),
        "open": nested('( A= sudo zz="@"', times=9),
        "backticks": nested('`A= sudo zz="@"`', times=9),
        "shell": nested('A= sudo bash -c "@"', times=9),
        "xargs": "echo a|xargs b;" * 540,
    }
    counts = {name: len(list(steps(parse(text)))) for name, text in texts.items()}
    assert {name: count for name, count in counts.items() if count >= 20_000} == {}


def test_a_long_pattern_is_read_once_from_its_start_to_its_end() -> None:
    texts = {
        "parameter": ("${" + "a" * 60_000, "ask"),
        "all braces": ("rm -r /{a*," + "," * 8_000 + "}", "deny"),
        "braces": ("rm -rf {" + "," * 4_000 + "}" + "a" * 4_000, "ask"),
        "stars": ("rm -rf /" + "*" * 8_000 + "x", "ask"),
        "all stars": ("rm -rf /" + "*" * 8_000, "deny"),
        "names": ("find / -name '" + "*" * 7_900 + "x' -delete", "ask"),
        "all names": ("find / -name '" + "*" * 7_900 + "' -delete", "deny"),
    }
    found = {name: named(verdict(text)) for name, (text, _) in texts.items()}
    assert found == {name: said for name, (_, said) in texts.items()}
