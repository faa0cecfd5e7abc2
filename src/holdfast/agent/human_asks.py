"""Asking people, and the client for the results of its own tools.

Asks are in the log, so answers still reach them after a crash.
"""

import asyncio
import math
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.deps import AgentDeps
from holdfast.agent.runlog import RunLog
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.asks import expired
from holdfast.folds.run import AskStatus
from holdfast.interfaces.ids import new_approval_id, new_client_tools_id, new_question_id
from holdfast.interfaces.journal import Declined, IfAskOpen
from holdfast.journal.retrying_append import RetryingAppend
from holdfast.policy.verdicts import NeedsApproval
from holdfast.tools.ask import AskUserArgs
from holdfast.values import Action, Choice


class HumanAsks:
    """Asks for one run; an ask that is already open is awaited, not asked again."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps) -> None:
        self._view = view
        self._log = log
        self._deps = deps
        self._until_s: dict[str, float] = {}  # the latest end of each ask on the steady clock

    def earlier(self, tool_call_id: str) -> AskStatus | None:
        """The newest ask about this tool call, settled or not."""
        asks = self._view.run(self._log.run_id).asks.values()
        return next((ask for ask in reversed(list(asks)) if tool_call_id in _calls_of(ask.asked)), None)

    def ask_about(
        self, tool_call_id: str, action: Action, verdict: NeedsApproval, *, choices: tuple[Choice, ...]
    ) -> None:
        """Ask for an approval, without waiting for the answer."""
        approval_id = new_approval_id()
        self._until_s[approval_id] = self._deps.clock.steady_s() + self._deps.asks_expire_s
        self._emit(
            e.ApprovalAsked,
            approval_id=approval_id,
            tool_call_id=tool_call_id,
            action=action,
            findings=verdict.findings,
            choices=choices,
            expires_at_ms=self._expiry_ms(),
            headline=verdict.headline,
            offers=verdict.offers,
            once_because=verdict.once_because,
        )

    def is_about(self, ask: AskStatus, action: Action) -> bool:
        """Whether people were shown exactly this action."""
        asked = ask.asked
        assert isinstance(asked, e.ApprovalAsked), "a question is about no action"
        # Secrets were removed from what they were shown, so compare without secrets.
        return self._log.clean(replace(asked, action=action)) == asked

    async def question(self, tool_call_id: str, asked: AskUserArgs) -> AskStatus:
        """Ask the question and wait until it is settled."""
        question_id = new_question_id()
        self._until_s[question_id] = self._deps.clock.steady_s() + self._deps.asks_expire_s
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

    async def client_results(self, tool_call_ids: tuple[str, ...]) -> AskStatus:
        """Have the client run these calls of its own tools, and wait until that is settled."""
        ask = self.earlier(tool_call_ids[0])
        if ask is None:
            client_tools_id = new_client_tools_id()
            self._until_s[client_tools_id] = self._deps.clock.steady_s() + self._deps.asks_expire_s
            self._emit(
                e.ClientToolsAsked,
                client_tools_id=client_tools_id,
                tool_call_ids=tool_call_ids,
                expires_at_ms=self._expiry_ms(),
            )
            await self._view.settled(self._log)
            ask = self._view.run(self._log.run_id).asks[client_tools_id]
        return await self.settled(ask)

    async def settled(self, ask: AskStatus) -> AskStatus:
        """Wait for the answer or the expiry; whichever is in the journal first counts."""
        is_client = isinstance(ask.asked, e.ClientToolsAsked)
        self._log.live = lambda: "waiting for the client" if is_client else "waiting for a person to answer"
        if ask.state == "open" and not isinstance(ask.asked, e.ClientToolsAsked):
            self._deps.on_ask(self._log.session_id, ask.asked)
        try:
            if not await self._is_settled_in_time(ask):
                await self._expire(ask)
        finally:
            self._log.live = None
        return ask

    async def _is_settled_in_time(self, ask: AskStatus) -> bool:
        left_s = self._left_s_of(ask)
        settled = self._view.when(lambda: ask.state != "open")
        try:
            while not settled.done() and left_s() > 0:
                look_again_s = self._deps.asks_look_again_s
                timeout_s = min(left_s(), look_again_s) if ask.asked.expires_at_ms else None
                await asyncio.wait({settled}, timeout=timeout_s)
            return settled.done()
        finally:
            settled.cancel()

    def _left_s_of(self, ask: AskStatus) -> Callable[[], float]:
        """How long the ask stays open: until the time that people were told, but never beyond its length.

        Setting the wall clock back doesn't keep it open. Setting it forward closes it, because people are
        told a wall-clock time, and no answer after it counts.
        """
        clock, asked = self._deps.clock, ask.asked
        if not asked.expires_at_ms:
            return lambda: math.inf
        length_s = (asked.expires_at_ms - asked.at_ms) / 1000  # for an ask that an earlier process left open
        until_s = self._until_s.get(asked.ask_id, clock.steady_s() + length_s)
        return lambda: min(until_s - clock.steady_s(), (asked.expires_at_ms - clock.now_ms()) / 1000)

    async def _expire(self, ask: AskStatus) -> None:
        log, ask_id = self._log, ask.asked.ask_id
        # Wait for a store that takes no writes. No spool: after a restart, the ask expires again.
        run_of = (log.session_id, log.run_id)
        late = RetryingAppend(self._deps.store, self._deps.clock, run=run_of, fence=log.fence)
        result = await late.append([expired(ask.asked, log.now_ms())], when=[IfAskOpen(ask_id)])
        assert not isinstance(result, Declined) or result.condition == IfAskOpen(ask_id)
        await self._view.until(lambda: ask.state != "open")

    def _expiry_ms(self) -> int:
        patience_s = self._deps.asks_expire_s
        return self._deps.clock.now_ms() + int(1000 * patience_s) if patience_s else 0

    def _emit(self, kind: Callable[..., e.RunEvent], **fields: Any) -> None:
        self._log.emit(kind(at_ms=self._log.now_ms(), run_id=self._log.run_id, **fields))


def _calls_of(asked: e.AskAsked) -> tuple[str, ...]:
    return asked.tool_call_ids if isinstance(asked, e.ClientToolsAsked) else (asked.tool_call_id,)
