"""Events about calls of hooks, and the state of a run's hooks."""

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct, field

from holdfast.events.bases import Event, RunEvent
from holdfast.interfaces.feature import FoldHooks

if TYPE_CHECKING:
    from holdfast.cli.terminal.renderer import Renderer
    from holdfast.folds.run import Run

HookOutcome: TypeAlias = Literal["finished", "denied", "failed", "late", "garbled", "stopped", "unknown"]


class HookStarted(RunEvent, frozen=True, kw_only=True, tag="hook.started"):
    """A hook is about to start. After this, its effect may have happened."""

    hook_call_id: str
    hook: str
    on: str
    tool_call_id: str = ""
    is_workspace: bool = False  # from the workspace, so it runs in the sandbox


class HookEnded(RunEvent, frozen=True, kw_only=True, tag="hook.ended"):
    """A hook has ended. `unknown` means that the server stopped while it ran.

    `reason` is why it denied or failed. Its context for the model is in the `context.noted` that follows.
    """

    hook_call_id: str
    hook: str
    outcome: HookOutcome
    reason: str = ""
    ms: int = 0


class HookVerdict(Struct, frozen=True):
    """How a hook's call ended: `reason` is why it denied or failed."""

    outcome: HookOutcome
    reason: str = ""
    context: str = ""


class HookState(Struct):
    """The calls of a run's hooks that haven't ended, and the hooks of the run itself that were called."""

    open: dict[str, HookStarted] = field(default_factory=dict[str, HookStarted])
    run_start: set[str] = field(default_factory=set[str])  # that let the run start
    run_end: set[str] = field(default_factory=set[str])


def hook_state(run: "Run") -> HookState:
    """Return the state of the run's hooks, to be changed only by the fold."""
    return run.features.get("hooks") or HookState()


def _started(run: "Run", event: HookStarted) -> None:
    state: HookState = run.features.setdefault("hooks", HookState())
    state.open[event.hook_call_id] = event
    if event.on == "run_end":
        state.run_end.add(event.hook)


def _ended(run: "Run", event: HookEnded) -> None:
    started = hook_state(run).open.pop(event.hook_call_id, None)
    if started is not None and started.on == "run_start" and event.outcome == "finished":
        hook_state(run).run_start.add(started.hook)


def _started_text(event: HookStarted) -> str:
    return f"{event.hook} ({event.on})"


def _ended_text(event: HookEnded) -> str:
    return f"{event.hook} {event.outcome}" + (f": {event.reason}" if event.reason else "")


def _told(renderer: "Renderer", event: HookEnded) -> str:
    """In the terminal: only hooks that denied or failed."""
    if event.outcome in {"finished", "stopped"}:
        return ""
    return renderer.notice(f"hook {event.hook} {event.outcome}: {event.reason}")


TERMINAL = MappingProxyType({HookEnded: _told})
EVENTS: tuple[type[Event], ...] = (HookStarted, HookEnded)
FOLDS = FoldHooks(
    run={HookStarted: _started, HookEnded: _ended},
    timeline={HookStarted: _started_text, HookEnded: _ended_text},
)
