"""The inbox: stores what people send before anything acts on it."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias
from weakref import WeakValueDictionary

from msgspec import Struct, field
from msgspec.structs import replace

from holdfast import events as e
from holdfast.agent.policy import mode_limit
from holdfast.events import Input
from holdfast.events.modes import mode_set
from holdfast.folds.inputs import MessageState, SessionMessage
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.ids import (
    approval_of_grant,
    new_epoch,
    new_message_id,
    new_run_id,
    new_session_id,
)
from holdfast.interfaces.journal import (
    Appended,
    Condition,
    Declined,
    IdempotencyKey,
    IfAskOpen,
    IfRunOpen,
    IfRunsOpenBelow,
    IfSessionKnown,
    IfSessionNew,
    JournalError,
    KeyConflict,
    Replayed,
    Store,
)
from holdfast.policy.tool_names import UPDATE_PLAN
from holdfast.runner.asks import (
    Answered,
    AnswerNotOffered,
    AnswerResult,
    ApprovalVerdict,
    AskAnswer,
    Stale,
    UnknownAsk,
    answer_by_rule,
    answer_events,
)
from holdfast.runner.session_grants import (
    SessionGrant,
    forget_session_grant,
    note_session_grant,
    session_grants,
)
from holdfast.runner.supervisor import Supervisor
from holdfast.values import (
    COMPACT,
    Action,
    ApprovalMode,
    HistoryMessage,
    Part,
    RunSettings,
    WhenBusy,
    strictest,
)

_log = logging.getLogger(__name__)

COVERED_MAX = 1_000  # open approvals and questions, the oldest, that a new rule is compared with
QUEUE_MAX = 50
TRIES_MAX = 3  # to steer the current run, which may end while the message is being stored


class IncomingMessage(Struct, frozen=True, kw_only=True):
    """A message from a person, or from a program on their behalf."""

    text: str
    parts: tuple[Part, ...] = ()
    client_id: str = ""
    settings: RunSettings = field(default_factory=RunSettings)
    history: tuple[HistoryMessage, ...] | None = None
    source: str = "api"
    chat: str = ""  # the chat on a platform that it was written in, as `channel/chat`
    when_busy: WhenBusy = "queue"
    attached: Mapping[str, bytes] = field(default_factory=dict[str, bytes])  # stored as blobs first
    # The ids of the message and its run, if they follow from something; otherwise they are new.
    message_id: str = ""
    run_id: str = ""
    key: str = ""  # the name of the API key that the run counts for, if it isn't the caller's
    permission_mode: Literal["", ApprovalMode] | None = None  # of the session from now on

    def in_workspace(self, folder: str) -> "IncomingMessage":
        """The same message, for a run in this folder."""
        return replace(self, settings=replace(self.settings, workspace=folder))


class Sent(Struct, frozen=True):
    """A message that is on disk, and its run."""

    session_id: str
    message_id: str
    run_id: str
    mode: Literal["send", "queue", "steer", "redirect"] = "send"


class NotSent(Struct, frozen=True):
    """A message that was refused, and why; nothing was stored."""

    why: Literal["session_deleted", "queue_full", "busy", "run_over", "nothing_to_compact", "is_command"]


class _PreparedAnswer(Struct, frozen=True):
    """An answer that's offered: where its events go, and the grant among them."""

    session_id: str
    when: IfAskOpen
    inputs: Sequence[Input]
    grant: e.GrantAdded | None
    action: Action | None  # that it approves or denies


# An idempotent response is stored together with the input, and contains ids that are made here.
OnceFor: TypeAlias = Callable[[Sent], IdempotencyKey]


class Inbox:
    """Stores inputs, and wakes the owners that act on them."""

    def __init__(
        self, store: Store, supervisor: Supervisor, clock: Clock, *, caller: Callable[[], str] = str
    ) -> None:
        self._store = store
        self._caller = caller  # the name of the current request's API key, or empty
        self._supervisor = supervisor
        self._clock = clock
        self._steering = WeakValueDictionary[str, asyncio.Lock]()  # session -> held while a steer is added

    async def send(
        self, session_id: str, message: IncomingMessage, *, once: OnceFor | None = None
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Start a run with this message, or do what `when_busy` says if the session has a run already.

        Without a session id, the message starts a new session.
        """
        if not session_id:
            return await self._send(new_session_id(), message, state=None, once=once)
        state = await self._state_if_busy(session_id)
        for _ in range(TRIES_MAX):
            current = state.current_run
            mode = message.when_busy
            if current is None or mode == "queue" or mode == "reject":  # noqa: PLR1714  # narrows
                break
            sent = await self.steer(session_id, current.run_id, message=message, mode=mode, once=once)
            if sent != NotSent("run_over"):
                return sent
            state = await self._state_if_busy(session_id)
        return await self._send(session_id, message, state=state, once=once)

    async def _send(
        self, session_id: str, message: IncomingMessage, *, state: Session | None, once: OnceFor | None
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Give the message its own run, behind the session's others; without a state, the session is new."""
        busy = len(state.open_runs) if state else 0
        if busy and message.when_busy == "reject":
            return NotSent("busy")
        room = QUEUE_MAX - (len(state.inbox.queue) if state else 0)
        if room <= 0:
            return NotSent("queue_full")
        # Checked again with the append, because others may send at the same time.
        fits = IfRunsOpenBelow(1 if message.when_busy == "reject" else busy + room)
        # Messages that a pause holds don't delay one that is sent now.
        is_free = state is None or (state.queue_paused and state.current_run is None)
        mode = "queue" if busy and not is_free else "send"
        sent = Sent(session_id, message.message_id or new_message_id(), message.run_id or new_run_id(), mode)
        queued = e.RunQueued(
            at_ms=self._clock.now_ms(),
            run_id=sent.run_id,
            message_id=sent.message_id,
            settings=message.settings,
            history=message.history,
            key=message.key,
        )
        inputs = [*self._mode_set(message), self._accepted(sent, message), queued]
        kept = once(sent) if once else None
        result = None
        if state is not None:
            result = await self._append(session_id, inputs, when=[IfSessionKnown(), fits], once=kept)
        if result is None or result == Declined(IfSessionKnown()):
            result = await self._create(session_id, inputs, message=message, once=kept)
        if result == Declined(IfSessionNew()):
            # Someone else created it in between, or it is deleted.
            result = await self._append(session_id, inputs, when=[IfSessionKnown(), fits], once=kept)
        match result:
            case Appended():
                return sent
            case Declined(condition=IfRunsOpenBelow()):
                return NotSent("busy" if message.when_busy == "reject" else "queue_full")
            case Declined():
                return NotSent("session_deleted")
            case _:
                return result

    async def _create(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        message: IncomingMessage,
        once: IdempotencyKey | None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        created = e.SessionCreated(
            at_ms=self._clock.now_ms(),
            epoch=new_epoch(),
            source=message.source,
            workspace=message.settings.workspace,
            chat=message.chat,
        )
        return await self._append(session_id, [created, *inputs], when=[IfSessionNew()], once=once)

    async def steer(
        self,
        session_id: str,
        run_id: str,
        *,
        message: IncomingMessage,
        mode: Literal["steer", "redirect"] = "steer",
        once: OnceFor | None = None,
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Send a message to a working run, which reads it before its next model call."""
        async with self._steer_lock(session_id):
            if len((await self._state_if_busy(session_id)).inbox.steering) >= QUEUE_MAX:
                return NotSent("queue_full")
            sent = Sent(session_id, new_message_id(), run_id, mode)
            inputs = [*self._mode_set(message), self._accepted(sent, message)]
            kept = once(sent) if once else None
            result = await self._append(session_id, inputs, when=[IfRunOpen(run_id)], once=kept)
        if isinstance(result, Appended):
            return sent
        return NotSent("run_over") if isinstance(result, Declined) else result

    def _steer_lock(self, session_id: str) -> asyncio.Lock:
        """The lock to hold from counting the steers to the append, so that the next one counts this one."""
        lock = self._steering.get(session_id)
        if lock is None:
            lock = self._steering[session_id] = asyncio.Lock()
        return lock

    def _mode_set(self, message: IncomingMessage) -> Sequence[Input]:
        if message.permission_mode is None:
            return ()
        now_ms, folder = self._clock.now_ms(), message.settings.workspace
        return [mode_set(message.permission_mode, at_ms=now_ms, by=self._caller(), workspace=folder)]

    def _accepted(self, sent: Sent, message: IncomingMessage) -> e.MessageAccepted:
        return e.MessageAccepted(
            at_ms=self._clock.now_ms(),
            message_id=sent.message_id,
            text=message.text,
            mode=sent.mode,
            client_id=message.client_id,
            parts=message.parts,
            run_id=sent.run_id if sent.mode in {"steer", "redirect"} else "",
            source=message.source,
        )

    async def steer_with_queued(self, session_id: str, queued: SessionMessage) -> bool:
        """Send a queued message to the working run instead; False if there is none, or no room."""
        async with self._steer_lock(session_id):
            return await self._steer_with_queued(session_id, queued)

    async def _steer_with_queued(self, session_id: str, queued: SessionMessage) -> bool:
        state = await self.state(session_id)
        current = state.current_run
        if current is None or len(state.inbox.steering) >= QUEUE_MAX:
            return False
        now_ms = self._clock.now_ms()
        said = e.MessageAccepted(
            at_ms=now_ms,
            message_id=f"{queued.message_id}_now",  # the same for concurrent requests, so it is sent once
            text=queued.text,
            mode="steer",
            client_id=queued.client_id,
            parts=queued.parts,
            run_id=current.run_id,
            key=" ".join(sorted(state.inbox.keys[queued.message_id])),  # not of who sends it sooner
            source=state.inbox.sources[queued.message_id],
        )
        removed = e.MessageRemoved(at_ms=now_ms, message_id=queued.message_id)
        # In one append, so that it's never sent twice; the queued run can't start while this one is open.
        when = [IfRunOpen(current.run_id)]
        return isinstance(await self._append(session_id, [said, removed], when=when), Appended)

    async def stop(self, session_id: str, run_id: str, *, cause: str = "user_stop", by: str = "") -> bool:
        """Ask the run to stop, and pause the queue behind it; False if it has ended.

        Stopping a run that itself waits behind another one doesn't pause the queue.
        """
        now_ms = self._clock.now_ms()
        inputs: list[Input] = [e.StopRequested(at_ms=now_ms, run_id=run_id, cause=cause, by=by)]
        state = await self.state(session_id)
        own = state.runs[run_id].message_id if run_id in state.runs else ""
        waiting = [message for message in state.inbox.waiting() if message.message_id != own]
        queue = [state.inbox.messages[message_id] for message_id in state.inbox.queue]
        first = next((message.run_id for message in queue if not state.holds(message)), run_id)
        current = state.current_run
        is_its_turn = run_id == (first if current is None else current.run_id)
        if is_its_turn and any(not state.holds(message) for message in waiting):
            inputs.append(e.QueuePaused(at_ms=now_ms, by_stop=True))
        return isinstance(await self._append(session_id, inputs, when=[IfRunOpen(run_id)]), Appended)

    async def request_stop(self, session_id: str, stop: e.StopRequested) -> bool:
        """Ask the run to stop, and leave the queue behind it alone; False if it has ended."""
        return isinstance(await self._append(session_id, [stop], when=[IfRunOpen(stop.run_id)]), Appended)

    async def answer(self, ask_id: str, answer: AskAnswer) -> AnswerResult:
        """Answer exactly this approval or question."""
        results = await self.answer_all({ask_id: answer})
        return results[0] if isinstance(results, list) else results

    async def answer_all(
        self, answers: Mapping[str, AskAnswer]
    ) -> list[Answered | Stale] | AnswerNotOffered | UnknownAsk:
        """Answer each ask by its id, or none of them if one answer isn't offered.

        "session" and "always" store the rule that was shown with the approval. It also answers the other
        open approvals that offer it.
        """
        prepared: list[_PreparedAnswer | Stale] = []
        for ask_id, answer in answers.items():
            found = await self._prepared(ask_id, answer)
            if isinstance(found, AnswerNotOffered | UnknownAsk):
                return found
            prepared.append(found)
        results = [one if isinstance(one, Stale) else await self._store_answer(one) for one in prepared]
        for one in prepared:
            if not isinstance(one, Stale) and one.grant is not None and one.action is not None:
                await self._answer_same(one.session_id, one.grant, one.action)
        return results

    async def _answer_same(self, session_id: str, granted: e.GrantAdded, action: Action) -> None:
        """Answer the other open approvals of the same action with the rule: of its session, or of all."""
        within = session_id if granted.scope == "session" else ""
        try:
            for row in await self._store.open_asks(session_id=within, limit=COVERED_MAX):
                found = await self._store.read(row.session_id, after=row.seq - 1, limit=1)
                asked = found[0].event if found else None
                if not isinstance(asked, e.ApprovalAsked):
                    continue
                if (answer := answer_by_rule(asked, granted, action)) is not None:
                    await self.answer(row.ask_id, answer)
        except JournalError as error:
            _log.warning("the approvals that %s covers still wait: %s", granted.grant_id, error)

    async def _prepared(
        self, ask_id: str, answer: AskAnswer
    ) -> "_PreparedAnswer | Stale | AnswerNotOffered | UnknownAsk":
        row = await self._store.ask(ask_id)
        session = await self.state(row.session_id) if row is not None else Session()
        run = session.runs.get(row.run_id) if row is not None else None
        ask = run.asks.get(ask_id) if run is not None else None
        if row is None or ask is None:
            return UnknownAsk(ask_id)
        at_ms = self._clock.now_ms()
        inputs = answer_events(ask, answer, at_ms=at_ms)
        if isinstance(inputs, Stale | AnswerNotOffered | UnknownAsk):
            return inputs
        grant = next((one for one in inputs if isinstance(one, e.GrantAdded)), None)
        action = ask.asked.action if isinstance(ask.asked, e.ApprovalAsked) else None
        if action is not None and action.tool == UPDATE_PLAN and isinstance(answer, ApprovalVerdict):
            inputs = [*inputs, *await self._end_of_plan_mode(session, answer, at_ms=at_ms)]
        return _PreparedAnswer(row.session_id, IfAskOpen(ask_id, at_ms), inputs, grant, action)

    async def _end_of_plan_mode(
        self, session: Session, verdict: ApprovalVerdict, *, at_ms: int
    ) -> Sequence[Input]:
        """An accepted plan returns the session to the configured mode, or to `ask` if that's `plan`.

        If the person can't set that mode, or a sub-agent can't have it, the loosest allowed one is set.
        """
        judge = self._supervisor.deps.judge
        if verdict.choice == "deny" or judge.in_mode(session.approval_mode).applied_mode() != "plan":
            return ()
        configured = judge.in_mode("").applied_mode()
        limit = strictest(verdict.mode_max, await mode_limit(judge, session, self.state))
        mode = strictest("ask" if configured == "plan" else configured, limit)
        return [mode_set("" if mode == configured else mode, at_ms=at_ms, by=verdict.by)]

    async def _store_answer(self, prepared: "_PreparedAnswer") -> Answered | Stale:
        session_id, grant, when = prepared.session_id, prepared.grant, prepared.when
        if grant is not None and grant.scope == "session":
            await note_session_grant(self._store, SessionGrant(session_id, grant.grant_id))
        if not isinstance(await self._append(session_id, prepared.inputs, when=[when]), Appended):
            return Stale(when.ask_id)
        if grant is not None and grant.scope == "always":
            await self._supervisor.deps.judge.remember(grant.grant_id, grant.rule)
        return Answered(when.ask_id, grant.rule if grant is not None else None)

    async def revoke(self, grant_id: str, *, session_id: str = "") -> bool:
        """Revoke a grant everywhere, or in one session only.

        False if there is no such grant. A fork has the grants of its original session.
        """
        is_known = await self._supervisor.deps.judge.forget(grant_id)
        if session_id:
            sessions = {session_id}
        else:
            asked = await self._store.ask(approval_of_grant(grant_id))
            sessions = {
                one.session_id for one in await session_grants(self._store) if one.grant_id == grant_id
            }
            sessions |= {asked.session_id} if asked else set()
        for one in sorted(sessions):
            is_known |= await self._revoke_in(one, grant_id)
        return is_known

    async def _revoke_in(self, session_id: str, grant_id: str) -> bool:
        if grant_id not in (await self.state(session_id)).grants:
            return False
        removed = e.GrantRemoved(at_ms=self._clock.now_ms(), grant_id=grant_id)
        if not await self.put(session_id, removed):
            return False
        await forget_session_grant(self._store, SessionGrant(session_id, grant_id))
        return True

    async def answer_client_tools(self, session_id: str, answered: e.ClientToolsAnswered) -> bool:
        """Hand in what the client's tools returned, once."""
        when = [IfAskOpen(answered.client_tools_id, answered.at_ms)]
        return isinstance(await self._append(session_id, [answered], when=when), Appended)

    async def edit(self, session_id: str, message_id: str, text: str) -> SessionMessage | None:
        """Replace the text of a waiting message, not its files; None if it's unknown or no longer waits."""
        known = (await self.state(session_id)).inbox.messages.get(message_id)
        parts = () if known is None else known.parts
        edited = e.MessageEdited(at_ms=self._clock.now_ms(), message_id=message_id, text=text, parts=parts)
        return await self.change_message(session_id, edited)

    async def change_message(
        self, session_id: str, change: e.MessageEdited | e.MessageMoved | e.MessageRemoved
    ) -> SessionMessage | None:
        """Edit, move or remove a waiting message; None if it's unknown or no longer waits."""
        state = await self.state(session_id)
        known = state.inbox.messages.get(change.message_id)
        if known is None or known.state not in {MessageState.QUEUED, MessageState.STEERING}:
            return None
        run = state.runs.get(known.run_id)
        if isinstance(change, e.MessageEdited) and run is not None and run.settings.purpose == "command":
            return None  # it runs as it was typed
        result = await self._append(session_id, [change], when=[IfSessionKnown()])
        if not isinstance(result, Appended):
            return None
        after = (await self.state(session_id)).inbox.messages[change.message_id]
        if isinstance(change, e.MessageEdited) and (after.text, after.parts) == (change.text, change.parts):
            return after  # also if its run has started since, with the new text
        # If its run started first, the change had no effect, which the caller must know.
        return None if after.state is MessageState.DISPATCHED else after

    async def retry(
        self, session_id: str, run_id: str, *, once: OnceFor | None = None
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Rewind the session to before the run's answer and run its message again."""
        view = await self._supervisor.view(session_id)
        run = view.run(run_id)
        if run.settings.purpose == "command":
            return NotSent("is_command")  # the caller may not be someone who can run commands
        if view.session.open_runs:
            return NotSent("busy")
        now_ms = self._clock.now_ms()
        sent = Sent(session_id, run.message_id, new_run_id())
        to_seq = max(run.first_seq, before_its_entries(view.transcript, run_id))
        rewound = e.SessionRewound(at_ms=now_ms, to_seq=to_seq)
        first = (await self._store.read(session_id, after=run.first_seq - 1, limit=1))[0].event
        assert isinstance(first, e.RunQueued), "a run begins with run.queued"
        queued = replace(first, at_ms=now_ms, run_id=sent.run_id, key=self._caller() or first.key)
        return await self._start_alone(sent, [rewound, queued], once=once)

    async def compact(
        self, session_id: str, focus: str, *, client_id: str = "", once: OnceFor | None = None
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Start a run that summarizes the conversation for the model, unless a run is open."""
        from holdfast.agent.compaction import has_something_to_compact  # imported with the agent

        view = await self._supervisor.view(session_id)
        if view.session.open_runs:
            return NotSent("busy")
        if not has_something_to_compact(view):
            return NotSent("nothing_to_compact")
        sent = Sent(session_id, new_message_id(), new_run_id())
        message = IncomingMessage(
            text=f"{COMPACT} {focus}".strip(), client_id=client_id, settings=RunSettings(purpose="compaction")
        )
        queued = e.RunQueued(
            at_ms=self._clock.now_ms(),
            run_id=sent.run_id,
            message_id=sent.message_id,
            settings=message.settings,
        )
        return await self._start_alone(sent, [self._accepted(sent, message), queued], once=once)

    async def _start_alone(
        self, sent: Sent, inputs: Sequence[Input], *, once: OnceFor | None
    ) -> Sent | NotSent | Replayed | KeyConflict:
        """Append the inputs of a run that may only start while no other is open."""
        when = [IfSessionKnown(), IfRunsOpenBelow(1)]
        result = await self._append(sent.session_id, inputs, when=when, once=once(sent) if once else None)
        match result:
            case Appended():
                return sent
            case Declined(condition=IfRunsOpenBelow()):
                return NotSent("busy")
            case Declined():
                return NotSent("session_deleted")
            case _:
                return result

    async def rewind(self, session_id: str, to_seq: int) -> Literal["session_deleted", "busy"] | None:
        """Rewind the session to a seq, unless a run is open; None if that is done, else why not."""
        rewound = e.SessionRewound(at_ms=self._clock.now_ms(), to_seq=to_seq)
        when = [IfSessionKnown(), IfRunsOpenBelow(1)]
        match await self._append(session_id, [rewound], when=when):
            case Declined(condition=IfRunsOpenBelow()):
                return "busy"
            case Declined():
                return "session_deleted"
            case _:
                return None

    async def put(self, session_id: str, *inputs: Input) -> bool:
        """Append any other input: title, queue, grants; False if the session is unknown or deleted."""
        return isinstance(await self._append(session_id, inputs, when=[IfSessionKnown()]), Appended)

    async def state(self, session_id: str) -> Session:
        """The current state of the session; read it, but never change it."""
        return (await self._supervisor.view(session_id)).session

    async def _state_if_busy(self, session_id: str) -> Session:
        """Like `state`, but an empty state for a session without open runs, whose log isn't read."""
        if self._supervisor.owner(session_id) is None:
            known = await self._store.listed(session_id)
            if known is None or not known.open_runs:
                return Session()
        return await self.state(session_id)

    async def _append(
        self,
        session_id: str,
        inputs: Sequence[Input],
        *,
        when: Sequence[Condition],
        once: IdempotencyKey | None = None,
    ) -> Appended | Declined | Replayed | KeyConflict:
        result = await self._store.append(session_id, inputs, when=when, idempotency_key=once)
        if isinstance(result, Appended):
            queued = next((one for one in inputs if isinstance(one, e.RunQueued)), None)
            if queued is None:
                self._supervisor.wake(session_id, result.last_seq)
            else:
                key = queued.key or self._caller()
                self._supervisor.wake_for(queued.run_id, session_id=session_id, seq=result.last_seq, key=key)
        return result


def before_its_entries(transcript: Transcript, run_id: str) -> int:
    """The seq before the run's first entry, but after the endings of earlier runs."""
    at = transcript.runs[run_id].entries[0].seq - 1
    earlier = (other for other in transcript.runs.values() if other.entries and other.entries[0].seq <= at)
    return max([at, *(other.ending.seq for other in earlier if other.ending)])
