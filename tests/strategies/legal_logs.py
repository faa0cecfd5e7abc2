"""Hypothesis strategies: logs that a correct writer could have written.

`Writer` knows on its own which events may follow (it does not look at the folds that are tested with it).
Each of its moves appends events if the move is possible now, and nothing otherwise, so any list of moves is a
legal log and a shorter list is a simpler one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from holdfast import events as e
from holdfast.codec import encode
from holdfast.features.automations.events import (
    HookDelivered,
    TriggerCreated,
    TriggerDue,
    TriggerEdited,
    TriggerFired,
    TriggerGaveUp,
    TriggerMissed,
    TriggerMissedAnswered,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
    TriggerRunEnded,
    TriggerScriptEnded,
    TriggerScriptStarted,
    TriggerSkipped,
)
from holdfast.features.automations.values import EveryTimes, TriggerSettings
from holdfast.features.memory.events import MemoryProposed, MemoryRejected, MemoryWritten
from holdfast.features.plans.events import GoalContinued, PlanUpdated
from holdfast.features.undo.events import SnapshotTaken
from holdfast.values import (
    Action,
    ClientToolResult,
    Failure,
    FilePart,
    GrantRule,
    HistoryMessage,
    OutcomeKind,
    PlanStep,
    SavedFile,
    TextPart,
    Undo,
)
from strategies.context_events import CONTEXT, compact, pin, revert, trim
from strategies.family_events import ask_by_child, end_child, start_child

Log: TypeAlias = list[tuple[int, e.Event]]

BOUNDED = settings(max_examples=120)

_WORDS = st.sampled_from(["", "a", "word ", "two words ", "\n", "ü", "😀"])
_FILE = FilePart(blob="b", media_type="application/zip", name="a.zip")
_OUTCOMES = st.sampled_from(get_args(OutcomeKind))


@dataclass(slots=True)
class _Run:
    run_id: str
    message_id: str
    phase: Literal["queued", "running", "stopping", "ended"] = "queued"
    begun_seq: int = 0
    calls: int = 0
    attempt_id: str = ""
    attempts: list[str] = field(default_factory=list[str])
    tools: dict[str, str] = field(default_factory=dict[str, str])
    tool_attempts: dict[str, str] = field(default_factory=dict[str, str])
    rerunnable: set[str] = field(default_factory=set[str])
    approvals: list[str] = field(default_factory=list[str])
    questions: list[str] = field(default_factory=list[str])
    client_tools: list[str] = field(default_factory=list[str])
    children: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Writer:
    """Appends what is legal; `draw` supplies what is free to choose."""

    draw: st.DrawFn
    log: Log = field(default_factory=Log)
    seq: int = 0
    ms: int = 1_700_000_000_000
    count: int = 0
    runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    messages: list[str] = field(default_factory=list[str])
    without_run: list[str] = field(default_factory=list[str])
    steers: dict[str, str] = field(default_factory=dict[str, str])
    grants: list[str] = field(default_factory=list[str])

    def put(self, event: Callable[..., e.Event], **fields: object) -> None:
        self.seq += 1
        self.ms += 7
        self.log.append((self.seq, event(at_ms=self.ms, **fields)))

    def fresh(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def words(self) -> str:
        return self.draw(_WORDS)

    def current(self) -> _Run | None:
        return next((run for run in self.runs.values() if run.phase in {"running", "stopping"}), None)

    def running(self) -> _Run | None:
        run = self.current()
        return run if run is not None and run.phase == "running" else None

    def pick(self, items: list[str]) -> str | None:
        return self.draw(st.sampled_from(items)) if items else None

    # the session

    def gap(self) -> None:
        self.seq += self.draw(st.integers(1, 5))

    def session(self) -> None:
        kind, fields = self.draw(st.sampled_from(_PLAIN_SESSION_EVENTS) | st.sampled_from(_TRIGGER_EVENTS))
        self.put(kind, **fields)

    def rename(self) -> None:
        self.put(e.SessionRenamed, title=self.words())

    def delete(self) -> None:
        self.put(e.SessionDeleted, purge_at_ms=self.ms + 60_000)

    def fork(self) -> None:
        self.put(e.SessionForked, source_session_id="elsewhere", at_seq=self.seq)

    def rewind(self) -> None:
        if self.current() is None:
            self.put(e.SessionRewound, to_seq=self.draw(st.integers(0, self.seq)))

    def undo(self) -> None:
        """Take back, or bring back what was taken back just before."""
        if self.current() is not None:
            return
        newest = self.log[-1][1]
        earlier = newest.undo if isinstance(newest, e.SessionRewound) else None
        undo = Undo(
            undo_id=self.fresh("u"),
            run_id=next(iter(self.runs), ""),
            workspace="/w",
            files=1,
            digest="d",
            plan="p",
            runs=tuple(self.runs),
            keeps_log=self.draw(st.booleans()),
            redoes=earlier.undo_id if earlier is not None and not earlier.redoes else "",
        )
        self.put(e.SessionRewound, to_seq=self.draw(st.integers(0, self.seq)), undo=undo)

    def snapshot(self) -> None:
        if (run := self.running()) is not None:
            when = self.draw(st.sampled_from(["before", "after"]))
            usual = {"turn": 1, "workspace": "/w", "snapshot": "5a", "files": 3}
            changed = 2 if when == "after" else 0
            self.put(SnapshotTaken, run_id=run.run_id, when=when, changed=changed, **usual)

    def grant(self) -> None:
        grant_id = self.fresh("g")
        self.grants.append(grant_id)
        scope = self.draw(st.sampled_from(["session", "always"]))
        self.put(e.GrantAdded, grant_id=grant_id, rule=GrantRule(tool="shell"), scope=scope)

    def revoke(self) -> None:
        if grant_id := self.pick(self.grants):
            self.put(e.GrantRemoved, grant_id=grant_id)

    # messages and runs

    def accept(self, mode: str, *, run_id: str = "") -> str:
        message_id = self.fresh("m")
        self.messages.append(message_id)
        parts = self.draw(st.sampled_from([(), (TextPart("part"),), (_FILE,)]))
        text = self.words()
        self.put(e.MessageAccepted, message_id=message_id, text=text, mode=mode, run_id=run_id, parts=parts)
        return message_id

    def make_run(self, message_id: str) -> None:
        run = _Run(self.fresh("run_"), message_id)
        self.runs[run.run_id] = run
        history = self.draw(st.sampled_from([None, None, None, (HistoryMessage(role="user", content="h"),)]))
        self.put(e.RunQueued, run_id=run.run_id, message_id=message_id, history=history)

    def send(self) -> None:
        self.make_run(self.accept("send"))

    def queue(self) -> None:
        self.without_run.append(self.accept("queue"))

    def next_run(self) -> None:
        if message_id := self.pick(self.without_run):
            self.without_run.remove(message_id)
            self.make_run(message_id)

    def steer(self) -> None:
        if (run := self.current()) is not None:
            message_id = self.accept(self.draw(st.sampled_from(["steer", "redirect"])), run_id=run.run_id)
            self.steers[message_id] = run.run_id

    def edit(self) -> None:
        if message_id := self.pick(self.messages):
            self.put(e.MessageEdited, message_id=message_id, text=self.words())

    def move(self) -> None:
        if message_id := self.pick(self.messages):
            self.put(e.MessageMoved, message_id=message_id, position=self.draw(st.integers(-2, 5)))

    def remove(self) -> None:
        if message_id := self.pick(self.without_run):
            self.without_run.remove(message_id)
            self.put(e.MessageRemoved, message_id=message_id)

    def start(self) -> None:
        waiting = [run for run in self.runs.values() if run.phase == "queued"]
        if self.current() is None and waiting:
            run = waiting[0]
            run.begun_seq = self.seq + 1
            if self.draw(st.booleans()):
                self.put(e.MessageDispatched, run_id=run.run_id, message_id=run.message_id)
            self.put(e.RunStarted, run_id=run.run_id, target="t1")
            run.phase = "running"

    def begin(self) -> None:
        if self.current() is None:
            if all(run.phase == "ended" for run in self.runs.values()):
                self.send()
            self.start()

    def apply_steer(self) -> None:
        run = self.running()
        if run is not None:
            waiting = [message_id for message_id, run_id in self.steers.items() if run_id == run.run_id]
            if message_id := self.pick(waiting):
                del self.steers[message_id]
                self.put(e.MessageDispatched, run_id=run.run_id, message_id=message_id)

    def stop(self) -> None:
        if open_runs := [run for run in self.runs.values() if run.phase != "ended"]:
            run = open_runs[0]
            self.put(e.StopRequested, run_id=run.run_id)
            run.phase = "stopping"

    def stop_waiting(self) -> None:
        """A run that waits behind another one ends; its message was stopped, or taken back."""
        waiting = [run.run_id for run in self.runs.values() if run.phase == "queued"]
        if self.running() is not None and (run_id := self.pick(waiting)):
            run = self.runs[run_id]
            if self.draw(st.booleans()):
                self.put(e.StopRequested, run_id=run_id)
            else:
                self.put(e.MessageRemoved, message_id=run.message_id)
            self.put(e.RunEnded, run_id=run_id, outcome="cancelled")
            run.phase = "ended"

    def retry(self) -> None:
        """The message of a run that ended is run again, from the place before it."""
        ended = [run.run_id for run in self.runs.values() if run.phase == "ended"]
        if len(ended) == len(self.runs) and (run_id := self.pick(ended)):
            before = self.runs[run_id].begun_seq or self.seq + 1
            self.put(e.SessionRewound, to_seq=self.draw(st.integers(0, before - 1)))
            self.make_run(self.runs[run_id].message_id)

    def save_attachment(self) -> None:
        if (run := self.running()) is not None:
            path = self.draw(st.sampled_from(["", "attachments/a.zip"]))
            file = SavedFile(blob="b", name="a.zip", media_type="application/zip", bytes=3, path=path)
            self.put(e.AttachmentsSaved, run_id=run.run_id, files=(file,))

    def plan(self) -> None:
        if (run := self.running()) is not None:
            steps = tuple(PlanStep(text=self.words()) for _ in range(self.draw(st.integers(1, 3))))
            accepted = self.draw(st.booleans())
            self.put(PlanUpdated, run_id=run.run_id, tool_call_id="t", steps=steps, accepted=accepted)

    def go_on(self) -> None:
        if (run := self.running()) is not None:
            self.put(GoalContinued, run_id=run.run_id, round=2, told="go on")

    def read_context(self) -> None:
        if (run := self.running()) is not None:
            kind, fields = self.draw(st.sampled_from(CONTEXT))
            self.put(kind, run_id=run.run_id, **fields)

    def resume(self) -> None:
        for run in self.runs.values():
            if run.phase != "ended":
                self.put(e.RunResumed, run_id=run.run_id, after="crash")
                run.rerunnable = {id_ for id_, state in run.tools.items() if state == "started"}

    def end(self) -> None:
        if (run := self.current()) is not None:
            outcome = self.draw(_OUTCOMES)
            failure = Failure(kind="dropped", text="the line broke") if outcome == "failed" else None
            self.put(e.RunEnded, run_id=run.run_id, outcome=outcome, failure=failure)
            run.phase = "ended"
            late = [message_id for message_id, run_id in self.steers.items() if run_id == run.run_id]
            for message_id in late:
                del self.steers[message_id]
                self.without_run.append(message_id)

    def recover(self) -> None:
        ended = [run.run_id for run in self.runs.values() if run.phase == "ended"]
        if run_id := self.pick(ended):
            inner = e.TextDelta(at_ms=self.ms, run_id=run_id, segment=9, text=self.words())
            self.put(e.OutputRecovered, run_id=run_id, events=(msgspec.Raw(encode(inner)),))

    # calls

    def call(self) -> None:
        if (run := self.running()) is not None:
            run.calls += 1
            purpose = self.draw(st.sampled_from(["answer", "answer", "compaction"]))
            call_id = f"{run.run_id}/{run.calls}"
            self.put(e.CallStarted, run_id=run.run_id, call_id=call_id, turn=run.calls, purpose=purpose)
            self.attempt()

    def end_call(self) -> None:
        run = self.running()
        if run is not None and run.calls:
            finish = self.draw(st.sampled_from(["stop", "tools", "length"]))
            self.put(e.CallEnded, run_id=run.run_id, call_id=f"{run.run_id}/{run.calls}", finish=finish)

    def attempt(self) -> None:
        run = self.running()
        if run is not None and run.calls:
            run.attempt_id = self.fresh("a")
            run.attempts.append(run.attempt_id)
            call_id = f"{run.run_id}/{run.calls}"
            self.put(
                e.AttemptStarted, run_id=run.run_id, call_id=call_id, attempt_id=run.attempt_id, target="t1"
            )

    def fail(self) -> None:
        run = self.current()
        if run is not None and (attempt_id := self.pick(run.attempts)):
            failure = Failure(kind="stalled", text="silence")
            self.put(
                e.AttemptFailed,
                run_id=run.run_id,
                attempt_id=attempt_id,
                failure=failure,
                close_reason="stream_idle_kill",
            )

    def supersede(self) -> None:
        run = self.current()
        if run is not None and (attempt_id := self.pick(run.attempts)):
            self.put(e.AttemptSuperseded, run_id=run.run_id, attempt_id=attempt_id)
            for tool_call_id, state in list(run.tools.items()):
                if state == "asked" and run.tool_attempts[tool_call_id] == attempt_id:
                    del run.tools[tool_call_id]

    def piece(self) -> None:
        if (run := self.current()) is not None:
            kind = self.draw(st.sampled_from((e.TextDelta, e.ReasoningDelta, e.TextDone, e.ReasoningDone)))
            self.put(kind, run_id=run.run_id, segment=self.draw(st.integers(0, 2)), text=self.words())

    def note(self) -> None:
        if (run := self.running()) is not None:
            kind, fields = self.draw(st.sampled_from(_NOTES))
            self.put(kind, run_id=run.run_id, **fields)

    def usage(self) -> None:
        if (run := self.current()) is not None:
            cost = self.draw(st.sampled_from([None, 0.25]))
            used = {"input_tokens": 3, "output_tokens": 2, "cost_usd": cost, "estimated": cost is None}
            self.put(e.Usage, run_id=run.run_id, call_id="c", **used)

    # tools and asks

    def ask_tool(self) -> None:
        if (run := self.running()) is not None:
            ended = [id_ for id_, state in run.tools.items() if state == "ended"]
            reused = self.pick(ended) if self.draw(st.booleans()) else None
            tool_call_id = reused or self.fresh("t")
            run.tools[tool_call_id] = "asked"
            run.tool_attempts[tool_call_id] = run.attempt_id
            self.put(e.ToolAsked, run_id=run.run_id, tool_call_id=tool_call_id, name="shell")

    def start_tool(self) -> None:
        if (run := self.running()) is not None:
            startable = [id_ for id_, state in run.tools.items() if state == "asked" or id_ in run.rerunnable]
            if tool_call_id := self.pick(startable):
                run.tools[tool_call_id] = "started"
                run.rerunnable.discard(tool_call_id)
                self.put(e.ToolStarted, run_id=run.run_id, tool_call_id=tool_call_id, effect_key="k")

    def tool_output(self) -> None:
        run = self.current()
        if run is not None and (tool_call_id := self.pick(list(run.tools))):
            self.put(e.ToolOutput, run_id=run.run_id, tool_call_id=tool_call_id, text=self.words())

    def end_tool(self) -> None:
        run = self.current()
        if run is None:
            return
        unfinished = [id_ for id_, state in run.tools.items() if state != "ended"]
        if tool_call_id := self.pick(unfinished):
            run.tools[tool_call_id] = "ended"
            run.rerunnable.discard(tool_call_id)
            self.put(
                e.ToolEnded,
                run_id=run.run_id,
                tool_call_id=tool_call_id,
                ok=self.draw(st.booleans()),
                result="r",
            )

    def ask(self) -> None:
        if (run := self.running()) is not None:
            ask_id = self.fresh("ask")
            tool_call_id = next(iter(run.tools), "")
            kind = self.draw(st.sampled_from(("approval", "question", "client_tools")))
            if kind == "client_tools":
                run.client_tools.append(ask_id)
                self.put(
                    e.ClientToolsAsked,
                    run_id=run.run_id,
                    client_tools_id=ask_id,
                    tool_call_ids=tuple(run.tools),
                )
            elif kind == "approval":
                run.approvals.append(ask_id)
                action = Action(tool="shell", summary="rm -r build")
                self.put(
                    e.ApprovalAsked,
                    run_id=run.run_id,
                    approval_id=ask_id,
                    tool_call_id=tool_call_id,
                    action=action,
                )
            else:
                run.questions.append(ask_id)
                self.put(
                    e.QuestionAsked,
                    run_id=run.run_id,
                    question_id=ask_id,
                    tool_call_id=tool_call_id,
                    text="which?",
                )

    def settle_approval(self) -> None:
        run = self.current()
        if run is not None and (ask_id := self.pick(run.approvals)):
            run.approvals.remove(ask_id)
            kind, fields = self.draw(st.sampled_from(_APPROVAL_ENDS))
            self.put(kind, run_id=run.run_id, approval_id=ask_id, **fields)

    def settle_question(self) -> None:
        run = self.current()
        if run is not None and (ask_id := self.pick(run.questions)):
            run.questions.remove(ask_id)
            kind, fields = self.draw(st.sampled_from(_QUESTION_ENDS))
            self.put(kind, run_id=run.run_id, question_id=ask_id, **fields)

    def settle_client_tools(self) -> None:
        run = self.current()
        if run is not None and (ask_id := self.pick(run.client_tools)):
            run.client_tools.remove(ask_id)
            kind, fields = self.draw(st.sampled_from(_CLIENT_TOOLS_ENDS))
            self.put(kind, run_id=run.run_id, client_tools_id=ask_id, **fields)


_Made: TypeAlias = tuple[type[e.Event], dict[str, object]]
_PLAIN_SESSION_EVENTS: tuple[_Made, ...] = (
    (e.SessionPinned, {}),
    (e.SessionUnpinned, {}),
    (e.SessionArchived, {}),
    (e.SessionUnarchived, {}),
    (e.SessionRestored, {}),
    (e.SessionMoved, {"home": "node:b", "by": "key"}),
    (e.SessionDefaultsSet, {"model": "b", "instructions": "Be brief.", "by": "key"}),
    (e.SessionModeSet, {"mode": "allow-workspace", "by": "key"}),
    (e.PermissionModeSet, {"mode": "edits", "by": "key"}),
    (e.QueuePaused, {}),
    (e.QueueResumed, {}),
    (e.RelayCalled, {"call_id": "c", "key": "me", "wire": "chat"}),
    (e.ParentTold, {}),
    (MemoryProposed, {"change_id": "c", "document": "d", "before": "", "after": "x"}),
    (MemoryWritten, {"change_id": "c", "document": "d", "before": "", "after": "x", "how": "edited"}),
    (MemoryRejected, {"change_id": "c"}),
)
_TRIGGER_SETTINGS = TriggerSettings(name="t", when=EveryTimes(seconds=60), prompt="p")
_TRIGGER_EVENTS: tuple[_Made, ...] = (
    (TriggerCreated, {"settings": _TRIGGER_SETTINGS}),
    (TriggerEdited, {"settings": _TRIGGER_SETTINGS}),
    (TriggerPaused, {}),
    (TriggerResumed, {}),
    (TriggerRunAsked, {"request_id": "q"}),
    (TriggerMissedAnswered, {"run": True}),
    (HookDelivered, {"delivery_id": "d", "blob": "b", "bytes": 1}),
    (
        TriggerDue,
        {"key": "at/1", "due_at_ms": 1, "session_id": "o", "message_id": "o", "run_id": "of another session"},
    ),
    (TriggerFired, {"key": "at/1"}),
    (TriggerScriptStarted, {"key": "at/1"}),
    (TriggerScriptEnded, {"key": "at/1", "outcome": "late"}),
    (TriggerSkipped, {"key": "at/1", "due_at_ms": 1, "why": "overlap"}),
    (TriggerMissed, {"first_ms": 1, "last_ms": 2, "count": 2, "then": "skip"}),
    (TriggerRunEnded, {"key": "at/1", "outcome": "completed"}),
    (TriggerGaveUp, {"failures": 5}),
)
_NOTES: tuple[_Made, ...] = (
    (e.CallGated, {"call_id": "c", "until_ms": 9, "target": "t1"}),
    (e.TargetSwitched, {"from_target": "t1", "to_target": "t2", "why": "t1 was overloaded"}),
)
_APPROVAL_ENDS: tuple[_Made, ...] = (
    (e.ApprovalAnswered, {"choice": "once"}),
    (e.ApprovalExpired, {}),
    (e.ApprovalWithdrawn, {"cause": "stop"}),
)
_QUESTION_ENDS: tuple[_Made, ...] = (
    (e.QuestionAnswered, {"answer": "the first"}),
    (e.QuestionExpired, {}),
    (e.QuestionWithdrawn, {"cause": "stop"}),
)
_CLIENT_TOOLS_ENDS: tuple[_Made, ...] = (
    (e.ClientToolsAnswered, {"results": (ClientToolResult(tool_call_id="t", text="21"),)}),
    (e.ClientToolsExpired, {}),
    (e.ClientToolsWithdrawn, {"cause": "stop"}),
)

# what makes a run move stands more than once, so that logs get somewhere
_MOVES: tuple[Callable[[Writer], None], ...] = (
    *(Writer.begin, Writer.call, Writer.piece, Writer.ask_tool, Writer.start_tool) * 4,
    *(Writer.end_tool, Writer.ask, Writer.settle_approval, Writer.settle_question, Writer.steer) * 3,
    *(Writer.settle_client_tools,) * 3,
    *(
        Writer.piece,
        Writer.end,
        Writer.apply_steer,
        Writer.end_call,
        Writer.supersede,
        Writer.recover,
        Writer.note,
    )
    * 2,
    *(Writer.gap, Writer.session, Writer.rename, Writer.delete, Writer.fork, Writer.rewind, Writer.grant),
    *(Writer.revoke, Writer.queue, Writer.next_run, Writer.edit, Writer.move, Writer.remove, Writer.stop),
    *(Writer.resume, Writer.attempt, Writer.fail, Writer.usage, Writer.tool_output, Writer.send),
    *(
        compact,
        trim,
        revert,
        pin,
        Writer.save_attachment,
        Writer.stop_waiting,
        Writer.retry,
        Writer.undo,
        Writer.snapshot,
        Writer.plan,
        Writer.go_on,
        start_child,
        ask_by_child,
        end_child,
        Writer.read_context,
    ),
)

# what concerns messages and little else
QUEUEING: tuple[Callable[[Writer], None], ...] = (
    *(Writer.send, Writer.begin, Writer.call, Writer.piece, Writer.steer, Writer.apply_steer, Writer.end) * 2,
    *(Writer.stop_waiting, compact, revert, Writer.retry, Writer.rewind, Writer.edit, Writer.move),
    *(
        Writer.queue,
        Writer.next_run,
        Writer.remove,
        Writer.stop,
        Writer.resume,
        Writer.supersede,
        Writer.start,
    ),
    *(Writer.recover, Writer.fork, Writer.gap),
)


@st.composite
def logs(
    draw: st.DrawFn, *, moves_max: int = 60, moves: tuple[Callable[[Writer], None], ...] = _MOVES
) -> Log:
    """A legal log of one session."""
    writer = Writer(draw)
    writer.put(e.SessionCreated, epoch="e1")
    # a size of its own choice: lists left to themselves are mostly short
    size = draw(st.integers(0, moves_max))
    for move in draw(st.lists(st.sampled_from(moves), min_size=size, max_size=size)):
        move(writer)
    return writer.log
