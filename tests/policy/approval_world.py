"""The world in which the approval tests judge: a workspace with links, a home, Holdfast's own places."""

import posixpath
import tomllib
from dataclasses import dataclass
from pathlib import Path

from holdfast.policy.approval_rules import Rule
from holdfast.policy.approvals import ApprovalMode, Policy, judge, rule_for
from holdfast.policy.places import Places
from holdfast.policy.shell_syntax import parse
from holdfast.policy.verdicts import Verdict
from holdfast.values import Action, GrantRule

WORKSPACE = "/home/u/project"
LINKS = {f"{WORKSPACE}/out": "/etc", f"{WORKSPACE}/up": "/home/u", f"{WORKSPACE}/link": f"{WORKSPACE}/src"}
CORPUS = Path(__file__).parent / "commands.toml"
RANK = {"Allow": 0, "Ask": 1, "Deny": 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of command with what it must get."""

    name: str
    ask: str
    workspace: str
    commands: tuple[str, ...]


def shapes() -> list[Shape]:
    tables = tomllib.loads(CORPUS.read_text("utf-8"))["shape"]
    return [Shape(**table | {"commands": tuple(table["commands"])}) for table in tables]


def resolve(path: str) -> str:
    """Follow the links of this world, one part of the path after the other."""
    reached = "/"
    for part in path.split("/"):
        if part == "..":
            reached = posixpath.dirname(reached)
        elif part not in {"", "."}:
            reached = posixpath.join(reached, part)
        reached = LINKS.get(reached, reached)
    return reached


PLACES = Places(
    workspace=WORKSPACE,
    home="/home/u",
    protected=("/home/u/.local/share/holdfast", "/home/u/.config/holdfast"),
    resolve=resolve,
    config=f"{WORKSPACE}/holdfast.toml",
)


def policy(*rules: Rule, mode: ApprovalMode = "ask") -> Policy:
    return Policy(PLACES, mode, rules)


def shell(text: str, *, cwd: str = WORKSPACE) -> Action:
    return Action(tool="shell", summary=text[:300], argv=("/bin/bash", "-c", text), paths=(cwd,))


def verdict(
    text: str, *rules: Rule, mode: ApprovalMode = "ask", grants: tuple[GrantRule, ...] = ()
) -> Verdict:
    return judge(shell(text), policy(*rules, mode=mode), grants=grants)


def rule_made_for(action: Action, judged_by: Policy) -> GrantRule:
    rule = rule_for(action, judged_by)
    assert rule is not None
    return rule


def named(found: Verdict) -> str:
    return type(found).__name__.lower()


def rank(text: str, mode: ApprovalMode = "ask") -> int:
    """How hard the verdict is: 0 runs, 1 asks, 2 is refused."""
    return RANK[type(verdict(text, mode=mode)).__name__]


def closed_commands() -> list[str]:
    """The commands of the corpus that stay what they are when others stand beside them."""
    texts = [command for shape in shapes() for command in shape.commands]
    return [
        text
        for text in texts
        if not any(mark in text for mark in ("#", "<<", "\\", "`", "\n"))
        and not text.endswith("&")
        and not any("not one that a shell" in found or "character" in found for found in parse(text).findings)
        and text.strip()
    ]
