"""The permission mode of a channel's sessions: the configured one, unless a person set another."""

from holdfast import events as e
from holdfast.events.modes import mode_set
from holdfast.features.channels.deps import ChannelDeps, ChannelOptions
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import IfSessionKnown, IfSessionNew
from holdfast.values import WORKSPACE_MODES


async def apply_configured_mode(
    deps: ChannelDeps, options: ChannelOptions, session_id: str, *, source: str
) -> None:
    """Set the session's mode before a message is sent to it. A new session is created with it.

    A configuration change applies from the next message on. A mode set by a person is kept.
    """
    setter = f"channel {options.name}"
    session = await deps.inbox.state(session_id)
    workspace, now_ms = options.settings.workspace, deps.clock.now_ms()
    is_elsewhere = options.approvals in WORKSPACE_MODES and session.mode_workspace != workspace
    is_set = session.approval_mode == options.approvals and not is_elsewhere
    if session.mode_set_by not in {"", setter} or is_set:
        return
    chosen = mode_set(options.approvals, at_ms=now_ms, by=setter, workspace=workspace)
    created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=source, workspace=workspace)
    if not session.epoch:
        await deps.store.append(session_id, [created, chosen], when=[IfSessionNew()])
    else:
        await deps.store.append(session_id, [chosen], when=[IfSessionKnown()])
