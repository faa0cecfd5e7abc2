"""The approval policy: whether an action runs, is asked about, or is refused.

A pure decision about a parsed action. Each part of a shell command is judged by itself; the whole gets the
worst verdict: denied before asked, asked before allowed. For each part, the short list of what is always
denied comes first, then the first configured rule that applies, then grants, then the mode.

- `plan`: anything that does more than read is denied, whatever rules and grants say.
- `unattended`: like `ask`, but anything that needs approval is denied.
- `ask`: commands and tools that only read inside the workspace run without asking.
- `edits`: so do file tools that write files of the workspace, if undo covers these files and they are neither
  protected nor secret.
- `workspace`: so does everything that the sandbox contains. If the sandbox is turned off, so do commands
  whose words are all literal and whose paths are all in the workspace; this trusts the programs that they
  start. If it is on but does not hold, this mode is `ask`.

What leaves the sandbox is asked about in every mode, and a rule for a program does not cover it. The same
applies to commands in a workspace where the sandbox can't hide every secret file: no rule, grant or mode lets
a command run with less.
"""

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.policy.approval_rules import (
    ActionPart,
    ApprovalRule,
    covered_by_rule,
    first_rule,
    nearly_covered,
    plain_host,
)
from holdfast.policy.autorun_files import autorun_in, makes_repository, written_later
from holdfast.policy.grants import covered_by_grant, grant_for, offer_of, once_because
from holdfast.policy.headlines import headline_for
from holdfast.policy.lifts import Containment, lift_findings
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.verdicts import ReadSteps, judge_script, steps_of
from holdfast.policy.tool_names import SHELL, UPDATE_PLAN, ToolKind, tool_kind
from holdfast.policy.verdicts import (
    Allow,
    Deny,
    FindingKind,
    NeedsApproval,
    PolicyFinding,
    Verdict,
    deny_unattended,
)
from holdfast.safe_text import exact_line
from holdfast.values import Action, ApprovalMode, Choice, GrantOffer, GrantRule, Lift, Width

FINDINGS_MAX = 100

_READS: frozenset[ToolKind | None] = frozenset(("read", "read_tree"))
_ABOUT_FILES: frozenset[ToolKind | None] = frozenset((*_READS, "write"))
_NOTHING: frozenset[FindingKind] = frozenset()
_WRITES: frozenset[FindingKind] = frozenset(("write",))
_CHANGES: frozenset[FindingKind] = frozenset(("change", "write"))
_BECAUSE: dict[frozenset[FindingKind], str] = {
    _NOTHING: "It only reads inside the workspace.",
    _WRITES: "It edits files of the workspace, and undo can restore them.",
    _CHANGES: "It stays inside the workspace, and programs there are trusted.",
}
PLAN_MODE = (
    "Not run: the session is in plan mode, where you can only read. Propose a plan with "
    f"{UPDATE_PLAN}. You can act when the user has accepted it or changed the mode."
)
_PLAN_TOOLS: frozenset[ToolKind | None] = frozenset(("read", "read_tree", "fetch", "free"))
_PLAN_FINDINGS: frozenset[FindingKind] = frozenset(
    ("outside", "secret", "rule")
)  # of commands that only read


def _never(_path: str) -> bool:
    return False


class Policy(Struct, frozen=True):
    """The basis for judging actions; built from the configuration, out of the agent's reach."""

    facts: PathFacts
    mode: ApprovalMode = "ask"
    rules: tuple[ApprovalRule, ...] = ()
    read: ReadSteps = steps_of
    containment: Containment | None = None  # None: the sandbox is turned off
    undoable: Callable[[str], bool] = _never  # whether undo covers this file of the workspace; may block

    @property
    def counts_as(self) -> ApprovalMode:
        """The mode that applies: without a sandbox that holds, programs of the workspace are not trusted."""
        lacks = self.containment is not None and not self.containment.held
        return "ask" if lacks and self.mode == "workspace" else self.mode

    @property
    def is_contained(self) -> bool:
        """Whether commands run in a sandbox that holds."""
        return self.containment is not None and self.containment.held


class _Judged(Struct, frozen=True):
    """The findings that need approval in each part, and why the action is denied (empty if it isn't)."""

    open: tuple[tuple[ActionPart, tuple[PolicyFinding, ...]], ...]
    denials: tuple[str, ...]
    reasons: tuple[str, ...]


def judge(action: Action, policy: Policy, *, grants: Sequence[GrantRule] = ()) -> Verdict:
    """The verdict on one exact action; never raises."""
    judged = _judge(action, policy, grants=grants)
    if judged.denials:
        return Deny(" ".join(_shown(judged.denials)))
    texts = [each.text for _, found in judged.open for each in found]
    if not texts:
        return Allow(" ".join(_shown(judged.reasons)))
    findings = _shown([*texts, *_beside(action)])
    if policy.mode == "unattended":
        return deny_unattended(findings)
    asking = [(part, found) for part, found in judged.open if found]
    offers = _offers(judged, policy)
    return NeedsApproval(
        findings,
        headline=exact_line(headline_for(_acting(judged), policy.facts)),
        offers=offers,
        once_because="" if offers else once_because(asking),
    )


def _beside(action: Action) -> list[str]:
    """Return the notes about the action for people; its own words must stay exactly what is run."""
    keeps = ["It keeps running in the background."] if action.background else []
    return [*keeps, f"The agent's reason: “{action.reason}”"] if action.reason else keeps


def _acting(judged: _Judged) -> list[tuple[ActionPart, tuple[PolicyFinding, ...]]]:
    """The parts that do more than read: an approval runs them all, whichever of them it was needed for."""
    acting = [(part, (*left, *part.findings)) for part, left in judged.open]
    return [(part, found) for part, found in acting if found]


def rule_for(
    action: Action, policy: Policy, *, grants: Sequence[GrantRule] = (), width: Width = "exact"
) -> GrantRule | None:
    """The rule that "session" or "always" would store, so that it can be shown first; None if there is none.

    A rule names one command. If several parts of an action remain to be asked about, or one has a finding
    that no rule covers, the action can only be allowed once.
    """
    judged = _judge(action, policy, grants=grants)
    return None if judged.denials else _rule(judged, policy, width)


def _rule(judged: _Judged, policy: Policy, width: Width) -> GrantRule | None:
    contained = policy.is_contained
    rules = [
        grant_for(part, found, policy.facts, width=width, contained=contained)
        for part, found in judged.open
        if found
    ]
    first = rules[0] if rules else None
    return first if all(rule == first for rule in rules) else None


def _offers(judged: _Judged, policy: Policy) -> tuple[GrantOffer, ...]:
    widths: tuple[Width, ...] = ("exact", "similar")
    rules = [_rule(judged, policy, width) for width in widths]
    return tuple(offer_of(rule) for rule in rules if rule is not None)


def choices_for(action: Action, policy: Policy, *, grants: Sequence[GrantRule] = ()) -> tuple[Choice, ...]:
    """Return the choices for a person."""
    if rule_for(action, policy, grants=grants) is None:
        return ("once", "deny")
    return ("once", "session", "always", "deny")


def _shown(sentences: Sequence[str]) -> tuple[str, ...]:
    """Sentences for people: no duplicates, not too many, and every character of them visible."""
    plain = list(dict.fromkeys(map(exact_line, sentences)))
    if len(plain) > FINDINGS_MAX:
        plain[FINDINGS_MAX:] = [f"There are {len(plain) - FINDINGS_MAX} more."]
    return tuple(plain)


def digest_of(action: Action) -> str:
    """A digest that identifies one exact action."""
    return sha256(msgspec.json.encode(action, order="sorted")).hexdigest()


def _judge(action: Action, policy: Policy, *, grants: Sequence[GrantRule]) -> _Judged:
    parts, denials = _parts(action, policy)
    open_parts: list[tuple[ActionPart, tuple[PolicyFinding, ...]]] = []
    reasons: list[str] = []
    for part in parts:
        rule = first_rule(part, policy.rules, facts=policy.facts)
        if rule is not None and rule.verdict == "deny":
            denials.append(f"A rule denies {_named(rule)}.")
        if policy.mode == "plan" and not _only_reads(part):
            denials.append(PLAN_MODE)
        if part.guess:
            if rule is not None and rule.verdict == "ask":
                open_parts.append((part, (_asked_by(rule),)))
            continue
        left = _left(part, policy, rule=rule, grants=grants)
        open_parts.append((part, left))
        reasons.append(_reason(part, policy, rule=rule))
    return _Judged(tuple(open_parts), tuple(dict.fromkeys(denials)), tuple(reasons))


def _left(
    part: ActionPart, policy: Policy, *, rule: ApprovalRule | None, grants: Sequence[GrantRule]
) -> tuple[PolicyFinding, ...]:
    """The findings of a part that no rule, grant or mode covers, and no sandbox prevents."""
    findings = part.findings
    covered = _covered_by_mode(part, policy)
    if rule is not None and rule.verdict == "ask":
        findings = (*findings, _asked_by(rule))
    if rule is not None and rule.verdict == "allow":
        covered |= covered_by_rule(rule, part, facts=policy.facts)
    for grant in grants:
        covered |= covered_by_grant(grant, part, policy.facts, contained=policy.is_contained)
    if policy.counts_as == "workspace" or (rule is not None and rule.verdict == "allow"):
        findings = tuple(each for each in findings if not _is_prevented(each, part, policy))
    left = tuple(finding for finding in findings if finding.kind not in covered)
    if left:  # a person who is asked anyway must know what they can't see
        left = tuple(dict.fromkeys((*left, *(each for each in part.findings if each.kind == "syntax"))))
    word = nearly_covered(part, policy.rules, facts=policy.facts) if left and rule is None else ""
    return (*left, PolicyFinding("change", f"No rule covers `{word}` here.")) if word else left


def _covered_by_mode(part: ActionPart, policy: Policy) -> frozenset[FindingKind]:
    # Outside the sandbox, nothing is trusted because it stays in the workspace: what it starts may not.
    is_outside = policy.containment is not None and part.lift.everything
    if policy.counts_as == "workspace":
        return _NOTHING if is_outside else _CHANGES
    if policy.counts_as == "edits" and tool_kind(part.tool) == "write":
        return _WRITES if part.paths and all(map(policy.undoable, part.paths)) else _NOTHING
    return _NOTHING


def _only_reads(part: ActionPart) -> bool:
    """Whether plan mode allows it, possibly with an approval: nothing changes."""
    if part.tool == SHELL:
        return all(finding.kind in _PLAN_FINDINGS for finding in part.findings)
    return tool_kind(part.tool) in _PLAN_TOOLS


def _is_prevented(finding: PolicyFinding, part: ActionPart, policy: Policy) -> bool:
    """Whether the sandbox prevents what a finding is about; only commands run in it."""
    return (
        part.tool == SHELL
        and policy.containment is not None
        and policy.containment.covers(finding, part.lift)
    )


def _asked_by(rule: ApprovalRule) -> PolicyFinding:
    return PolicyFinding("rule", f"A rule says to ask about {_named(rule)}.")


def _reason(part: ActionPart, policy: Policy, *, rule: ApprovalRule | None) -> str:
    """Why a part runs without asking."""
    if policy.counts_as == "workspace" and part.findings and policy.is_contained and part.tool == SHELL:
        return "The sandbox contains it."
    covered = _covered_by_mode(part, policy)
    if all(finding.kind in covered for finding in part.findings):
        return _BECAUSE[covered if part.findings else _NOTHING]
    if rule is not None and rule.verdict == "allow":
        return f"A rule allows {_named(rule)}."
    return "It was allowed earlier."


def _named(rule: ApprovalRule) -> str:
    return " ".join((rule.tool, *rule.argv, *rule.paths, rule.host)).strip()


def _parts(action: Action, policy: Policy) -> tuple[list[ActionPart], list[str]]:
    """The parts of an action, and why it is denied regardless of rules and grants."""
    facts = policy.facts
    if action.tool == SHELL:
        cwd = action.paths[0] if action.paths else facts.workspace
        script = judge_script(action.argv, facts, cwd=cwd, read=policy.read)
        steps = [
            ActionPart(
                tool=SHELL,
                findings=step.findings,
                argv=step.argv,
                settings=step.settings,
                literal=step.literal,
                outers=step.outers,
                cwds=step.cwds,
                fed=step.fed,
                writes=step.writes,
                paths=step.paths,
                down=step.down,
                reads=step.reads,
            )
            for step in script.steps
        ]
        steps = _with_shortfall(_with_lift(steps, action.lift, facts), action.shortfall)
        # What a wrapper may run besides is nothing to ask about by itself, but a rule may be about it.
        guesses = [ActionPart(SHELL, (), argv=argv, guess=True) for argv in script.guesses]
        return [*steps, *guesses], list(script.denials)
    paths = tuple(sorted(path for each in action.paths for path in facts.resolved(each, (facts.workspace,))))
    denials = [
        f"{path} belongs to Holdfast, so tools can't access it."
        for path in paths
        if facts.holdfast(path) or facts.configures(path)
    ]
    findings = tuple(dict.fromkeys(_tool_findings(action, paths, facts)))
    down = paths if tool_kind(action.tool) == "read_tree" else ()
    part = ActionPart(
        action.tool,
        findings,
        paths=paths,
        down=down,
        host=plain_host(action.host),
        definition=action.definition,
    )
    return [part], denials


def _with_lift(steps: list[ActionPart], lift: Lift, facts: PathFacts) -> list[ActionPart]:
    """The steps with what is lifted while they run; it is asked about where there is something to ask."""
    found = tuple(lift_findings(lift, facts.workspace))
    if not found:
        return steps
    if not steps:
        return [ActionPart(SHELL, found, lift=lift)]
    asks = [bool(step.findings) for step in steps]
    if not any(asks):
        asks[:1] = [True]
    return [
        replace(step, lift=lift, findings=(*found, *step.findings) if is_asked else step.findings)
        for step, is_asked in zip(steps, asks, strict=True)
    ]


def _with_shortfall(steps: list[ActionPart], shortfall: str) -> list[ActionPart]:
    """The steps that need a sandbox, with what it can't hold: no rule, grant or mode covers that."""
    if not shortfall:
        return steps
    found = PolicyFinding("shortfall", shortfall)
    return [replace(step, findings=(found, *step.findings)) if step.findings else step for step in steps]


def _tool_findings(action: Action, paths: tuple[str, ...], facts: PathFacts) -> Iterator[PolicyFinding]:
    """Reasons to ask about a call of a tool other than the shell."""
    for path in paths:
        if why := facts.kept(path):
            yield PolicyFinding("secret", why)
    kind = tool_kind(action.tool)
    if kind in _ABOUT_FILES:
        if not paths:
            yield PolicyFinding("write_outside", "It does not name its files.")
        for path in paths:
            yield from _file_findings(kind, path, facts)
    elif kind == "fetch":
        yield PolicyFinding("network", f"It fetches from {plain_host(action.host) or 'an unnamed host'}.")
    elif kind == "submit":
        yield PolicyFinding("submit", f"It sends a form to {plain_host(action.host) or 'an unnamed host'}.")
    elif kind == "later":
        yield PolicyFinding("later", "It makes Holdfast run an agent later, by itself.")
    elif kind not in {"free", "act"}:
        yield PolicyFinding("program", f"Holdfast cannot tell what {action.tool} does.")


def _file_findings(kind: ToolKind | None, path: str, facts: PathFacts) -> Iterator[PolicyFinding]:
    if kind in _READS:
        if not facts.inside(path):
            yield PolicyFinding("outside", f"It reads {path}, which is outside the workspace.")
    elif not facts.inside(path):
        yield PolicyFinding("write_outside", f"It writes {path}, which is outside the workspace.")
    elif autorun_in(path, facts) or makes_repository(path):
        yield PolicyFinding("autorun", written_later(path))
    else:
        yield PolicyFinding("write", f"It writes {path}.")
