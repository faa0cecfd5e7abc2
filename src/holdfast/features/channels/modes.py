"""The permission mode of a channel's sessions: the configured one, unless a person set another."""

from holdfast import events as e
from holdfast.events.modes import mode_set
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.folds.session import Session
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import IfSessionKnown, IfSessionNew
from holdfast.runner.session_modes import SessionModes
from holdfast.values import MODES, WORKSPACE_MODES, ApprovalMode, asks_less


async def apply_configured_mode(deps: ChannelDeps, options: ChannelOptions, session_id: str) -> None:
    """Set the session's mode before a message is sent to it. A new session is created with it.

    A configuration change applies from the next message on. A mode set by a person is kept.
    """
    setter = f"channel {options.name}"
    session = await deps.inbox.state(session_id)
    workspace, now_ms = options.workspace, deps.clock.now_ms()
    is_elsewhere = options.mode in WORKSPACE_MODES and session.mode_workspace != workspace
    is_set = session.approval_mode == options.mode and not is_elsewhere
    if session.mode_set_by not in {"", setter} or is_set:
        return
    chosen = mode_set(options.mode, at_ms=now_ms, by=setter, workspace=workspace)
    created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=options.kind, workspace=workspace)
    if not session.epoch:
        await deps.store.append(session_id, [created, chosen], when=[IfSessionNew()])
    else:
        await deps.store.append(session_id, [chosen], when=[IfSessionKnown()])


async def mode_command(  # a command has a sender, and a place
    deps: ChannelDeps, options: ChannelOptions, session_id: str, session: Session, *, wanted: str, by: str
) -> str:
    """Show the session's mode, or set it; `by` is empty for someone who can't approve."""
    modes = SessionModes(deps.inbox, deps.supervisor.deps.judge, deps.clock)
    allowed = modes_allowed(deps, options) if by else MODES[:1]
    listed = ", ".join(f"`{mode}`" for mode in allowed)
    if not wanted:
        now = modes.of(session)
        return f"Permission mode: `{now}`. To change it, send /mode NAME. You can set: {listed}."
    if wanted not in MODES:
        return f"There is no such mode. You can set: {listed}."
    if wanted not in allowed:
        return f"You can't set `{wanted}` here. You can set: {listed}."
    if not await modes.put(session_id, wanted, by=by or "chat"):
        return "This conversation was deleted. Your next message starts a new one."
    return f"Permission mode: `{wanted}`, from the next action on."


def modes_allowed(deps: ChannelDeps, options: ChannelOptions) -> tuple[ApprovalMode, ...]:
    """The modes that an approver can set: up to `mode_max`, or to the channel's own mode."""
    most = deps.mode_max
    if options.mode and asks_less(options.mode, most):
        most = options.mode
    return tuple(mode for mode in MODES if not asks_less(mode, most))
