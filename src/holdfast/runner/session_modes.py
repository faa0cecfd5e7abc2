"""Sets a session's permission mode, and makes those of its sub-agents at least as strict."""

from typing import Literal

from msgspec import Struct

from holdfast.agent.policy import Judge
from holdfast.events.modes import mode_set
from holdfast.folds.session import Session
from holdfast.interfaces.clock import Clock
from holdfast.runner.inbox import Inbox
from holdfast.values import ApprovalMode, asks_less


class SessionModes(Struct, frozen=True):
    """The permission modes of all sessions."""

    inbox: Inbox
    judge: Judge
    clock: Clock

    def of(self, session: Session) -> ApprovalMode:
        """Return the session's mode: its own, or the configured one."""
        return self.named(session.approval_mode)

    def named(self, mode: Literal["", ApprovalMode]) -> ApprovalMode:
        """Return the mode, which is the configured one if it's empty."""
        return self.judge.in_mode(mode).applied_mode()

    async def put(self, session_id: str, mode: Literal["", ApprovalMode], *, by: str) -> bool:
        """Set the mode, starting with the next action; False if the session is unknown or deleted."""
        if not await self.inbox.put(session_id, mode_set(mode, at_ms=self.clock.now_ms(), by=by)):
            return False
        await self.tighten_children(session_id, by=by)
        return True

    async def tighten_children(self, session_id: str, *, by: str) -> None:
        """Give active sub-agents with a looser mode the mode of this session."""
        session = await self.inbox.state(session_id)
        mode = self.of(session)
        for child_id, child in session.children.items():
            if child.ended is not None:
                continue
            state = await self.inbox.state(child_id)
            if state.epoch and asks_less(self.of(state), mode):
                await self.inbox.put(child_id, mode_set(mode, at_ms=self.clock.now_ms(), by=by))
            await self.tighten_children(child_id, by=by)
