"""The inbox: what people send is on disk before anything else happens."""

import secrets
from dataclasses import dataclass

from holdfast import events as e
from holdfast.interfaces import (
    Appended,
    Clock,
    Declined,
    IfRunOpen,
    IfSessionKnown,
    IfSessionNew,
    Store,
)
from holdfast.runner.supervisor import Supervisor
from holdfast.values import HistoryMessage, RunSettings


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that is on disk, and the run that it started or will start."""

    session_id: str
    message_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Inbox:
    """Takes inputs, stores them, and wakes whoever acts on them."""

    store: Store
    supervisor: Supervisor
    clock: Clock

    async def send(
        self,
        text: str,
        *,
        session_id: str = "",
        settings: RunSettings | None = None,
        history: tuple[HistoryMessage, ...] | None = None,
    ) -> Sent | None:
        """Start a run with this message, now or when its session is free; None if the session is deleted."""
        session_id = session_id or f"ses_{secrets.token_hex(12)}"
        now_ms = self.clock.now_ms()
        sent = Sent(session_id, f"msg_{secrets.token_hex(12)}", f"run_{secrets.token_hex(16)}")
        created = e.SessionCreated(at_ms=now_ms, epoch=secrets.token_hex(8))
        inputs = [
            e.MessageAccepted(at_ms=now_ms, message_id=sent.message_id, text=text),
            e.RunQueued(
                at_ms=now_ms,
                run_id=sent.run_id,
                message_id=sent.message_id,
                settings=settings or RunSettings(),
                history=history,
            ),
        ]
        result = await self.store.append(session_id, inputs, when=[IfSessionKnown()])
        if isinstance(result, Declined):
            result = await self.store.append(session_id, [created, *inputs], when=[IfSessionNew()])
        if not isinstance(result, Appended):
            return None
        self.supervisor.wake(session_id, result.last_seq)
        return sent

    async def stop(self, session_id: str, run_id: str, *, cause: str = "user_stop", by: str = "") -> bool:
        """Ask for the run's end; False if it has ended."""
        stop = e.StopRequested(at_ms=self.clock.now_ms(), run_id=run_id, cause=cause, by=by)
        result = await self.store.append(session_id, [stop], when=[IfRunOpen(run_id)])
        if not isinstance(result, Appended):
            return False
        self.supervisor.wake(session_id, result.last_seq)
        return True
