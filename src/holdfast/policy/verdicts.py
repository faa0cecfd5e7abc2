"""The policy's verdict on an action, and the findings that lead to it."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.values import ApprovalMode, GrantOffer

RuleVerdict: TypeAlias = Literal["allow", "ask", "deny"]
RULE_VERDICTS: tuple[RuleVerdict, ...] = ("allow", "ask", "deny")

# What a finding is about decides which rules and grants can cover it.
FindingKind: TypeAlias = Literal[
    "syntax",  # the text cannot be judged as a whole
    "wrapper",  # something runs that is not visible here
    "word",  # a word whose meaning is fixed only when it runs
    "setting",  # a variable that may change what a program does
    "secret",  # a place where secrets are kept
    "write_outside",  # a file outside the workspace is written
    "autorun",  # a file is written that other programs run or obey later
    "write",  # a file of the workspace is written
    "outside",  # a path outside the workspace is named
    "network",  # other machines are involved
    "program",  # a program that does more than change files of the workspace
    "repository",  # git runs a program that the repository names
    "change",  # something in the workspace may change
    "submit",  # a form is sent
    "later",  # something is asked again and again, by nobody
    "rule",  # a configured rule says to ask
    "lift",  # it leaves the sandbox
    "shortfall",  # the sandbox can't hold all that it should in this workspace
]


class PolicyFinding(Struct, frozen=True):
    """One reason to ask, as a sentence that people read."""

    kind: FindingKind
    text: str
    escapes: bool = False  # a sandbox does not prevent it


class Allow(Struct, frozen=True):
    """The action runs without asking."""

    why: str


@dataclass(frozen=True, slots=True)
class NeedsApproval:
    """A person decides; `findings` are all the reasons, and the rest explains them.

    `headline` says in one line what it is about. `offers` are the rules that a person can store, narrowest
    first; if there are none, `once_because` says why.
    """

    findings: tuple[str, ...]
    headline: str = field(default="", compare=False)
    offers: tuple[GrantOffer, ...] = field(default=(), compare=False)
    once_because: str = field(default="", compare=False)


class Deny(Struct, frozen=True):
    """The action does not run; `reason` is what the model is told."""

    why: str
    reason: Literal["denied", "no_approver"] = "denied"
    findings: tuple[str, ...] = ()


Verdict: TypeAlias = Allow | NeedsApproval | Deny


def for_a_person(findings: tuple[str, ...], mode: ApprovalMode) -> NeedsApproval | Deny:
    """The verdict where only a person may decide: ask, or refuse if nobody is there."""
    if mode == "unattended":
        return deny_unattended(findings)
    return NeedsApproval(findings)


def deny_unattended(findings: tuple[str, ...]) -> Deny:
    """Refuse what only a person may allow."""
    return Deny("Nobody is available to approve it.", reason="no_approver", findings=findings)
