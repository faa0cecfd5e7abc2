"""Permission modes: what each allows, asks about and denies, by kind of action."""

from itertools import pairwise

from msgspec.structs import replace

from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import PLAN_MODE, Policy, judge
from holdfast.policy.lifts import Containment
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval
from holdfast.values import MODES, Action, ApprovalMode, GrantRule, Lift, asks_less, mode_named, strictest
from policy.approval_world import FACTS, READ, WORKSPACE, named
from tables import for_each_row

UNCOVERED = f"{WORKSPACE}/build/out.js"


def tool(name: str, path: str = "", **more: object) -> Action:
    paths = (f"{WORKSPACE}/{path}" if not path.startswith("/") else path,) if path else ()
    return replace(Action(tool=name, summary=name, paths=paths), **more)


def command(line: str, lift: Lift | None = None) -> Action:
    action = Action(tool="shell", summary=line, argv=("bash", "-c", line), paths=(WORKSPACE,))
    return replace(action, lift=lift) if lift is not None else action


def policy(mode: ApprovalMode, *rules: ApprovalRule) -> Policy:
    """A sandbox that holds, and undo for everything but one file."""
    held = Containment(held=True)
    return Policy(FACTS, mode, rules, read=READ, containment=held, undoable=lambda path: path != UNCOVERED)


# kind of action: what it gets in plan, unattended, ask, edits and workspace
TABLE: tuple[tuple[str, Action, str], ...] = (
    ("read", tool("read_file", "src/a.py"), "allow allow allow allow allow"),
    ("list", tool("list_files", "src"), "allow allow allow allow allow"),
    ("read outside", tool("read_file", "/etc/hosts"), "ask deny ask ask ask"),
    ("read a secret", tool("read_file", ".env"), "ask deny ask ask ask"),
    ("read Holdfast's own", tool("read_file", "/home/u/.config/holdfast/x"), "deny deny deny deny deny"),
    ("edit", tool("edit_file", "src/a.py"), "deny deny ask allow allow"),
    ("write", tool("write_file", "src/new.py"), "deny deny ask allow allow"),
    ("patch", tool("apply_patch", "src/a.py"), "deny deny ask allow allow"),
    ("patch a protected file", tool("apply_patch", ".github/workflows/ci.yml"), "deny deny ask ask ask"),
    ("edit what undo doesn't cover", tool("edit_file", "build/out.js"), "deny deny ask ask allow"),
    ("edit outside", tool("edit_file", "/home/u/other"), "deny deny ask ask ask"),
    ("edit through a link", tool("edit_file", "out/hosts"), "deny deny ask ask ask"),
    ("edit a protected file", tool("edit_file", ".github/workflows/ci.yml"), "deny deny ask ask ask"),
    ("edit a hook", tool("write_file", ".git/hooks/pre-commit"), "deny deny ask ask ask"),
    ("make a bare repository", tool("write_file", "src/HEAD"), "deny deny ask ask ask"),
    ("edit instructions", tool("edit_file", "AGENTS.md"), "deny deny ask ask ask"),
    ("edit a secret", tool("edit_file", ".env"), "deny deny ask ask ask"),
    ("edit Holdfast's own", tool("edit_file", "holdfast.toml"), "deny deny deny deny deny"),
    ("edit no file", tool("edit_file"), "deny deny ask ask ask"),
    ("a command that reads", command("ls src"), "allow allow allow allow allow"),
    ("a command that changes, in the sandbox", command("touch src/b.py"), "deny deny ask ask allow"),
    ("a redirection, in the sandbox", command("echo x > src/a.py"), "deny deny ask ask allow"),
    ("a program, in the sandbox", command("make"), "deny deny ask ask allow"),
    ("a command outside the sandbox", command("make", Lift(everything=True)), "deny deny ask ask ask"),
    ("a command with network", command("make", Lift(hosts=("a.example",))), "deny deny ask ask ask"),
    ("a read outside the sandbox", command("ls", Lift(everything=True)), "deny deny ask ask ask"),
    ("fetch", tool("fetch_url", host="a.example"), "ask deny ask ask ask"),
    ("search the web", tool("web_search", host="a.example"), "ask deny ask ask ask"),
    ("a tool of an MCP server", tool("github__create_issue"), "deny deny ask ask ask"),
    ("schedule", tool("schedule"), "deny deny ask ask ask"),
    ("delegate", tool("delegate"), "allow allow allow allow allow"),
    ("remember", tool("remember"), "allow allow allow allow allow"),
    ("ask the user", tool("ask_user"), "allow allow allow allow allow"),
)


@for_each_row("kind, action, verdicts", TABLE, ids=[kind for kind, _, _ in TABLE])
def test_each_mode_allows_asks_about_and_denies_exactly_this(
    kind: str, action: Action, verdicts: str
) -> None:
    """P8, P13: a mode answers no request. It decides which actions need one, and none runs by mistake."""
    found = [named(judge(action, policy(mode))) for mode in MODES]
    assert found == verdicts.split(), kind


@for_each_row("kind, action, verdicts", TABLE, ids=[kind for kind, _, _ in TABLE])
def test_no_rule_or_grant_changes_what_plan_mode_denies(kind: str, action: Action, verdicts: str) -> None:
    """P13: whatever was allowed for good, a session in plan mode only reads."""
    rules = ApprovalRule("allow", action.tool, argv=("make",) if action.tool == "shell" else ())
    grants = [GrantRule(tool=action.tool, paths=action.paths, host=action.host, lift=action.lift)]
    found = judge(action, policy("plan", rules), grants=grants)
    assert isinstance(found, Deny) is (verdicts.split(maxsplit=1)[0] == "deny"), kind
    if isinstance(found, Deny) and "Holdfast" not in kind:
        assert found.why == PLAN_MODE


def test_what_runs_without_a_person_in_a_mode_runs_so_in_every_less_strict_one() -> None:
    """P13: modes are compared by their order."""
    for kind, action, _ in TABLE:
        runs = [isinstance(judge(action, policy(mode)), Allow) for mode in MODES]
        assert all(later or not earlier for earlier, later in pairwise(runs)), kind


def test_edits_asks_about_every_file_that_undo_is_not_known_to_cover() -> None:
    """P13: a program without undo has no such file."""
    edit = tool("edit_file", "src/a.py")
    assert isinstance(judge(edit, replace(policy("edits"), undoable=Policy(FACTS).undoable)), NeedsApproval)
    both = replace(edit, paths=(*edit.paths, UNCOVERED))
    assert isinstance(judge(both, policy("edits")), NeedsApproval)


def test_a_rule_that_denies_or_asks_counts_in_every_mode() -> None:
    """P13."""
    for mode in MODES:
        deny, ask = ApprovalRule("deny", "read_file"), ApprovalRule("ask", "read_file")
        read = tool("read_file", "src/a.py")
        assert isinstance(judge(read, policy(mode, deny)), Deny)
        assert not isinstance(judge(read, policy(mode, ask)), Allow)


def test_modes_are_ordered_and_keep_their_old_name() -> None:
    assert MODES == ("plan", "unattended", "ask", "edits", "workspace")
    assert mode_named("allow-workspace") == mode_named("workspace") == "workspace"
    assert mode_named("") == ""
    assert asks_less("edits", "ask")
    assert not asks_less("ask", "ask")
    assert strictest("ask", "plan", "workspace") == "plan"
