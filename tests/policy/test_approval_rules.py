"""Configured rules and given grants: what each covers, and what it never does."""

import posixpath
from collections.abc import Mapping

from holdfast.policy.approval_rules import ApprovalRule, BadRule, rule_from
from holdfast.policy.approvals import choices_for, judge, rule_for
from holdfast.policy.grants import describe
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict
from holdfast.values import Action, ApprovalMode, GrantRule
from policy.approval_world import WORKSPACE, policy, rule_made_for, shell, verdict

ALL_CHOICES = ("once", "session", "always", "deny")


def grant(*argv: str, cwd: str = WORKSPACE, writes: tuple[str, ...] = ()) -> GrantRule:
    return GrantRule(tool="shell", argv=argv, paths=(cwd, *writes))


def test_a_rule_allows_its_words_with_harmless_ones_behind_them() -> None:
    rule = rule_from({"allow": "shell", "argv": ["make"]})
    assert isinstance(verdict("make test", rule), Allow)
    assert isinstance(verdict("/usr/bin/make", rule), Allow)
    assert isinstance(verdict("timeout 9 make && ls", rule), Allow)
    for beyond in (
        "make $X",
        "make > f",
        "X=$Y make",
        "X=1; make",
        "make; curl x",
        "./make",
        "make < .env",
        "makefile",
        "make &",
    ):
        assert isinstance(verdict(beyond, rule), NeedsApproval), beyond


def test_the_question_names_the_word_that_no_rule_covers() -> None:
    found = verdict("git log --output=x", ApprovalRule("allow", "shell", argv=("git", "log")))
    assert isinstance(found, NeedsApproval)
    assert found.findings[-1] == "No rule covers `--output=x` here."


def test_a_later_rule_may_cover_what_an_earlier_one_does_not() -> None:
    rules = (
        ApprovalRule("allow", "shell", argv=("git",)),
        rule_from({"allow": "shell", "argv": ["git", "push", "-f"]}),
    )
    assert isinstance(verdict("git push -f origin main", *rules), Allow)
    assert isinstance(verdict("git push --mirror", *rules), NeedsApproval)
    assert isinstance(
        verdict("git push --mirror", *rules, ApprovalRule("deny", "shell", argv=("git", "push"))), Deny
    )


def test_an_exact_rule_is_read_from_the_configuration() -> None:
    rule = rule_from({"allow": "shell", "argv": ["make"], "exact": True})
    assert isinstance(verdict("make", rule), Allow)
    assert isinstance(verdict("make test", rule), NeedsApproval)


def test_a_rule_with_places_covers_no_option_that_runs_something() -> None:
    rule = ApprovalRule("allow", "shell", argv=("sort",), paths=("build",))
    assert isinstance(verdict("sort -o build/x build/y", rule), Allow)
    assert isinstance(verdict("sort --compress-program=build/x build/y", rule), NeedsApproval)


def test_a_grant_covers_the_words_that_it_was_given_for_whatever_they_are() -> None:
    """A person who allowed this very command has seen every word of it."""
    rule = rule_made_for(shell("git log --output=x"), policy())
    assert isinstance(verdict("git log --output=x", grants=(rule,)), Allow)
    assert isinstance(verdict("git log --output=y", grants=(rule,)), NeedsApproval)


def test_a_rule_with_a_longer_argv_covers_no_shorter_command() -> None:
    rule = ApprovalRule("allow", "shell", argv=("git", "commit"))
    assert isinstance(verdict("git commit -m x", rule), Allow)
    assert isinstance(verdict("git", rule), NeedsApproval)
    assert isinstance(verdict("git add .", rule), NeedsApproval)


def test_a_rule_with_paths_covers_what_stays_there() -> None:
    rule = ApprovalRule("allow", "shell", argv=("rm",), paths=("build",))
    assert isinstance(verdict("rm -r build/x build/y", rule), Allow)
    assert isinstance(verdict("rm -r build/x src", rule), NeedsApproval)
    assert isinstance(verdict("rm build/../src/x", rule), NeedsApproval)
    assert isinstance(verdict("rm -r out/x", rule), NeedsApproval)
    anywhere = ApprovalRule("allow", "shell", paths=("/srv/job", "build"))
    assert isinstance(verdict("touch /srv/job/a > build/b", anywhere), Allow)
    assert isinstance(verdict("touch /srv/job/a > c", anywhere), NeedsApproval)
    assert isinstance(verdict("make", anywhere), NeedsApproval)


def test_a_folder_in_a_rule_covers_no_secret_or_auto_run_file_but_the_file_itself_does() -> None:
    """P13: also outside the workspace, for every file tool, in every mode that can ask."""
    other = "/home/u/other"
    kept = (
        ".git/hooks/pre-commit",
        "AGENTS.md",
        ".env",
        ".holdfast/hooks.toml",
        ".vscode/tasks.json",
        "HEAD",
    )
    writes = [
        (tool, f"{place}/{name}")
        for tool in ("write_file", "edit_file", "apply_patch")
        for place in (WORKSPACE, f"{WORKSPACE}/src", other)
        for name in kept
    ]
    modes: tuple[tuple[ApprovalMode, type[Verdict]], ...] = (
        ("ask", NeedsApproval),
        ("edits", NeedsApproval),
        ("unattended", Deny),
    )
    reads = [(tool, f"{place}/.env") for tool in ("read_file", "send_file") for place in (WORKSPACE, other)]
    for tool, path in (*writes, *reads):
        action = Action(tool=tool, summary="", paths=(path,))
        for name in (tool, "*"):
            folders = ApprovalRule("allow", name, paths=(WORKSPACE, other, posixpath.dirname(path)))
            for mode, expected in modes:
                assert type(judge(action, policy(folders, mode=mode))) is expected, (tool, path, name, mode)
            itself = ApprovalRule("allow", name, paths=(path,))
            assert isinstance(judge(action, policy(itself, mode="unattended")), Allow), (tool, path, name)
    for path in (f"{WORKSPACE}/src/a.py", f"{other}/a.py"):
        ordinary = Action(tool="write_file", summary="", paths=(path,))
        rule = ApprovalRule("allow", "write_file", paths=(WORKSPACE, other))
        assert isinstance(judge(ordinary, policy(rule, mode="unattended")), Allow), path
    both = Action(tool="apply_patch", summary="", paths=(f"{WORKSPACE}/src/a.py", f"{WORKSPACE}/AGENTS.md"))
    named_one = ApprovalRule("allow", "apply_patch", paths=(WORKSPACE, f"{WORKSPACE}/src/a.py"))
    assert isinstance(judge(both, policy(named_one)), NeedsApproval)
    for command in ("cat .env", "echo x > AGENTS.md", f"echo x > {other}/.git/hooks/x"):
        folders = ApprovalRule("allow", "shell", paths=(WORKSPACE, other))
        assert isinstance(verdict(command, folders), NeedsApproval), command
    secrets = Action(tool="search_files", summary="", paths=(f"{WORKSPACE}/.ssh",))
    assert isinstance(
        judge(secrets, policy(ApprovalRule("allow", "*", paths=(f"{WORKSPACE}/.ssh",)))), NeedsApproval
    )


def test_a_rule_for_the_shell_as_a_whole_covers_all_but_what_cannot_be_read_and_what_is_always_denied() -> (
    None
):
    rule = ApprovalRule("allow", "shell")
    assert isinstance(verdict("sudo curl $X > /tmp/y", rule), Allow)
    assert isinstance(verdict("echo 'a", rule), NeedsApproval)
    assert isinstance(verdict("rm -rf /", rule), Deny)
    assert isinstance(verdict("echo x > /home/u/.config/holdfast/config.toml", rule), Deny)


def test_deny_and_ask_rules_see_through_options_wrappers_and_paths() -> None:
    deny = ApprovalRule("deny", "shell", argv=("git", "push"))
    for command in ("git push", "git -C . push", "ls; /opt/git push x", "sudo git push", "sh -c 'git push'"):
        assert isinstance(verdict(command, deny), Deny), command
    for command in (
        "sudo --user root git push",
        "su x -c 'git push'",
        "echo git push | sh",
        "time ! git push",
    ):
        assert isinstance(verdict(command, deny, ApprovalRule("allow", "shell")), Deny), command
    allowed = verdict("sudo --user root git pull", deny, ApprovalRule("allow", "shell"))
    assert allowed == Allow("A rule allows shell.")
    assert not isinstance(verdict("git status", deny), Deny)
    wrapper = ApprovalRule("deny", "shell", argv=("sudo",))
    assert isinstance(verdict("sudo ls", wrapper), Deny)
    ask = ApprovalRule("ask", "shell", argv=("cat",))
    found = verdict("cat README.md", ask)
    assert isinstance(found, NeedsApproval)
    assert found.findings == ("A rule says to ask about shell cat.",)


def test_deny_rules_with_paths_need_only_one_path() -> None:
    rule = ApprovalRule("deny", "shell", paths=("secret",))
    assert isinstance(verdict("cat README.md secret/x", rule), Deny)
    assert isinstance(verdict("ls > secret/x", rule), Deny)
    assert isinstance(verdict("cat README.md", rule), Allow)


def test_deny_rules_with_paths_are_about_what_is_come_to_from_above() -> None:
    rule = ApprovalRule("deny", "shell", paths=("secret",))
    elsewhere = ApprovalRule("deny", "shell", paths=("../elsewhere",))
    for command in (
        "grep -r x",
        "grep -nr -A 3 x .",
        "grep -R x src/..",
        "grep --recursive x .",
        "rg x",
        "rg -e x .",
        "ls -R",
        "find . -name x",
        "find -name x",
        "tree",
        "git grep x",
        "sudo grep -r x",
    ):
        assert isinstance(verdict(command, rule), Deny), command
        assert not isinstance(verdict(command, elsewhere), Deny), command


def test_a_rule_against_changes_of_files_is_also_against_patches() -> None:
    """P13: some models get `apply_patch` instead of `edit_file`."""
    patch = Action(tool="apply_patch", summary="", paths=(f"{WORKSPACE}/docs/a.md",))
    edit = Action(tool="edit_file", summary="", paths=(f"{WORKSPACE}/docs/a.md",))
    for name in ("edit_file", "write_file"):
        place = (f"{WORKSPACE}/docs",)
        assert isinstance(
            judge(patch, policy(ApprovalRule("deny", name, paths=place), mode="workspace")), Deny
        )
        asking = policy(ApprovalRule("ask", name, paths=place), mode="workspace")
        assert isinstance(judge(patch, asking), NeedsApproval)
        assert isinstance(judge(patch, policy(ApprovalRule("allow", name, paths=place))), NeedsApproval)
    denied = policy(ApprovalRule("deny", "apply_patch"), mode="workspace")
    assert isinstance(judge(edit, denied), Allow)


def test_what_goes_down_elsewhere_or_not_at_all_is_no_matter_of_a_deny_rule() -> None:
    rule = ApprovalRule("deny", "shell", paths=("secret",))
    for command in ("grep -r x src", "grep x README.md", "rg x src", "ls -r", "ls", "find src", "make"):
        assert not isinstance(verdict(command, rule), Deny), command
    for name in ("search_files", "list_files"):
        place = Action(tool=name, summary="", paths=(WORKSPACE,))
        assert isinstance(judge(place, policy(ApprovalRule("deny", "*", paths=("secret",)))), Deny)
        assert isinstance(
            judge(place, policy(ApprovalRule("ask", name, paths=("secret/deep",)))), NeedsApproval
        )
        assert isinstance(judge(place, policy(ApprovalRule("deny", "*", paths=("../elsewhere",)))), Allow)
        below = Action(tool=name, summary="", paths=(f"{WORKSPACE}/src",))
        assert isinstance(judge(below, policy(ApprovalRule("deny", "*", paths=("secret",)))), Allow)
    file = Action(tool="read_file", summary="", paths=(f"{WORKSPACE}/a",))
    assert isinstance(judge(file, policy(ApprovalRule("deny", "*", paths=("secret",)))), Allow)


def test_the_first_rule_that_matches_decides() -> None:
    allow, deny = (
        ApprovalRule("allow", "shell", argv=("make", "test")),
        ApprovalRule("deny", "shell", argv=("make",)),
    )
    assert isinstance(verdict("make test", allow, deny), Allow)
    assert isinstance(verdict("make test", deny, allow), Deny)
    assert isinstance(verdict("make all", allow, deny), Deny)


def test_a_denied_part_denies_the_whole_whatever_else_is_allowed() -> None:
    rules = (ApprovalRule("allow", "shell", argv=("make",)), ApprovalRule("deny", "shell", argv=("curl",)))
    assert isinstance(verdict("make && curl x", *rules), Deny)


def test_rules_run_unattended() -> None:
    rule = ApprovalRule("allow", "shell", argv=("make",))
    found = verdict("make | tail -5", rule, mode="unattended")
    assert found == Allow("A rule allows shell make. It only reads inside the workspace.")


def test_a_rule_that_cannot_be_meant_is_refused_with_a_sentence() -> None:
    tables: list[tuple[Mapping[str, object], str]] = [
        ({}, "exactly one"),
        ({"allow": "shell", "deny": "shell"}, "exactly one"),
        ({"allow": "shell", "args": ["x"]}, "'args'"),
        ({"allow": 1}, "must be strings"),
        ({"allow": "shell", "argv": "ls"}, "list of strings"),
        ({"allow": "shell", "argv": []}, "non-empty"),
        ({"allow": "shell", "paths": [1]}, "list of strings"),
        ({"allow": "read_file", "argv": ["ls"]}, "not one for read_file"),
        ({"allow": "fetch_url", "host": 1}, "must be strings"),
        ({"allow": "shell", "argv": ["ls"], "exact": "yes"}, "true or false"),
        ({"allow": "shell", "exact": True}, "allows an argv"),
        ({"deny": "shell", "argv": ["ls"], "exact": True}, "allows an argv"),
    ]
    for table, says in tables:
        assert says in _refusal(table), table


def _refusal(table: Mapping[str, object]) -> str:
    try:
        return f"accepted: {rule_from(table)}"
    except BadRule as refused:
        return str(refused)


def test_a_rule_that_says_to_ask_is_about_what_a_wrapper_may_run_too() -> None:
    rules = (ApprovalRule("ask", "shell", argv=("git", "push")), ApprovalRule("allow", "shell"))
    for command in ("sudo git push", "sudo --user root git push", "alias x='git push'"):
        assert isinstance(verdict(command, *rules), NeedsApproval), command
        assert isinstance(verdict(command, *rules, mode="unattended"), Deny), command
        # What is only guessed at can be granted no more than once: its words are not known.
        assert rule_for(shell(command), policy(*rules)) is None, command
    assert isinstance(verdict("sudo --user root git pull", *rules), Allow)


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
        "LANG=C rm -r build",
        "cd src && rm -r build",
        "echo y | rm -r build",
        "rm -r build < f",
        "rm -r $build",
    ):
        assert isinstance(verdict(command, grants=granted), NeedsApproval), command


def test_a_grant_holds_only_in_its_directory() -> None:
    granted = (grant("make", cwd=f"{WORKSPACE}/src"),)
    assert isinstance(judge(shell("make", cwd=f"{WORKSPACE}/src"), policy(), grants=granted), Allow)
    assert isinstance(judge(shell("make"), policy(), grants=granted), NeedsApproval)


def test_a_grant_names_the_files_that_are_written() -> None:
    rule = rule_made_for(shell("make > build.log"), policy())
    assert rule == grant("make", writes=(f"{WORKSPACE}/build.log",))
    assert isinstance(verdict("make > build.log", grants=(rule,)), Allow)
    assert isinstance(verdict("make > other.log", grants=(rule,)), NeedsApproval)
    assert isinstance(verdict("make 2>/dev/null", grants=(rule,)), Allow)


def test_a_grant_names_the_settings_that_come_with_the_command() -> None:
    rule = rule_made_for(shell("A=1 B='x y' make"), policy())
    assert rule == grant("A=1", "B=x y", "make")
    assert isinstance(verdict("A=1 B='x y' make", grants=(rule,)), Allow)
    assert isinstance(verdict("env A=1 B='x y' make", grants=(rule,)), Allow)
    for other in ("A=1 make", "A=1 B=x make", "A=1 B='x y' C=2 make", "make", "'A=1' 'B=x y' make"):
        assert isinstance(verdict(other, grants=(rule,)), NeedsApproval), other


def test_no_grant_reaches_what_is_always_denied_or_what_a_rule_denies() -> None:
    assert isinstance(verdict("rm -rf /", grants=(grant("rm", "-rf", "/"),)), Deny)
    deny = ApprovalRule("deny", "shell", argv=("make",))
    assert isinstance(verdict("make", deny, grants=(grant("make"),)), Deny)
    assert rule_for(shell("rm -rf /"), policy()) is None
    assert rule_for(shell("make"), policy(deny)) is None


def test_nothing_lasting_answers_a_rule_that_says_to_ask() -> None:
    """P8: neither a rule that was stored before nor a new one, which isn't offered."""
    earlier = rule_made_for(shell("git push"), policy())
    assert earlier is not None
    ask = ApprovalRule("ask", "shell", argv=("git", "push"))
    found = verdict("git push", ask, grants=(earlier,))
    assert isinstance(found, NeedsApproval)
    assert (found.offers, found.once_because) == (
        (),
        "The configuration says to ask every time, so you can only allow it once.",
    )
    assert choices_for(shell("git push"), policy(ask)) == ("once", "deny")
    tool = Action(tool="write_file", summary="Write a.txt", paths=("a.txt",))
    assert choices_for(tool, policy(ApprovalRule("ask", "write_file"))) == ("once", "deny")
    assert choices_for(tool, policy()) == ("once", "session", "always", "deny")


def test_the_rule_that_would_be_stored_is_that_of_the_one_part_that_asks() -> None:
    assert rule_for(shell("make test | tail -5"), policy()) == grant("make", "test")
    assert rule_for(shell("make; make"), policy()) == grant("make")
    assert rule_for(shell("make; curl x"), policy()) is None
    assert rule_for(shell("make; curl x"), policy(), grants=(grant("make"),)) == grant("curl", "x")
    assert rule_for(shell("ls"), policy()) is None
    assert choices_for(shell("make test"), policy()) == ALL_CHOICES


def test_what_no_rule_may_cover_can_only_be_allowed_once() -> None:
    for command in (
        "make $X",
        "make > ../f",
        "sudo make",
        "echo 'a",
        "X=$Y make",
        "X=1; make",
        "cat .env",
        "ls | sh",
        "make < f",
        "make &",
    ):
        assert rule_for(shell(command), policy()) is None, command
        assert choices_for(shell(command), policy()) == ("once", "deny"), command


def test_a_rule_made_for_a_command_covers_it_and_is_described() -> None:
    rule = rule_made_for(shell("rm -r build"), policy())
    assert isinstance(verdict("rm -r build", grants=(rule,)), Allow)
    assert verdict("rm -r build", grants=(rule,)) == Allow("It was allowed earlier.")
    assert describe(rule) == f"Exactly `rm -r build` in {WORKSPACE}."
    assert describe(grant("make", writes=("/a", "/b"))) == f"Exactly `make` in {WORKSPACE}, writing /a, /b."
