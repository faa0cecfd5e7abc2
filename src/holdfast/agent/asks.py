"""Requests to people, and to the client for the results of its tools.

Requests are logged, so they can still be answered after a crash.
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
from holdfast.folds.asks import calls_of, expired, withdrawn
from holdfast.folds.run import AskStatus
from holdfast.interfaces.ids import new_approval_id, new_client_tools_id, new_question_id
from holdfast.interfaces.journal import Declined, IfAskOpen
from holdfast.journal.retrying_append import RetryingAppend
from holdfast.policy.verdicts import NeedsApproval
from holdfast.tools.ask import AskUserArgs
from holdfast.values import Action, Choice


class Asks:
    """The requests of one run. An open request is awaited, not repeated."""

    def __init__(self, view: SharedFold, log: RunLog, deps: AgentDeps) -> None:
        self._view = view
        self._log = log
        self._deps = deps
        self._until_s: dict[str, float] = {}  # the latest end of each ask on the steady clock
        self._taken: set[str] = set()  # questions that somebody here waits for, or has the answer to

    def earlier(
        self, tool_call_id: str, kind: type[e.ApprovalAsked | e.ClientToolsAsked] = e.ApprovalAsked
    ) -> AskStatus | None:
        """Return the newest request of this kind about this tool call, open or resolved."""
        asks = [ask for ask in self._view.run(self._log.run_id).asks.values() if isinstance(ask.asked, kind)]
        return next((ask for ask in reversed(asks) if tool_call_id in calls_of(ask.asked)), None)

    def ask_about(
        self, tool_call_id: str, action: Action, verdict: NeedsApproval, *, choices: tuple[Choice, ...]
    ) -> None:
        """Request an approval without waiting for the answer."""
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
        """Return whether people saw exactly this action."""
        asked = ask.asked
        assert isinstance(asked, e.ApprovalAsked), "a question is about no action"
        # Secrets were removed from what they were shown, so compare without secrets.
        return self._log.clean(replace(asked, action=action)) == asked

    async def question(self, tool_call_id: str, asked: AskUserArgs) -> AskStatus:
        """Ask the question and wait for its resolution. Not repeated after a crash."""
        question = e.QuestionAsked(
            at_ms=self._log.now_ms(),
            run_id=self._log.run_id,
            question_id=new_question_id(),
            tool_call_id=tool_call_id,
            text=asked.text,
            choices=asked.choices,
            expires_at_ms=self._expiry_ms(),
        )
        ask = self._before_a_crash(question)
        if ask is None:
            self._until_s[question.question_id] = self._deps.clock.steady_s() + self._deps.asks_expire_s
            self._taken.add(question.question_id)
            self._log.emit(question)
            await self._view.flush(self._log)
            ask = self._view.run(self._log.run_id).asks[question.question_id]
        return await self.resolved(ask)

    def _before_a_crash(self, question: e.QuestionAsked) -> AskStatus | None:
        wanted = self._log.clean(question)  # secrets were removed from what is on the log
        for ask in self._view.run(self._log.run_id).asks.values():
            asked = ask.asked
            if not isinstance(asked, e.QuestionAsked) or asked.question_id in self._taken:
                continue
            if _question_of(asked) == _question_of(wanted):
                self._taken.add(asked.question_id)
                return ask
        return None

    async def withdraw(self, tool_call_id: str) -> None:
        """Withdraw the questions of a tool call that has ended."""
        for ask in self._view.run(self._log.run_id).open_asks:
            if tool_call_id in calls_of(ask.asked):
                closing = withdrawn(ask.asked, self._log.now_ms(), cause="tool_ended")
                # A person may answer at the same time; then there is nothing to withdraw.
                await self._log.append([closing], when=[IfAskOpen(ask.asked.ask_id)])

    async def client_results(self, tool_call_ids: tuple[str, ...]) -> AskStatus:
        """Have the client run these tool calls, and wait for the results."""
        ask = self.earlier(tool_call_ids[0], e.ClientToolsAsked)
        if ask is None:
            client_tools_id = new_client_tools_id()
            self._until_s[client_tools_id] = self._deps.clock.steady_s() + self._deps.asks_expire_s
            self._emit(
                e.ClientToolsAsked,
                client_tools_id=client_tools_id,
                tool_call_ids=tool_call_ids,
                expires_at_ms=self._expiry_ms(),
            )
            await self._view.flush(self._log)
            ask = self._view.run(self._log.run_id).asks[client_tools_id]
        return await self.resolved(ask)

    async def resolved(self, ask: AskStatus) -> AskStatus:
        """Wait for the answer or the expiry; whichever is in the journal first counts."""
        is_client = isinstance(ask.asked, e.ClientToolsAsked)
        self._log.live = lambda: "waiting for the client" if is_client else "waiting for a person to answer"
        if ask.state == "open" and not isinstance(ask.asked, e.ClientToolsAsked):
            self._deps.on_ask(self._log.session_id, ask.asked)
        try:
            if not await self._is_resolved_in_time(ask):
                await self._expire(ask)
        finally:
            self._log.live = None
        return ask

    async def _is_resolved_in_time(self, ask: AskStatus) -> bool:
        left_s = self._left_s_of(ask)
        settled = self._view.when(lambda: ask.state != "open")
        try:
            while not settled.done() and left_s() > 0:
                poll_s = self._deps.ask_poll_s
                timeout_s = min(left_s(), poll_s) if ask.asked.expires_at_ms else None
                await asyncio.wait({settled}, timeout=timeout_s)
            return settled.done() and settled.result() is None
        finally:
            settled.cancel()

    def _left_s_of(self, ask: AskStatus) -> Callable[[], float]:
        """Return a function for the time left: until the expiry, but never beyond the request's length.

        Setting the wall clock back doesn't extend it. Setting it forward closes it, because people see a
        wall-clock time, and later answers don't count.
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
        late = RetryingAppend(
            self._deps.store, self._deps.clock, run=run_of, fence=log.fence, last_seq=log.last_seq
        )
        result = await late.append([expired(ask.asked, log.now_ms())], when=[IfAskOpen(ask_id)])
        assert not isinstance(result, Declined) or result.condition == IfAskOpen(ask_id)
        await self._view.until(lambda: ask.state != "open")

    def _expiry_ms(self) -> int:
        patience_s = self._deps.asks_expire_s
        return self._deps.clock.now_ms() + int(1000 * patience_s) if patience_s else 0

    def _emit(self, kind: Callable[..., e.RunEvent], **fields: Any) -> None:
        self._log.emit(kind(at_ms=self._log.now_ms(), run_id=self._log.run_id, **fields))


def _question_of(asked: e.Event) -> tuple[object, ...]:
    assert isinstance(asked, e.QuestionAsked)
    return asked.tool_call_id, asked.text, asked.choices
