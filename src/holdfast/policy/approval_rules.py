"""Configured rules: which part of an action each applies to, and what it covers.

A rule's `argv` is compared word by word with the program that runs, never with a wrapper around it.

- An allow rule matches a command that begins with these words and whose words are all literal. Further words
  must be harmless: files of the workspace, or options that `program_usages` lists. With `exact`, or for a
  program that isn't listed there, there must be none. Redirections that write are covered only by a rule with
  `paths` (everything that the command may touch must be below them), or, for the whole shell, by a rule with
  neither. Only the latter covers variables, and secret and auto-run files that a command may touch.
- A folder in `paths` covers no secret file and no auto-run file in it. A rule for a file tool covers such a
  file if its `paths` name the file itself.
- An ask or deny rule matches more: its words in this order with others between them, any path to the
  program, and any wrapper; with `paths`, it matches if the command may touch anything below them, or
  searches or lists a directory above one of them.
"""

from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct, field

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.autorun_files import is_autorun, makes_repository
from holdfast.policy.extra_words import first_uncovered
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.words import Word, known_name, likely_name
from holdfast.policy.tool_names import APPLY_PATCH, EDIT_FILE, SHELL, WRITE_FILE
from holdfast.policy.verdicts import RULE_VERDICTS, FindingKind, PolicyFinding, RuleVerdict
from holdfast.safe_text import ascii_host
from holdfast.values import Lift

EVERY_TOOL = "*"

_BY_NAME: frozenset[FindingKind] = frozenset(("change", "program", "network"))
_BY_WORDS: frozenset[FindingKind] = frozenset((*_BY_NAME, "outside"))
_BY_TOOL: frozenset[FindingKind] = frozenset((*_BY_NAME, "write", "submit"))
_BY_PLACE: frozenset[FindingKind] = frozenset((*_BY_WORDS, "repository", "write", "write_outside"))
_BY_FILE: frozenset[FindingKind] = frozenset((*_BY_PLACE, "autorun", "secret"))
_BLANKET: frozenset[FindingKind] = frozenset((*_BY_FILE, "wrapper", "word", "setting"))


class BadRule(ValueError):
    """A configured rule that makes no sense; the text says why."""


class ApprovalRule(Struct, frozen=True):
    """One configured rule."""

    verdict: RuleVerdict
    tool: str
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    host: str = ""
    exact: bool = False  # the words of argv and no others


class ActionPart(Struct, frozen=True):
    """The unit that a rule or grant applies to: one command of a script, or a whole call of another tool."""

    tool: str
    findings: tuple[PolicyFinding, ...]
    argv: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    literal: bool = True
    outers: tuple[tuple[str, ...], ...] = ()
    cwds: tuple[str, ...] = ()
    fed: bool = False
    writes: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    down: tuple[str, ...] = ()  # directories that it goes down into
    reads: tuple[str, ...] = ()  # files that its input comes from
    host: str = ""
    guess: bool = False  # it may be a part: only rules that deny or ask are about it
    lift: Lift = field(default_factory=Lift)  # what is lifted of the sandbox while it runs
    definition: str = ""


def rule_from(table: Mapping[str, object]) -> ApprovalRule:
    """Build a rule from its table in the configuration; raises BadRule."""
    verdicts: list[RuleVerdict] = [verdict for verdict in RULE_VERDICTS if verdict in table]
    if len(verdicts) != 1:
        raise BadRule("A rule needs exactly one of allow, ask and deny.")
    if unknown := sorted(table.keys() - {"argv", "paths", "host", "exact", *RULE_VERDICTS}):
        raise BadRule(f"A rule has no field {unknown[0]!r}; there are argv, exact, paths and host.")
    tool, host = table[verdicts[0]], table.get("host", "")
    if not isinstance(tool, str) or not tool or not isinstance(host, str):
        raise BadRule("A rule's tool and host must be strings.")
    argv, paths = (_texts(table, name) for name in ("argv", "paths"))
    if argv and tool != SHELL:
        raise BadRule(f"Only a rule for the tool shell can have argv, not one for {tool}.")
    exact = table.get("exact", False)
    if not isinstance(exact, bool) or (exact and not (argv and verdicts[0] == "allow")):
        raise BadRule("exact must be true or false, in a rule that allows an argv.")
    return ApprovalRule(verdicts[0], tool, argv=argv, paths=paths, host=plain_host(host), exact=exact)


def _texts(table: Mapping[str, object], name: str) -> tuple[str, ...]:
    value = table.get(name, ())
    items = cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else None
    if items is None or not all(isinstance(item, str) for item in items) or (name in table and not items):
        raise BadRule(f"A rule's {name} must be a non-empty list of strings.")
    return cast("tuple[str, ...]", tuple(items))


def plain_host(host: str) -> str:
    """A host name in the spelling that's compared and shown."""
    return ascii_host(host).lower().rstrip(".")


def first_rule(part: ActionPart, rules: Sequence[ApprovalRule], *, facts: PathFacts) -> ApprovalRule | None:
    """The first rule that applies to this part."""
    return next((rule for rule in rules if _is_about(rule, part, facts=facts)), None)


def _names(rule: ApprovalRule, tool: str) -> bool:
    """Whether the rule is about the tool; one against changes of files is also against patches of them."""
    if rule.tool in {tool, EVERY_TOOL}:
        return True
    return rule.verdict != "allow" and tool == APPLY_PATCH and rule.tool in {EDIT_FILE, WRITE_FILE}


def _is_about(rule: ApprovalRule, part: ActionPart, *, facts: PathFacts) -> bool:
    if not _names(rule, part.tool) or (rule.host and rule.host != part.host):
        return False
    roots = _roots(rule, facts)
    touched = (*part.paths, *part.writes) or part.cwds
    within = [any(is_within(path, root) for root in roots) for path in touched]
    if rule.verdict == "allow":
        in_place = not roots or (bool(touched) and all(within))
        return in_place and (
            not rule.argv or (_begins_with(part, rule.argv) and not beyond(rule, part, facts))
        )
    from_above = any(is_within(root, path) for path in part.down for root in roots)
    return (not roots or any(within) or from_above) and (not rule.argv or _contains(part, rule.argv))


def beyond(rule: ApprovalRule, part: ActionPart, facts: PathFacts) -> str:
    """The first word of a command that a rule for its first words does not cover; empty if there is none.

    A file that its input comes from counts like one that it names.
    """
    source = next((path for path in part.reads if not rule.paths and not facts.ordinary(path)), "")
    if source:
        return f"< {source}"
    if rule.exact:
        return "".join(part.argv[len(rule.argv) : len(rule.argv) + 1])

    def is_ordinary(text: str) -> bool:
        # Where a rule names places, everything that the command may touch was seen to lie there.
        return bool(rule.paths) or all(map(facts.ordinary, facts.mentioned(Word(text), part.cwds)))

    return first_uncovered(part.argv, len(rule.argv), is_ordinary=is_ordinary)


def nearly_covered(part: ActionPart, rules: Sequence[ApprovalRule], *, facts: PathFacts) -> str:
    """Return the word that keeps the longest matching rule from covering a command, if any."""
    near = [rule for rule in rules if rule.verdict == "allow" and rule.tool == part.tool and rule.argv]
    near = [rule for rule in near if _begins_with(part, rule.argv)]
    return beyond(max(near, key=lambda rule: len(rule.argv)), part, facts) if near else ""


def _runs_later(path: str, roots: Sequence[str]) -> bool:
    """Whether this is an auto-run file of one of these folders, which can be outside the workspace."""
    return any(
        is_within(path, root) and (is_autorun(path[len(root) :]) or makes_repository(path)) for root in roots
    )


def _begins_with(part: ActionPart, argv: tuple[str, ...]) -> bool:
    """Whether the literal words of a part begin with these, and its program is known by name or path."""
    if not part.literal or len(part.argv) < len(argv):
        return False
    program = part.argv[0] == argv[0] or known_name(Word(part.argv[0])) == argv[0]
    return program and part.argv[1 : len(argv)] == argv[1:]


def _contains(part: ActionPart, argv: tuple[str, ...]) -> bool:
    """Whether these words occur in this order in a part or in a wrapper around it."""
    return any(
        argv[0] in {words[0], likely_name(Word(words[0]))} and _in_order(argv[1:], words[1:])
        for words in (part.argv, *part.outers)
        if words
    )


def _in_order(wanted: tuple[str, ...], words: tuple[str, ...]) -> bool:
    rest = iter(words)
    return all(word in rest for word in wanted)


def _roots(rule: ApprovalRule, facts: PathFacts) -> list[str]:
    return [root for path in rule.paths for root in facts.resolved(path, (facts.workspace,))]


def covered_by_rule(rule: ApprovalRule, part: ActionPart, *, facts: PathFacts) -> frozenset[FindingKind]:
    """Return the findings of a part that an applicable allow rule covers."""
    if rule.paths:
        roots = _roots(rule, facts)
        # The words of a command can name folders, and a search reads what is below them.
        if part.tool != SHELL and not part.down and set(part.paths) <= set(roots):
            return _BY_FILE
        written = part.writes if part.tool == SHELL else part.paths
        is_autorun_outside = any(_runs_later(path, roots) for path in written)
        return _BY_PLACE - {"write_outside"} if is_autorun_outside else _BY_PLACE
    if rule.tool == SHELL and not rule.argv:
        return _BLANKET
    return _BY_WORDS if rule.argv else _BY_TOOL
