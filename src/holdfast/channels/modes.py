"""The approval mode of a channel's sessions: what its settings say, unless someone chose otherwise."""

from holdfast import events as e
from holdfast.channels.deps import ChannelDeps, ChannelOptions
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import IfSessionKnown, IfSessionNew


async def set_mode(deps: ChannelDeps, options: ChannelOptions, session_id: str, *, source: str) -> None:
    """Set the session's mode before a message gets there; a new session is made with it.

    A change of the settings counts from the next message on. A mode that a person set for this session stays.
    """
    setter = f"channel {options.name}"
    session = await deps.inbox.state(session_id)
    chosen = e.SessionModeSet(at_ms=deps.clock.now_ms(), mode=options.approvals, by=setter)
    if session.mode_set_by not in {"", setter} or session.approval_mode == options.approvals:
        return
    created = e.SessionCreated(
        at_ms=chosen.at_ms, epoch=new_epoch(), source=source, workspace=options.settings.workspace
    )
    if not session.epoch:
        await deps.store.append(session_id, [created, chosen], when=[IfSessionNew()])
    else:
        await deps.store.append(session_id, [chosen], when=[IfSessionKnown()])
