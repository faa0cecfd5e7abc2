"""Creates, stops and awaits sub-agents, and delivers their results.

The parent's log has `child.started` before the sub-agent exists, and `child.ended` after its run has ended;
the sub-agent's own log has `parent.told` after that. Each is written under an idempotency key, so a first run
and a resume use the same path.

Copies a sub-agent's requests to its parent's log. The sub-agent's own log stays authoritative: a request is
answered there, under its id. The copy lets readers of the parent's log see it without following other logs.
Copies propagate up to the root session.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.deps import AgentDeps, NewRun
from holdfast.agent.shared_fold import SharedFold
from holdfast.events.modes import mode_set
from holdfast.folds.asks import expired, withdrawn
from holdfast.folds.entries import ending_words
from holdfast.folds.run import AskStatus, ChildState, Run
from holdfast.interfaces.ids import message_of, new_epoch
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    IdempotencyKey,
    IfRunKnown,
    IfRunOpen,
    IfSessionKnown,
    IfSessionNew,
    KeyConflict,
    Replayed,
)
from holdfast.journal.retrying_append import PASSING
from holdfast.racing import race
from holdfast.tools.shell.output import Shown, shorten
from holdfast.values import (
    CHILD,
    NOT_CREATED,
    PARENT_STOPPED,
    ApprovalMode,
    AskState,
    ChildUsage,
    Choice,
    ParentLink,
)

_log = logging.getLogger(__name__)

KEPT_UNTIL_MS = 253_402_300_799_000  # the year 9999: these keys never expire
PAUSE_S = 1.0  # before the store is asked again that didn't answer
ANSWER_SHOWN = Shown()
CREATED, NEVER = "created", "never"

_Found = TypeVar("_Found")


class NewChild(Struct, frozen=True):
    """The initial settings of a sub-agent's session."""

    started: e.ChildStarted
    parent: ParentLink
    task: str
    api_key: str = ""  # whose budget its calls count towards
    mode: Literal["", ApprovalMode] = ""  # of the parent's session
    chat: str = ""  # on a platform, that the parent's session belongs to


async def create(deps: AgentDeps, child: NewChild) -> None:
    """Create the session and the run of a sub-agent, unless they exist or were abandoned."""
    started, now_ms = child.started, deps.clock.now_ms()
    begun: list[e.Input] = [
        e.SessionCreated(
            at_ms=now_ms,
            epoch=new_epoch(),
            source=CHILD,
            workspace=started.settings.workspace,
            parent=child.parent,
            chat=child.chat,
        ),
        e.MessageAccepted(at_ms=now_ms, message_id=started.message_id, text=child.task),
        e.RunQueued(
            at_ms=now_ms,
            run_id=started.child_run_id,
            message_id=started.message_id,
            settings=started.settings,
            key=child.api_key,
        ),
    ]
    if child.mode:
        begun.insert(1, mode_set(child.mode, at_ms=now_ms, by=""))
    key = _key(started.child_id, digest=CREATED)
    result = await append(deps, started.child_id, begun, when=[IfSessionNew()], once=key)
    if isinstance(result, Appended):
        run = NewRun(started.child_run_id, child.api_key)
        deps.wakes.wake(started.child_id, result.last_seq, run=run)


async def tell_parent(deps: AgentDeps, child_id: str, view: SharedFold) -> None:
    """Write the result of a sub-agent to its parent's log, then confirm it in its own."""
    is_told = await _deliver(deps, child_id, view)
    told = e.ParentTold(at_ms=deps.clock.now_ms(), gone=not is_told)
    await append(deps, child_id, [told], once=_key(child_id, "told"))


async def _deliver(deps: AgentDeps, child_id: str, view: SharedFold) -> bool:
    """Write the ending of a sub-agent into its parent's log; False if the parent is purged.

    A deleted parent gets it, too, because the stop of its run waits for it, and because the deletion can be
    undone. But it gets no message, which would start a run.
    """
    parent, run = view.session.parent, view.session.delegated_run
    assert parent is not None, "only a sub-agent has a parent"
    assert run is not None, "its session was made with its run"
    assert run.outcome is not None, "only an ending is delivered"
    text, blob = await _answer(deps, run, output=view.runs[run.run_id].output)
    # A parent that stopped its sub-agent needs no result and mustn't be woken by it.
    is_message = parent.background and run.cause != PARENT_STOPPED
    ended = e.ChildEnded(
        at_ms=deps.clock.now_ms(),
        run_id=parent.run_id,
        child_id=child_id,
        outcome=run.outcome,
        cause=run.cause,
        result=text,
        blob=blob,
        used=used_by(run),
    )
    once, exists = _key(child_id, "ended"), IfRunKnown(parent.run_id)
    result = Declined(exists)
    if is_message:
        inputs = [replace(ended, result=""), _message(parent, ended, text=text)]
        result = await append(deps, parent.session_id, inputs, when=[exists, IfSessionKnown()], once=once)
    if isinstance(result, Declined):
        result = await append(deps, parent.session_id, [ended], when=[exists], once=once)
    if isinstance(result, Declined):
        return False
    deps.wakes.wake(parent.session_id, result.last_seq if isinstance(result, Appended) else 0)
    return True


def used_by(run: Run) -> ChildUsage:
    """Return the usage of the run and its sub-agents."""
    others = run.used_by_children
    return ChildUsage(
        input_tokens=run.usage.input_tokens + others.input_tokens,
        output_tokens=run.usage.output_tokens + others.output_tokens,
        turns=run.turns + others.turns,
        cost_usd=run.known_cost_usd + others.cost_usd,
    )


class Children:
    """The sub-agents of one session, as its owner sees them."""

    def __init__(self, session_id: str, view: SharedFold, deps: AgentDeps) -> None:
        self._session_id = session_id
        self._view = view
        self._deps = deps

    async def stop(self, child: ChildState, *, cause: str) -> None:
        """Ask the sub-agent to stop, without waiting; one that doesn't exist is ended here."""
        started, deps = child.started, self._deps
        row = await patiently(deps, lambda: deps.store.run(started.child_run_id))
        if row is None or row.status == "ended":
            await self.look_after([child])
            return
        seq = 0
        if row.status != "stopping":
            stop = e.StopRequested(at_ms=deps.clock.now_ms(), run_id=started.child_run_id, cause=cause)
            result = await append(deps, started.child_id, [stop], when=[IfRunOpen(started.child_run_id)])
            seq = result.last_seq if isinstance(result, Appended) else 0
        deps.wakes.wake(started.child_id, seq)

    async def stopped(self, children: Sequence[ChildState], *, cause: str) -> None:
        """Stop these sub-agents, and return when the parent's log has their endings."""
        for child in children:
            if child.ended is None:
                await self.stop(child, cause=cause)
        await self.until(lambda: all(child.ended is not None for child in children), children)

    async def until(self, condition: Callable[[], bool], children: Sequence[ChildState]) -> None:
        """Wait for a condition on the parent's log, and make sure that results arrive."""
        while not condition():
            await race(self._view.when(condition), within_s=self._deps.ask_poll_s)
            if not condition():
                await self.look_after([child for child in children if child.ended is None])

    async def wait_at_the_end(self, run: Run) -> None:
        """If the model has finished, wait for its next background sub-agent, if any.

        Only a sub-agent waits: once it has ended, no one would read the results of its sub-agents.
        """
        session = self._view.session
        if session.parent is None or run.finish != "stop" or run.unfinished_tools:
            return
        working = run.open_children

        def has_news() -> bool:
            return bool(session.inbox.steers(run.run_id)) or any(child.ended for child in working)

        if working:
            await self.until(has_news, working)

    async def look_after(self, children: Sequence[ChildState]) -> None:
        """Deliver the results of ended sub-agents, and give the others an owner."""
        deps = self._deps
        for child in children:
            child_id, run_id = child.started.child_id, child.started.child_run_id
            row = await patiently(deps, lambda run_id=run_id: deps.store.run(run_id))
            if row is None:
                await self._give_up(child)
            elif row.status != "ended" or not await self._deliver_again(child_id):
                # Its owner may be gone; a new one delivers the pending result.
                deps.wakes.wake(child_id, 0)

    async def give_up_uncreated(self, run_id: str) -> None:
        """End the sub-agents of this run, and of runs that have ended, that were never created."""
        deps = self._deps
        for child in self._view.session.children.values():
            started = child.started
            is_over = self._view.run(started.run_id).outcome is not None or started.run_id == run_id
            if child.ended is not None or not is_over:
                continue
            child_run_id = started.child_run_id
            if await patiently(deps, lambda id_=child_run_id: deps.store.run(id_)) is None:
                await self._give_up(child)

    async def _deliver_again(self, child_id: str) -> bool:
        """Deliver the result of a sub-agent that found its parent deleted; False if it delivers it itself."""
        fold = SharedFold()
        await patiently(self._deps, lambda: fold.catch_up(self._deps.store, child_id))
        if not fold.session.parent_told:
            return False
        return await _deliver(self._deps, child_id, fold)

    async def _give_up(self, child: ChildState) -> None:
        """End a sub-agent that was never created, or is purged; from here on it can't be created."""
        started = child.started
        ended = e.ChildEnded(
            at_ms=self._deps.clock.now_ms(),
            run_id=started.run_id,
            child_id=started.child_id,
            outcome="cancelled",
            cause=NOT_CREATED,
            result="It was stopped before it began, or its session was deleted.",
        )
        key = _key(started.child_id, digest=NEVER)
        await append(self._deps, self._session_id, [ended], when=[IfRunKnown(started.run_id)], once=key)


async def append(
    deps: AgentDeps,
    session_id: str,
    inputs: Sequence[e.Input],
    *,
    when: Sequence[Condition] = (),
    once: IdempotencyKey | None = None,
) -> Appended | Declined | Replayed | KeyConflict:
    """Append to any session's log; while the store accepts no writes, wait."""
    clean: list[e.Input] = [deps.secrets.stored(one)[0] for one in inputs]  # pyright: ignore[reportAssignmentType]  # the same types
    return await patiently(
        deps, lambda: deps.store.append(session_id, clean, when=when, idempotency_key=once)
    )


async def patiently(deps: AgentDeps, ask: Callable[[], Awaitable[_Found]]) -> _Found:
    """Call the store, retrying while it's unreachable or accepts no writes."""
    while True:
        try:
            return await ask()
        except PASSING as trouble:
            _log.warning("a session with sub-agents waits for the store: %s", trouble)
            await deps.clock.sleep_s(PAUSE_S)


def _key(child_id: str, step: str = "", *, digest: str = "") -> IdempotencyKey:
    name = f"child/{child_id}/{step}" if step else f"child/{child_id}"
    return IdempotencyKey(name, digest or step, b"", KEPT_UNTIL_MS)


async def _answer(deps: AgentDeps, run: Run, *, output: str) -> tuple[str, str]:
    """Return the text for the parent's model, and the blob with the full text if it was shortened."""
    if run.outcome != "completed" and run.outcome is not None:
        words = ending_words(run.outcome, run.cause, failure=run.failure)
        output = f"It didn't finish. {words}." + (f"\n\nOutput so far:\n{output}" if output else "")
    text, left_out = shorten(output or "(It ended without an answer.)", ANSWER_SHOWN)
    if not left_out:
        return text, ""
    return text, await deps.store.put_blob(output.encode())


def _message(parent: ParentLink, ended: e.ChildEnded, *, text: str) -> e.MessageAccepted:
    """Build the message with a background sub-agent's result."""
    how = "has completed its task" if ended.outcome == "completed" else "has ended"
    return e.MessageAccepted(
        at_ms=ended.at_ms,
        message_id=message_of(f"ended {ended.child_id}"),
        text=f"[Sub-agent {parent.name} {how}. The following is from it, not from the user.]\n\n{text}",
        mode="steer",
        run_id=parent.run_id,
        child=ended.child_id,
    )


_CHOICES: Mapping[str, Choice] = {"once": "once", "session": "session", "always": "always", "deny": "deny"}


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
