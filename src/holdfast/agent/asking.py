"""Asking people: an approval or a question is on the log, so the answer finds it after any crash."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.means import AgentMeans
from holdfast.agent.runlog import RunLog
from holdfast.agent.view import SessionView
from holdfast.interfaces import Declined, IfAskOpen
from holdfast.journal.late import LateWrites
from holdfast.run import Ask
from holdfast.tools.ask import AskUserArgs
from holdfast.values import Action, Choice

# A machine that was suspended stops the loop's clock, but not the one that people go by.
LOOK_AGAIN_S = 30.0


class People:
    """Asks for one run; an ask that is open already is waited for, not asked again."""

    def __init__(self, view: SessionView, log: RunLog, means: AgentMeans) -> None:
        self._view = view
        self._log = log
        self._means = means

    def earlier(self, tool_call_id: str) -> Ask | None:
        """The newest ask about this tool call, settled or not."""
        asks = self._view.run(self._log.run_id).asks.values()
        return next((ask for ask in reversed(list(asks)) if ask.asked.tool_call_id == tool_call_id), None)

    def ask_about(
        self, tool_call_id: str, action: Action, *, findings: tuple[str, ...], choices: tuple[Choice, ...]
    ) -> None:
        """Ask for an approval; the answer is waited for elsewhere."""
        self._emit(
            e.ApprovalAsked,
            approval_id=f"apr_{secrets.token_hex(12)}",
            tool_call_id=tool_call_id,
            action=action,
            findings=findings,
            choices=choices,
            expires_at_ms=self._expiry_ms(),
        )

    def is_about(self, ask: Ask, action: Action) -> bool:
        """Whether what people were shown is exactly this action."""
        asked = ask.asked
        assert isinstance(asked, e.ApprovalAsked), "a question is about no action"
        # They were shown it without secrets, so it is compared without them.
        return self._log.clean(replace(asked, action=action)) == asked

    async def question(self, tool_call_id: str, asked: AskUserArgs) -> Ask:
        """Ask the question, and wait until it is settled."""
        question_id = f"que_{secrets.token_hex(12)}"
        self._emit(
            e.QuestionAsked,
            question_id=question_id,
            tool_call_id=tool_call_id,
            text=asked.text,
            choices=asked.choices,
            expires_at_ms=self._expiry_ms(),
        )
        await self._view.settled(self._log)
        return await self.settled(self._view.run(self._log.run_id).asks[question_id])

    async def settled(self, ask: Ask) -> Ask:
        """Wait for the answer, or for its expiry; of the two the one that the journal took first counts."""
        self._log.live = lambda: "waiting for a person to answer"
        try:
            if not await self._is_settled_in_time(ask):
                await self._expire(ask)
        finally:
            self._log.live = None
        return ask

    async def _is_settled_in_time(self, ask: Ask) -> bool:
        expires_at_ms, now_ms = ask.asked.expires_at_ms, self._means.clock.now_ms
        settled = self._view.when(lambda: ask.state != "open")
        try:
            while not settled.done() and (not expires_at_ms or now_ms() < expires_at_ms):
                left_s = (expires_at_ms - now_ms()) / 1000
                await asyncio.wait({settled}, timeout=min(left_s, LOOK_AGAIN_S) if expires_at_ms else None)
            return settled.done()
        finally:
            settled.cancel()

    async def _expire(self, ask: Ask) -> None:
        asked = ask.asked
        if isinstance(asked, e.ApprovalAsked):
            ask_id = asked.approval_id
            expired: e.RunEvent = self._made(e.ApprovalExpired, approval_id=ask_id)
        else:
            ask_id = asked.question_id
            expired = self._made(e.QuestionExpired, question_id=ask_id)
        log = self._log
        # A store that takes no writes now is waited for; after a restart the ask expires anew, so no spool.
        run_of = (log.session_id, log.run_id)
        late = LateWrites(self._means.store, self._means.clock, run=run_of, fence=log.fence)
        result = await late.append([expired], when=[IfAskOpen(ask_id)])
        assert not isinstance(result, Declined) or result.condition == IfAskOpen(ask_id)
        await self._view.until(lambda: ask.state != "open")

    def _expiry_ms(self) -> int:
        patience_s = self._means.asks_expire_s
        return self._means.clock.now_ms() + int(1000 * patience_s) if patience_s else 0

    def _made(self, kind: Callable[..., e.RunEvent], **fields: Any) -> e.RunEvent:
        return kind(at_ms=self._log.now_ms(), run_id=self._log.run_id, **fields)

    def _emit(self, kind: Callable[..., e.RunEvent], **fields: Any) -> None:
        self._log.emit(self._made(kind, **fields))
