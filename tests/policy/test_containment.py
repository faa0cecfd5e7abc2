"""What a sandbox changes about approvals: what it contains runs unasked, what leaves it is asked about."""

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import Policy, judge, rule_for
from holdfast.policy.grants import describe, offer_of
from holdfast.policy.lifts import Containment, describe_lift, is_within_lift
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict
from holdfast.values import Action, ApprovalMode, GrantRule, Lift
from policy.approval_world import (
    CORPUS,
    FACTS,
    TOO_MILD,
    WORKSPACE,
    Secrets,
    Shape,
    named,
    policy,
    shapes,
    shell,
)

HELD, LACKING = Containment(held=True), Containment()
EVERYTHING = Lift(everything=True)
HOSTS = Lift(hosts=("pypi.example",))
LIFTS = (EVERYTHING, HOSTS, Lift(network=True), Lift(write=("/srv/x",)), Lift(read=(f"{WORKSPACE}/.env",)))


def lifted(text: str, lift: Lift) -> Action:
    return replace_lift(shell(text), lift)


def replace_lift(action: Action, lift: Lift) -> Action:
    return Action(tool=action.tool, summary=action.summary, argv=action.argv, paths=action.paths, lift=lift)


def contained(
    *rules: ApprovalRule, mode: ApprovalMode = "workspace", containment: Containment | None = HELD
) -> Policy:
    facts = replace(FACTS, secret_finder=Secrets())
    return replace(policy(*rules, mode=mode), facts=facts, containment=containment)


@pytest.mark.parametrize("command", ["make a\u200bb", "make x # \u202e"])
def test_whoever_is_asked_about_a_lift_is_told_of_hidden_characters(command: str) -> None:
    found = _asked(judge(lifted(command, Lift(write=("/srv/x",))), contained()))
    assert any("which can hide what the command does" in text for text in found.findings)
    assert ": ;" not in found.headline


@pytest.mark.parametrize("mode", ["ask", "workspace", "unattended"])
@pytest.mark.parametrize("containment", [HELD, LACKING])
def test_no_rule_grant_or_mode_runs_a_command_that_the_sandbox_cannot_hold(
    mode: ApprovalMode, containment: Containment
) -> None:
    """P13: a command never runs with less than the sandbox promises unless a person was told so."""
    action = msgspec.structs.replace(shell("make test"), shortfall="3 secret files can't be hidden.")
    world = contained(ApprovalRule("allow", "shell"), mode=mode, containment=containment)
    grants = [GrantRule(tool="shell", argv=("make", "test"), paths=(WORKSPACE,))]
    assert isinstance(judge(shell("make test"), world, grants=grants), Allow)
    found = judge(action, world, grants=grants)
    assert isinstance(found, Deny if mode == "unattended" else NeedsApproval)
    assert "3 secret files can't be hidden." in found.findings
    assert rule_for(action, world, grants=grants) is None
    reading = msgspec.structs.replace(shell("ls"), shortfall=action.shortfall)
    assert isinstance(judge(reading, world), Allow)


@pytest.mark.parametrize("corpus", [CORPUS, TOO_MILD])
def test_inside_the_sandbox_nothing_is_asked_about_but_what_git_shows_of_secrets(corpus: object) -> None:
    """P13: what the sandbox prevents needs no question, and what it can't prevent still does."""
    for shape in _shapes(corpus):
        for command in shape.commands:
            found = judge(shell(command), contained(*shape.rules))
            if isinstance(found, NeedsApproval):
                assert all(_is_of_git(text) for text in found.findings), f"{command!r}: {found}"


def _is_of_git(text: str) -> bool:
    return any(
        part in text for part in ("in the repository", "contains a password", "configuration", "No rule")
    )


@pytest.mark.parametrize("corpus", [CORPUS, TOO_MILD])
@pytest.mark.parametrize("mode", ["ask", "unattended"])
def test_without_a_rule_the_other_modes_judge_as_before(corpus: object, mode: ApprovalMode) -> None:
    """P13: a sandbox makes no other mode milder."""
    for shape in _shapes(corpus):
        for command in shape.commands[:2]:
            action = shell(command)
            assert judge(action, contained(mode=mode)) == judge(
                action, contained(mode=mode, containment=None)
            )


@pytest.mark.parametrize("corpus", [CORPUS, TOO_MILD])
def test_a_sandbox_that_does_not_hold_turns_allow_workspace_into_ask(corpus: object) -> None:
    """P13: there is no fallback to running open."""
    for shape in _shapes(corpus):
        for command in shape.commands[:2]:
            lacking = judge(shell(command), contained(*shape.rules, containment=LACKING))
            asked = judge(shell(command), contained(*shape.rules, mode="ask", containment=None))
            assert named(lacking) == named(asked), command


def _shapes(corpus: object) -> list[Shape]:
    return shapes(CORPUS if corpus is CORPUS else TOO_MILD)


@pytest.mark.parametrize("lift", LIFTS, ids=describe_lift)
def test_what_leaves_the_sandbox_is_asked_about_in_every_mode_and_by_every_rule(lift: Lift) -> None:
    blanket = ApprovalRule("allow", "shell")
    for command in ("make", "ls", "cat .env", "true && pytest -q", "# nothing"):
        action = lifted(command, lift)
        for rules in ((), (blanket,)):
            for mode in ("ask", "workspace"):
                assert isinstance(judge(action, contained(*rules, mode=mode)), NeedsApproval), (command, mode)
            refused = judge(action, contained(*rules, mode="unattended"))
            assert isinstance(refused, Deny), command
            assert refused.reason == "no_approver"


def test_the_question_names_exactly_what_is_lifted() -> None:
    found = _asked(judge(lifted("pip install x", HOSTS), contained()))
    assert found.findings == ("It can connect to pypi.example. Whatever it can read, it can send there.",)
    assert found.headline == "Leaves the sandbox, connecting to pypi.example: pip install x"
    lift = Lift(write=(f"{WORKSPACE}/.git/hooks", "/srv/x"), read=("/srv/y",))
    assert _asked(judge(lifted("./install", lift), contained())).findings == (
        f"It can change {WORKSPACE}/.git/hooks, which other programs run or obey later.",
        "It can change /srv/x, which is outside the workspace.",
        "It can read /srv/y, which is outside the workspace.",
    )
    found = _asked(judge(lifted("make", EVERYTHING), contained()))
    assert found.headline == "Runs without the sandbox: make"
    assert found.findings[0] == "It runs without the sandbox: it can do whatever you can."
    assert found.findings[1] == "`make` can change files."


def _asked(found: Verdict) -> NeedsApproval:
    assert isinstance(found, NeedsApproval)
    return found


def test_a_rule_for_a_lifted_command_covers_that_command_with_no_more_lifted() -> None:
    world = contained()
    rule = rule_for(lifted("pip install x", HOSTS), world)
    assert rule is not None
    assert "connecting to pypi.example" in describe(rule)
    again = judge(lifted("pip install x", HOSTS), world, grants=[rule])
    assert isinstance(again, Allow)
    for wider in (Lift(hosts=("pypi.example", "evil.example")), Lift(network=True), EVERYTHING):
        assert isinstance(judge(lifted("pip install x", wider), world, grants=[rule]), NeedsApproval)
    assert isinstance(judge(lifted("pip install y", HOSTS), world, grants=[rule]), NeedsApproval)
    old = GrantRule(tool="shell", argv=("pip", "install", "x"), paths=(WORKSPACE,))
    assert isinstance(judge(lifted("pip install x", HOSTS), world, grants=[old]), NeedsApproval)


def test_a_rule_that_allows_a_program_is_enough_inside_the_sandbox() -> None:
    """Unattended is useful: what a rule allows and the sandbox contains needs no person."""
    rule = ApprovalRule("allow", "shell")
    for command in (
        'for f in *; do python "$f"; done',
        "make > out.txt",
        "FOO=1 ./build.sh",
        "curl x.example",
    ):
        assert isinstance(judge(shell(command), contained(rule, mode="unattended")), Allow), command
        assert isinstance(judge(shell(command), contained(mode="unattended")), Deny), command
    secret = judge(shell("git log -p"), contained(rule, mode="unattended"))
    assert isinstance(secret, Allow)  # the rule covers it, sandbox or not


def test_a_network_that_is_on_still_asks_about_what_uses_it() -> None:
    world = contained(containment=Containment(held=True, network="on"))
    assert isinstance(judge(shell("curl https://a.example"), world), NeedsApproval)
    assert isinstance(judge(shell("make"), world), Allow)


def test_programs_that_build_and_test_get_similar_grants_only_inside() -> None:
    for command, other in (
        ("pytest -q tests/a.py", "pytest -x tests/b.py"),
        ("npm test", "npm test --silent"),
        ("make -j4 all", "make clean"),
        ("cargo test --release", "cargo test -q"),
    ):
        inside = contained(mode="ask")
        rule = rule_for(shell(command), inside, width="similar")
        assert rule is not None, command
        assert "in the sandbox" in offer_of(rule).covers
        assert isinstance(judge(shell(other), inside, grants=[rule]), Allow), other
        assert isinstance(judge(lifted(other, EVERYTHING), inside, grants=[rule]), NeedsApproval), other
        open_air = contained(mode="ask", containment=None)
        assert rule_for(shell(command), open_air, width="similar") is None, command
        assert isinstance(judge(shell(other), open_air, grants=[rule]), NeedsApproval), other
        lacking = contained(mode="ask", containment=LACKING)
        assert isinstance(judge(shell(other), lacking, grants=[rule]), NeedsApproval), other


def test_a_grant_lifts_what_is_below_its_paths_and_nothing_else() -> None:
    granted = Lift(hosts=("a.example",), write=("/srv",))
    assert is_within_lift(Lift(hosts=("a.example",), write=("/srv/x",)), granted)
    assert not is_within_lift(Lift(write=("/srvx",)), granted)
    assert not is_within_lift(Lift(read=("/srv",)), granted)
    assert is_within_lift(Lift(hosts=("b.example",)), Lift(network=True))
    assert is_within_lift(Lift(read=("/x",)), EVERYTHING)
