"""The approval policy as an agent uses it: rules, mode and grants, for the workspace of each run."""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec
from msgspec import Struct, field
from typing_extensions import override

from holdfast.interfaces.journal import Notes
from holdfast.interfaces.tool import CheckableTool, Tool
from holdfast.policy.tool_names import READ_FILE
from holdfast.policy.verdicts import Allow, Deny, NeedsApproval, Verdict, for_a_person
from holdfast.tools.arguments import BadArguments
from holdfast.values import MODES, Action, ApprovalMode, Choice, GrantRule, RunSettings, Width, strictest

# The rules are many modules, so the first verdict imports them.
if TYPE_CHECKING:
    from holdfast.folds.session import Session
    from holdfast.policy.approval_rules import ApprovalRule
    from holdfast.policy.approvals import Policy
    from holdfast.policy.lifts import Containment
    from holdfast.policy.path_facts import SecretFinder
    from holdfast.policy.shell.verdicts import ReadSteps

NOTE = "grant:"


class Judge(Protocol):
    """Decides on one exact action; `verdict`, `choices` and `rule` read files, so they block."""

    def in_mode(self, mode: Literal["", ApprovalMode]) -> "Judge":
        """The judge of a session whose mode a person chose; an empty mode is the configured one."""
        ...

    def applied_mode(self) -> ApprovalMode:
        """The mode that it judges in."""
        ...

    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        """Whether the action runs, needs approval, or is refused."""
        ...

    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval | Deny:
        """The verdict on an action that only a person can allow: needs approval, or denied as no_approver."""
        ...

    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        """Return the choices for a person."""
        ...

    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        """The rule that "session" and "always" would store in this width; None if it isn't offered."""
        ...

    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        """Store a rule that a person allowed always, for every session."""
        ...

    def standing(self) -> Mapping[str, GrantRule]:
        """The rules that hold in every session, by grant id."""
        ...

    async def forget(self, grant_id: str) -> bool:
        """Remove a rule; False if no rule with this id holds in every session."""
        ...


def refuse_hopeless(
    tool: Tool, args: Mapping[str, object], *, action: Action, judge: Judge, workspace: Path
) -> None:
    """Raise BadArguments if the call can't succeed now, so that nobody is asked to approve it. Blocks.

    The reason can quote the files, so the model must be allowed to read them.
    """
    if not isinstance(tool, CheckableTool):
        return
    why = tool.refusal(args, workspace=workspace, paths=action.paths)
    reading = Action(tool=READ_FILE, summary="", paths=action.paths)
    if why and isinstance(judge.verdict(reading, (), workspace=workspace), Allow):
        raise BadArguments(why)


class AlwaysGrants(Struct, frozen=True):
    """The permanent grants, stored as notes and shared by all sessions."""

    notes: Notes
    rules: dict[str, GrantRule] = field(default_factory=dict[str, GrantRule])

    async def load(self) -> None:
        """Load the stored grants, or what other nodes have changed."""
        before: dict[str, GrantRule] | None = None
        found: Mapping[str, bytes] = {}
        while before != self.rules:
            # Changes made here while the notes are read are newer.
            before = dict(self.rules)
            found = await self.notes.notes(NOTE)
        self.rules.clear()
        for key, raw in found.items():
            self.rules[key.removeprefix(NOTE)] = msgspec.json.decode(raw, type=GrantRule)

    async def add(self, grant_id: str, rule: GrantRule) -> None:
        """Store a grant."""
        await self.notes.put_note(NOTE + grant_id, msgspec.json.encode(rule))
        self.rules[grant_id] = rule

    async def remove(self, grant_id: str) -> bool:
        """Remove a grant; False if there was none."""
        if grant_id not in self.rules:
            return False
        # From disk first: a grant that can't be removed for good must not seem removed.
        await self.notes.drop_note(NOTE + grant_id)
        return self.rules.pop(grant_id, None) is not None


def _no_sandbox(_workspace: Path) -> "Containment | None":
    return None


def _never(_workspace: Path, _path: str) -> bool:
    return False


def mode_in(judge: Judge, session: "Session", settings: RunSettings) -> ApprovalMode:
    """Return the mode that a run works in now: the strictest of its session's and its settings'."""
    return run_mode(judge.in_mode(session.approval_mode).applied_mode(), settings)


def run_mode(mode: ApprovalMode, settings: RunSettings) -> ApprovalMode:
    """Return the mode of a run in a session that has this mode.

    Modes limit the agent. A command that a person typed needs no approval if the sandbox contains it.
    """
    if settings.purpose == "command":
        return "workspace"
    mode = strictest(mode, settings.mode or mode)
    return strictest(mode, "unattended") if settings.unattended else mode


async def mode_limit(
    judge: Judge, session: "Session", state_of: "Callable[[str], Awaitable[Session]]"
) -> ApprovalMode:
    """Return the loosest mode that the session can have: a sub-agent's is the strictest one above it."""
    limit, link = MODES[-1], session.parent
    while link is not None:
        parent = await state_of(link.session_id)
        if not parent.epoch:
            break  # it was purged
        limit, link = strictest(limit, judge.in_mode(parent.approval_mode).applied_mode()), parent.parent
    return limit


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredJudge(Judge):
    """The configured policy; created at the edge, out of the agent's reach."""

    mode: ApprovalMode = "ask"
    rules: "tuple[ApprovalRule, ...]" = ()
    home: Path
    protected: tuple[Path, ...] = ()
    config: Path | None = None
    always: AlwaysGrants | None = None
    read: "ReadSteps | None" = None  # reads commands; a program with an event loop uses a CommandReader
    secret_finder: "Callable[[], SecretFinder] | None" = None
    containment: "Callable[[Path], Containment | None]" = _no_sandbox  # of commands in a workspace; may block
    undoable: Callable[[Path, str], bool] = _never  # whether undo covers a file of a workspace; blocks

    @override
    def in_mode(self, mode: Literal["", ApprovalMode]) -> Judge:
        return replace(self, mode=mode) if mode else self

    @override
    def applied_mode(self) -> ApprovalMode:
        return self.mode

    @override
    def verdict(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> Verdict:
        from holdfast.policy.approvals import judge

        return judge(action, self._policy(workspace), grants=self._all(grants))

    @override
    def for_a_person(self, findings: tuple[str, ...]) -> NeedsApproval | Deny:
        return for_a_person(findings, self.mode)

    @override
    def choices(self, action: Action, grants: Sequence[GrantRule], *, workspace: Path) -> tuple[Choice, ...]:
        from holdfast.policy.approvals import choices_for

        return choices_for(action, self._policy(workspace), grants=self._all(grants))

    @override
    def rule(
        self, action: Action, grants: Sequence[GrantRule], *, workspace: Path, width: Width = "exact"
    ) -> GrantRule | None:
        from holdfast.policy.approvals import rule_for

        return rule_for(action, self._policy(workspace), grants=self._all(grants), width=width)

    @override
    async def remember(self, grant_id: str, rule: GrantRule) -> None:
        if self.always is not None:
            await self.always.add(grant_id, rule)

    @override
    def standing(self) -> Mapping[str, GrantRule]:
        return {} if self.always is None else dict(self.always.rules)

    @override
    async def forget(self, grant_id: str) -> bool:
        return self.always is not None and await self.always.remove(grant_id)

    def _all(self, grants: Sequence[GrantRule]) -> Sequence[GrantRule]:
        return (*grants, *self.always.rules.values()) if self.always is not None else grants

    def _policy(self, workspace: Path) -> "Policy":
        from holdfast.policy.approvals import Policy
        from holdfast.policy.path_facts import PathFacts
        from holdfast.policy.shell.verdicts import steps_of
        from holdfast.tools.files.secret_files import SecretFiles
        from holdfast.tools.files.trees import below, matches
        from holdfast.tools.git_repositories import repository_at

        real = os.path.realpath(workspace)
        facts = PathFacts(
            workspace=real,
            home=os.path.realpath(self.home),
            protected=tuple(os.path.realpath(path) for path in self.protected),
            resolve=_resolved,
            config=os.path.realpath(self.config) if self.config else "",
            repository=partial(repository_at, workspace=real),
            below=below,
            matches=matches,
            secret_finder=(self.secret_finder or SecretFiles)(),
        )
        undoable = partial(self.undoable, Path(real))
        read = self.read or steps_of
        return Policy(facts, self.mode, self.rules, read, self.containment(workspace), undoable)


def _resolved(path: str) -> str:
    """Where a path leads; a link that can't be read counts as outside the workspace."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):
        return os.path.normpath(path) if path.startswith("/proc/") else "/"
