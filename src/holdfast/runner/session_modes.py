"""Sets a session's permission mode, and makes those of its sub-agents at least as strict."""

from typing import Literal

from msgspec import Struct

from holdfast.agent.policy import Judge, mode_limit
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

    async def limit(self, session: Session) -> ApprovalMode:
        """Return the loosest mode that the session can have, which only a sub-agent's parent restricts."""
        return await mode_limit(self.judge, session, self.inbox.state)

    async def limited(self, session: Session) -> Literal["", ApprovalMode]:
        """Return the session's mode, or its limit if the mode is looser; empty is the configured mode."""
        limit = await self.limit(session)
        return limit if asks_less(self.of(session), limit) else session.approval_mode

    async def put(self, session_id: str, mode: Literal["", ApprovalMode], *, by: str) -> bool:
        """Set the mode, starting with the next action; False if the session is unknown or deleted."""
        if not await self.inbox.put(session_id, mode_set(mode, at_ms=self.clock.now_ms(), by=by)):
            return False
        await self.tighten_children(session_id, by=by)
        return True

    async def tighten_children(self, session_id: str, *, by: str) -> None:
        """Give sub-agents with a looser mode the mode of this session.

        Even those that have ended, because a person may have started another run in their session.
        """
        session = await self.inbox.state(session_id)
        mode = self.of(session)
        for child_id in tuple(session.children):
            state = await self.inbox.state(child_id)
            if state.epoch and asks_less(self.of(state), mode):
                await self.inbox.put(child_id, mode_set(mode, at_ms=self.clock.now_ms(), by=by))
            await self.tighten_children(child_id, by=by)
