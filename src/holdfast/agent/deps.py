"""The dependencies and permissions of an agent.

Where runs wait while the server drains: at their next checkpoint, with everything in the log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from holdfast.agent.placement import Placement
from holdfast.events import PersonAsked
from holdfast.folds.run import Run
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import SessionTools
from holdfast.interfaces.journal import Store
from holdfast.interfaces.model import ModelCaller
from holdfast.journal.spool import Spool
from holdfast.messages import ANSWER_BYTES_MAX
from holdfast.policy.tool_names import APPLY_PATCH, EDIT_FILE, SEND_FILE
from holdfast.redaction import NO_SECRETS, Redactor
from holdfast.supervision import BackgroundTasks
from holdfast.tools.files.workspace import Workspace, Workspaces
from holdfast.tools.offload import SharedReads
from holdfast.tools.registry import Registry
from holdfast.values import Budget, OnExpiry, RunSettings

if TYPE_CHECKING:
    from holdfast.agent.policy import Judge
    from holdfast.agent.prompt import Machine
    from holdfast.sandbox.protected_paths import ProtectedPaths


class DrainGate:
    """Whether a run may begin its next step; once closed, every run waits at its next checkpoint.

    `waiting` has the ids of the runs that wait.
    """

    def __init__(self) -> None:
        self.closed = False
        self.waiting: set[str] = set()

    def close(self) -> None:
        """Let nothing new begin."""
        self.closed = True

    async def checkpoint(self, run_id: str) -> None:
        """Return immediately while the gate is open; once it is closed, wait until cancelled."""
        if self.closed:
            self.waiting.add(run_id)
            await asyncio.get_running_loop().create_future()


def in_flight(run: Run) -> bool:
    """Whether the run has begun something that has no ending in the log yet."""
    return run.attempt_is_open or bool(run.busy_tools)


class NewRun(NamedTuple):
    """A run that was just queued, and the name of the API key that it counts for."""

    run_id: str
    key: str


Wake: TypeAlias = Callable[[str, int, NewRun | None], None]  # the session, its last seq, and a new run


class OwnerWakes:
    """Notifies the supervisor, if any, which sessions have work."""

    def __init__(self) -> None:
        self._wake: Wake | None = None

    def connect(self, wake: Wake) -> None:
        """Tell this function from now on."""
        self._wake = wake

    def wake(self, session_id: str, seq: int, *, run: NewRun | None = None) -> None:
        """The session's log has new events up to `seq`, and maybe a new run."""
        if self._wake is not None:
            self._wake(session_id, seq, run)


OnAsk: TypeAlias = Callable[[str, PersonAsked], None]  # the session, and what a run of it waits for


def _leave_open(_session_id: str, _asked: PersonAsked) -> None:
    """People learn of the ask from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeps:
    """Everything that a run needs from outside; the same for all runs."""

    store: Store
    model: ModelCaller
    clock: Clock
    judge: "Judge"
    tools: Registry = field(default_factory=Registry)
    opened: Callable[[], Awaitable[bool]] | None = None  # waits for the tools; None: they are open
    session_tools: Mapping[str, SessionTools] = field(default_factory=dict[str, SessionTools])  # by feature
    workspace: Path
    workspaces: Workspaces = Workspace  # opens workspaces to read files that no one requested
    protected: "ProtectedPaths | None" = None  # what sandboxed commands must not change
    identity: str = ""  # who the agent is
    prompt: str = ""  # the base prompt
    machine: "Machine | None" = None  # None: the environment isn't described
    instructions: str = ""
    secrets: Redactor = NO_SECRETS
    spool: Spool | None = None
    context_window: int = 200_000  # of the smallest target
    windows: Mapping[str, int] = field(default_factory=dict[str, int])  # by target or model
    patching: frozenset[str] = frozenset()  # the models of runs that change files with apply_patch
    turns_max: int = 100
    budget: Budget = field(default_factory=Budget)
    answer_bytes_max: int = ANSWER_BYTES_MAX
    asks_expire_s: float = 86_400.0
    # How often an open ask checks the clock: sleep stops the loop's timers, but time goes by.
    ask_poll_s: float = 30.0
    on_expiry: OnExpiry = "continue"
    on_ask: OnAsk = _leave_open  # called when a run begins to wait for a person, also after a restart
    summary_model: str = ""  # the target that summarizes; empty is the default one
    vision_model: str = ""  # the target that describes images to models that can't see them
    blind: frozenset[str] = frozenset()  # targets and models that can't; empty is the default target
    title_model: str | None = None  # the target that titles chats; empty is the default one, None is none
    reads: SharedReads = field(default_factory=SharedReads)  # of files, when runs begin
    drain: DrainGate = field(default_factory=DrainGate)
    placement: Placement = field(default_factory=Placement)
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what each keeps open, by its name
    wakes: OwnerWakes = field(default_factory=OwnerWakes)
    background: BackgroundTasks = field(
        default_factory=BackgroundTasks
    )  # the code that starts a task also ends it

    async def until_opened(self) -> bool:
        """Wait until the tools are open and the sandbox tested; False if that fails and the server ends."""
        return self.opened is None or await self.opened()

    def window_of(self, model: str) -> int:
        """Return the window for a run that names this target or model, or none: any can answer then."""
        return self.windows.get(model, self.context_window)

    def trusts(self, workspace: Path) -> bool:
        """Return whether protected files there can be trusted, because no command created them. Blocks."""
        return self.protected is None or self.protected.look(workspace)

    def tools_now(self, settings: RunSettings | None = None, *, session_id: str = "") -> Registry:
        """Return all tools that a run of the session can use now. Session tools never replace others."""
        tools = self.tools
        for feature, of_session in self.session_tools.items():
            if found := of_session(session_id):
                others = [tool for tool in found if self.tools.get(tool.spec.name) is None]
                tools = tools.with_group(feature, others)
        if settings is None or not settings.takes_files:
            tools = tools.without((SEND_FILE,))
        return tools.only(self._named(settings)) if settings and settings.tools else tools

    def _named(self, settings: RunSettings) -> frozenset[str]:
        """Return the tools that the settings name; edits are in the form that the model is trained on."""
        names = frozenset(settings.tools)
        if names.isdisjoint({EDIT_FILE, APPLY_PATCH}):
            return names
        return names | {APPLY_PATCH if settings.model in self.patching else EDIT_FILE}
