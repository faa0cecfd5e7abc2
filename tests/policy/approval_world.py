"""The world in which the approval tests judge: a workspace with links, a home, Holdfast's own places."""

import posixpath
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from holdfast.interfaces.workspace_paths import is_within
from holdfast.policy.approval_rules import ApprovalRule
from holdfast.policy.approvals import Policy, judge, rule_for
from holdfast.policy.path_facts import PathFacts
from holdfast.policy.shell.option_tables import Reach
from holdfast.policy.shell.syntax import parse
from holdfast.policy.shell.verdicts import steps_of
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict
from holdfast.values import Action, ApprovalMode, GrantRule

WORKSPACE = "/home/u/project"
LINKS = {f"{WORKSPACE}/out": "/etc", f"{WORKSPACE}/up": "/home/u", f"{WORKSPACE}/link": f"{WORKSPACE}/src"}
CORPUS = Path(__file__).parent / "commands.toml"
TOO_MILD = Path(__file__).parent / "too_mild.toml"
NAMES = {Allow: "allow", NeedsApproval: "ask", Deny: "deny"}
READ = lru_cache(4_096)(steps_of)  # each command is judged several times
RANK = {Allow: 0, NeedsApproval: 1, Deny: 2}


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of command with what it must get."""

    name: str
    ask: str
    workspace: str
    commands: tuple[str, ...]
    rule: tuple[str, ...] = ()
    exact: bool = False

    @property
    def rules(self) -> tuple[ApprovalRule, ...]:
        return (ApprovalRule("allow", "shell", argv=self.rule, exact=self.exact),) if self.rule else ()


def shapes(corpus: Path = CORPUS) -> list[Shape]:
    return msgspec.convert(tomllib.loads(corpus.read_text("utf-8"))["shape"], list[Shape])


def written_down(corpus: list[Shape]) -> dict[tuple[str, str, str], str]:
    """What each command of the corpus must get in each mode."""
    return {
        (shape.name, command, mode): said
        for shape in corpus
        for command in shape.commands
        for mode, said in (
            ("ask", shape.ask),
            ("workspace", shape.workspace),
            ("unattended", "allow" if shape.ask == "allow" else "deny"),
        )
    }


def in_each_mode(
    corpus: list[Shape], judged: Callable[[str, Shape, ApprovalMode], Verdict]
) -> dict[tuple[str, str, str], str]:
    """What each command of the corpus gets in each mode."""
    modes: tuple[ApprovalMode, ...] = ("ask", "workspace", "unattended")
    return {
        (shape.name, command, mode): named(judged(command, shape, mode))
        for shape in corpus
        for command in shape.commands
        for mode in modes
    }


class Secrets:
    """A look at the files of too_mild.toml."""

    below = tuple(f"{WORKSPACE}/{name}" for name in (".env", "config/prod.env", "certs/server.key"))

    def secret_below(self, folder: str, *, reach: Reach) -> str:
        seen = [path for path in self.below if is_within(path, folder)]
        if reach == "shown":
            seen = [path for path in seen if "/." not in path[len(folder) :]]
        return f"{seen[0]}, which may hold secrets" if seen else ""

    def secret_in_history(self, folder: str) -> str:
        return ".env in the repository" if is_within(folder, WORKSPACE) else ""

    def secret_in_remotes(self, folder: str) -> str:
        return ".git/config, which contains a password" if is_within(folder, WORKSPACE) else ""


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


FACTS = PathFacts(
    workspace=WORKSPACE,
    home="/home/u",
    protected=("/home/u/.local/share/holdfast", "/home/u/.config/holdfast"),
    resolve=resolve,
    config=f"{WORKSPACE}/holdfast.toml",
)


def policy(*rules: ApprovalRule, mode: ApprovalMode = "ask") -> Policy:
    return Policy(FACTS, mode, rules, read=READ)


def shell(text: str, *, cwd: str = WORKSPACE) -> Action:
    return Action(tool="shell", summary=text[:300], argv=("/bin/bash", "-c", text), paths=(cwd,))


def verdict(
    text: str, *rules: ApprovalRule, mode: ApprovalMode = "ask", grants: tuple[GrantRule, ...] = ()
) -> Verdict:
    return judge(shell(text), policy(*rules, mode=mode), grants=grants)


def rule_made_for(action: Action, judged_by: Policy) -> GrantRule:
    rule = rule_for(action, judged_by)
    assert rule is not None
    return rule


def named(found: Verdict) -> str:
    return NAMES[type(found)]


def rank(text: str, mode: ApprovalMode = "ask") -> int:
    """How hard the verdict is: 0 runs, 1 asks, 2 is refused."""
    return RANK[type(verdict(text, mode=mode))]


def closed_commands() -> list[str]:
    """The commands of the corpus that stay what they are when others stand beside them."""
    texts = [command for shape in shapes() for command in shape.commands]
    return [
        text
        for text in texts
        if not any(mark in text for mark in ("#", "<<", "\\", "`", "\n"))
        and not text.endswith("&")
        and not any(
            "not valid shell syntax" in found or "character" in found for found in parse(text).findings
        )
        and text.strip()
    ]
