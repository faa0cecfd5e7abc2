"""Grants: what a person allowed for a session or always, which actions each covers, and which to offer.

- An exact grant matches the same variables and words, no others, in the same directory, with no input,
  writing only to the files that it names. For the shell its `argv` holds the variables (NAME=value) and
  words, and its `paths` hold the directory and then the files.
- A similar grant names a program and subcommand. It covers them in the same directory with the options that
  `program_usages` lists for it and with literal paths of ordinary workspace files: no variables, no input,
  no redirections that write. It covers nothing but changes in the workspace. A command with any other
  finding (a network, a secret, a program that the repository names, a file that runs later) asks as before.
  Programs that build and test have such a grant only while a sandbox contains them.

A grant also covers what it names of the sandbox to be lifted, and no more. No grant covers an action that a
configured rule says to ask about.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from holdfast.policy.approval_rules import ActionPart
from holdfast.policy.extra_words import first_uncovered, is_runner, similar_usage
from holdfast.policy.lifts import describe_lift, is_within_lift
from holdfast.policy.path_facts import Below, PathFacts
from holdfast.policy.shell.words import Word
from holdfast.policy.tool_names import BROWSER_OPEN, FETCH_URL, SHELL
from holdfast.policy.verdicts import FindingKind, PolicyFinding
from holdfast.values import GrantOffer, GrantRule, Width

_NOTHING: frozenset[FindingKind] = frozenset()
_PAGES = frozenset((FETCH_URL, BROWSER_OPEN))
_EXACT: frozenset[FindingKind] = frozenset(
    ("change", "program", "network", "outside", "repository", "setting", "write")
)
_EXACT_TOOL: frozenset[FindingKind] = frozenset((*_EXACT, "write_outside", "autorun"))
_SIMILAR: frozenset[FindingKind] = frozenset(("change",))
# Inside a sandbox that holds, a program that builds or tests reaches no more than the sandbox lets it.
_SIMILAR_INSIDE: frozenset[FindingKind] = frozenset(("change", "program", "repository", "network"))
_LIFT: frozenset[FindingKind] = frozenset(("lift",))
# Folders that are often in PATH: a file in one of them may run in place of a program that needs no question.
_LOOKED_UP = frozenset(("bin", "sbin", "scripts", "node_modules", "venv", "env", "virtualenv", "vendor"))
_RECURSIVE = re.compile(r"-[A-Za-z]*[aRr]|--(?:rec|arch)")
_PATHSPEC = re.compile(r"^:|[*?\[]")
_ONLY_ONCE = "so you can only allow it once"
_ONCE_BECAUSE: Mapping[FindingKind, str] = MappingProxyType(
    {
        "rule": f"The configuration says to ask every time, {_ONLY_ONCE}.",
        "syntax": f"Holdfast can't check all of this command, {_ONLY_ONCE}.",
        "wrapper": f"It runs something that Holdfast can't see in advance, {_ONLY_ONCE}.",
        "word": f"Part of it is known only when it runs, {_ONLY_ONCE}.",
        "shortfall": f"The sandbox can't hide or check everything here, {_ONLY_ONCE}.",
        "submit": f"It sends a form, {_ONLY_ONCE}.",
        "later": f"It makes Holdfast act by itself, {_ONLY_ONCE}.",
        "secret": f"It may show secrets, {_ONLY_ONCE}.",
        "autorun": f"It may write a file that programs run later, {_ONLY_ONCE}.",
        "write_outside": f"It writes outside the workspace, {_ONLY_ONCE}.",
    }
)


def covered_by_grant(
    grant: GrantRule, part: ActionPart, facts: PathFacts, *, contained: bool = False
) -> frozenset[FindingKind]:
    """Return the findings of a part that a grant covers; none if it applies to something else.

    `contained` says whether the part runs in a sandbox that holds.
    """
    if grant.tool != part.tool:
        return _NOTHING
    if part.tool != SHELL:
        # A server can change what a tool does under the same name; then the tool is another.
        same_tool = grant.host == part.host and grant.definition == part.definition
        known = same_tool and bool(grant.paths) == bool(part.paths)
        return _EXACT_TOOL if known and set(part.paths) <= set(grant.paths) else _NOTHING
    if not part.argv or not part.literal or part.fed or part.cwds != grant.paths[:1]:
        return _NOTHING
    lifted = _LIFT if is_within_lift(part.lift, grant.lift) else _NOTHING
    if grant.width == "similar":
        inside = contained and not part.lift.everything
        if not _is_similar(grant, part, facts, contained=inside):
            return _NOTHING
        return lifted | (_SIMILAR_INSIDE if is_runner(grant.argv) else _SIMILAR)
    same = grant.argv == (*part.settings, *part.argv) and set(part.writes) <= set(grant.paths[1:])
    return lifted | _EXACT if same else _NOTHING


def _is_similar(grant: GrantRule, part: ActionPart, facts: PathFacts, *, contained: bool) -> bool:
    """Whether a part runs the granted program and subcommand with nothing but harmless words."""
    found = similar_usage(part.argv, contained=contained)
    if found is None or found[0] != grant.argv or part.settings or part.writes or part.outers:
        return False
    takes_all = grant.argv[0] == "mv" or any(map(_RECURSIVE.match, part.argv[1:]))

    def is_ordinary(text: str) -> bool:
        paths = facts.mentioned(Word(text), part.cwds)
        if grant.argv[0] == "git":
            # Git records what is in a file. It reads patterns and `:(top)` itself.
            return not _PATHSPEC.search(text) and all(map(facts.ordinary, paths))
        if is_runner(grant.argv):
            return all(map(facts.ordinary, paths))
        return all(facts.ordinary(path) and _is_plain(path, facts, whole=takes_all) for path in paths)

    width: Width | None = None if is_runner(grant.argv) else "similar"
    return not first_uncovered(part.argv, len(grant.argv), is_ordinary=is_ordinary, width=width)


def _is_plain(path: str, facts: PathFacts, *, whole: bool) -> bool:
    """Whether programs are looked for elsewhere: it is in no `bin`, no environment and nothing hidden.

    With `whole`, so is everything below it.
    """
    below = facts.below(path) if whole else Below()
    if below.names and not below.known:
        return False
    parts = [
        part for name in (path[len(facts.workspace) :], *below.names) for part in name.lower().split("/")
    ]
    return _LOOKED_UP.isdisjoint(parts) and not any(part.startswith(".") for part in parts)


def grant_for(
    part: ActionPart,
    findings: Sequence[PolicyFinding],
    facts: PathFacts,
    *,
    width: Width = "exact",
    contained: bool = False,
) -> GrantRule | None:
    """The grant of this width that covers these findings of a part, or None if none can."""
    if part.guess:
        return None
    kinds = {finding.kind for finding in findings}
    if width == "similar":
        inside = contained and not part.lift.everything
        found = similar_usage(part.argv, contained=inside) if part.tool == SHELL else None
        if found is None:
            return None
        grant = GrantRule(tool=SHELL, argv=found[0], paths=part.cwds[:1], width="similar", lift=part.lift)
    elif part.tool != SHELL:
        grant = GrantRule(tool=part.tool, paths=part.paths, host=part.host, definition=part.definition)
    else:
        words = (*part.settings, *part.argv)
        paths = (*part.cwds[:1], *part.writes)
        grant = GrantRule(tool=part.tool, argv=words, paths=paths, lift=part.lift)
    return grant if kinds <= covered_by_grant(grant, part, facts, contained=contained) else None


def offer_of(rule: GrantRule) -> GrantOffer:
    """A rule with an action that it covers and one that still asks."""
    if rule.width == "similar":
        if is_runner(rule.argv):
            command = " ".join(rule.argv)
            return GrantOffer(
                rule=rule,
                covers=f"{command} in the sandbox, with other options that Holdfast knows",
                asks=f"{command} outside the sandbox, or with more lifted",
            )
        found = similar_usage(rule.argv)
        assert found is not None, "a similar grant is made from its table"
        return GrantOffer(rule=rule, covers=found[1].covers, asks=found[1].asks)
    if rule.tool == SHELL:
        into = "".join(f" > {shlex.quote(path)}" for path in rule.paths[1:])
        other = shlex.join((*rule.argv, "--another-option"))
        return GrantOffer(rule=rule, covers=shlex.join(rule.argv) + into, asks=other + into)
    if rule.tool in _PAGES:
        return GrantOffer(
            rule=rule,
            covers=f"any page of {rule.host}",
            asks=f"a page of any other host, such as www2.{rule.host}",
        )
    if rule.paths:
        return GrantOffer(rule=rule, covers=f"{rule.tool} on {', '.join(rule.paths)}", asks="any other file")
    return GrantOffer(rule=rule, covers=f"{rule.tool} with any arguments", asks="any other tool")


def once_because(parts: Sequence[tuple[ActionPart, Sequence[PolicyFinding]]]) -> str:
    """Why an action can't be allowed for longer, as one sentence."""
    kinds = {finding.kind for _, findings in parts for finding in findings}
    for kind, sentence in _ONCE_BECAUSE.items():
        if kind in kinds:
            return sentence
    if any(part.fed for part, _ in parts):
        return f"It takes input from elsewhere, {_ONLY_ONCE}."
    if len(parts) > 1:
        return f"It runs several commands that need approval, {_ONLY_ONCE}. Rules are for one command each."
    return f"It may run in more than one directory, {_ONLY_ONCE}."


def _command_line(argv: Sequence[str]) -> str:
    """The words as someone would type them; as JSON if they contain characters that can't be seen."""
    line = shlex.join(argv)
    return line if line.isprintable() else msgspec.json.encode(argv).decode()


def describe(rule: GrantRule) -> str:
    """A grant as a sentence, for the person who is about to give it."""
    if rule.tool == SHELL:
        where, *files = rule.paths or ("any directory",)
        lifted = f", {said}" if (said := describe_lift(rule.lift)) else ""
        if rule.width == "similar":
            command = " ".join(rule.argv)
            in_sandbox = " in the sandbox" if is_runner(rule.argv) else ""
            return (
                f"`{command}`{in_sandbox} in {where} with harmless options, on ordinary files of the "
                f"workspace{lifted}."
            )
        into = f", writing {', '.join(files)}" if files else ""
        return f"Exactly `{_command_line(rule.argv)}` in {where}{into}{lifted}."
    if rule.host and rule.tool in _PAGES:
        return f"{rule.tool} from the host {rule.host}."
    return f"{rule.tool} on {', '.join(rule.paths)}." if rule.paths else f"{rule.tool}, with any arguments."
