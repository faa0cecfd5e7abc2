"""Copies a sub-agent's requests to its parent's log.

The sub-agent's own log stays authoritative: a request is answered there, under its id. The copy lets readers
of the parent's log see it without following other logs. Copies propagate up to the root session.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from holdfast import events as e
from holdfast.agent.children import KEPT_UNTIL_MS, append
from holdfast.agent.deps import AgentDeps
from holdfast.agent.shared_fold import SharedFold
from holdfast.folds.asks import expired, withdrawn
from holdfast.folds.run import AskStatus, Run
from holdfast.interfaces.journal import IdempotencyKey, IfRunKnown
from holdfast.values import AskState, Choice, ParentLink

_CHOICES: Mapping[str, Choice] = {"once": "once", "session": "session", "always": "always", "deny": "deny"}
_log = logging.getLogger(__name__)


@asynccontextmanager
async def passing_on(deps: AgentDeps, session_id: str, run: Run, view: SharedFold) -> AsyncGenerator[None]:
    """Forward the run's requests while it's active. Does nothing without a parent."""
    parent = view.session.parent
    if parent is None or run is not view.session.delegated_run:
        yield
        return
    relay = AskRelay(deps, session_id, parent, run=run, view=view)
    task = asyncio.create_task(relay.work(), name=f"pass on asks of {session_id}")
    try:
        yield
    finally:
        # The parent's log closes what is open with the ending of the sub-agent.
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("what %s asks wasn't passed on to its parent", session_id, exc_info=error)


class AskRelay:
    """Updates the parent's log with a sub-agent's requests until cancelled."""

    def __init__(
        self, deps: AgentDeps, session_id: str, parent: ParentLink, *, run: Run, view: SharedFold
    ) -> None:
        self._deps = deps
        self._session_id = session_id
        self._parent = parent
        self._run = run
        self._view = view
        self._told: dict[str, AskState] = {}  # by ask, what the parent's log says

    async def work(self) -> None:
        """Forward each request and its resolution. Idempotent after a crash."""
        while True:
            await self.tell()
            await self._view.until(self._has_news)

    async def tell(self) -> None:
        """Forward requests that the parent's log doesn't have yet."""
        for ask_id, ask in list(self._run.person_asks.items()):
            if self._told.get(ask_id) != ask.state:
                await self._tell(ask_id, ask)

    def _has_news(self) -> bool:
        return any(self._told.get(id_) != ask.state for id_, ask in self._run.person_asks.items())

    async def _tell(self, ask_id: str, ask: AskStatus) -> None:
        state = ask.state
        if ask_id not in self._told:
            assert not isinstance(ask.asked, e.ClientToolsAsked), "it asks a person"
            asked = e.ChildAsked(
                at_ms=self._deps.clock.now_ms(),
                run_id=self._parent.run_id,
                child_id=self._session_id,
                ask=ask.asked,
            )
            await self._append(asked, f"asked/{ask_id}")
            self._told[ask_id] = "open"
        if state != "open":
            settled = e.ChildAskSettled(
                at_ms=self._deps.clock.now_ms(),
                run_id=self._parent.run_id,
                child_id=self._session_id,
                settled=_settled(ask, self._deps.clock.now_ms()),
            )
            await self._append(settled, f"settled/{ask_id}")
            self._told[ask_id] = state

    async def _append(self, told: e.ChildAsked | e.ChildAskSettled, step: str) -> None:
        deps, parent = self._deps, self._parent
        name = f"child/{self._session_id}/{step}"
        once = IdempotencyKey(name, step.partition("/")[0], b"", KEPT_UNTIL_MS)
        await append(deps, parent.session_id, [told], when=[IfRunKnown(parent.run_id)], once=once)


def _settled(ask: AskStatus, at_ms: int) -> e.PersonAskSettled:
    """Return the event that resolved the request."""
    asked = ask.asked
    if ask.state != "answered":
        how = expired(asked, at_ms) if ask.state == "expired" else withdrawn(asked, at_ms, cause=ask.reason)
        assert not isinstance(how, e.ClientToolsExpired | e.ClientToolsWithdrawn), "it asks a person"
        return how
    if isinstance(asked, e.ApprovalAsked):
        return e.ApprovalAnswered(
            at_ms=at_ms,
            run_id=asked.run_id,
            approval_id=asked.approval_id,
            choice=_CHOICES[ask.answer],
            by=ask.by,
            reason=ask.reason,
        )
    assert isinstance(asked, e.QuestionAsked), "it asks a person"
    return e.QuestionAnswered(
        at_ms=at_ms,
        run_id=asked.run_id,
        question_id=asked.question_id,
        answer=ask.answer,
        by=ask.by,
        reason=ask.reason,
    )
