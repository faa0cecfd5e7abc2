"""What can happen: the closed set of events, each an immutable value.

An event's `type` is its tag. A later version of an event gets a tag of its own (`usage/2`), and the codec
turns the old one into it when it is read. `seq` is not part of an event: the journal gives it out.

Two bases say who may append. `Input` comes from anyone; `RunEvent` comes from the owner of a run, who holds
the fence.
"""

from typing import Literal, TypeAlias

import msgspec

from holdfast.values import (
    Action,
    CallFinish,
    CallPurpose,
    Choice,
    ClientTool,
    ClientToolResult,
    CloseReason,
    Failure,
    GrantOffer,
    GrantRule,
    HistoryMessage,
    Mode,
    OutcomeKind,
    Part,
    RunSettings,
    SavedFile,
    ToolEnding,
    Undo,
    Width,
)


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that happened, and when (milliseconds of Unix time)."""

    at_ms: int


class Input(Event, frozen=True, kw_only=True):
    """An event that anyone may append."""


class RunEvent(Event, frozen=True, kw_only=True):
    """An event that only the owner of the run may append."""

    run_id: str


class SessionCreated(Input, frozen=True, kw_only=True, tag="session.created"):
    """The first event of a log; `epoch` tells this log from an earlier one under the same id."""

    epoch: str
    source: str = "api"
    title: str = ""
    workspace: str = ""


class SessionRenamed(Input, frozen=True, kw_only=True, tag="session.renamed"):
    """A person named the session, or a model did after the first answer."""

    title: str
    by: Literal["person", "model"] = "person"
    cost_usd: float | None = None  # of the call that wrote the title


class SessionPinned(Input, frozen=True, kw_only=True, tag="session.pinned"):
    """The session stays on top of the list."""


class SessionUnpinned(Input, frozen=True, kw_only=True, tag="session.unpinned"):
    """The session goes back to its place in the list."""


class SessionArchived(Input, frozen=True, kw_only=True, tag="session.archived"):
    """The session leaves the default list."""


class SessionUnarchived(Input, frozen=True, kw_only=True, tag="session.unarchived"):
    """The session returns to the default list."""


class SessionDeleted(Input, frozen=True, kw_only=True, tag="session.deleted"):
    """The session is hidden, and purged once `purge_at_ms` has passed."""

    purge_at_ms: int


class SessionRestored(Input, frozen=True, kw_only=True, tag="session.restored"):
    """A deletion was taken back in time."""


class SessionForked(Input, frozen=True, kw_only=True, tag="session.forked"):
    """The events before this one were copied from another session, up to `at_seq` there."""

    source_session_id: str
    at_seq: int


class SessionRewound(Input, frozen=True, kw_only=True, tag="session.rewound"):
    """What came after `to_seq` no longer counts for the transcript and the context.

    With `undo`, files of the workspace are put back too: from here on that is certain, also after a crash.
    """

    to_seq: int
    undo: Undo | None = None


class SessionMoved(Input, frozen=True, kw_only=True, tag="session.moved"):
    """A person lets machines with other files continue the session; an empty home is any machine."""

    home: str = ""
    by: str = ""


class MessageAccepted(Input, frozen=True, kw_only=True, tag="message.accepted"):
    """A person's message is on disk."""

    message_id: str
    text: str
    mode: Mode = "send"
    client_id: str = ""
    parts: tuple[Part, ...] = ()
    run_id: str = ""


class MessageEdited(Input, frozen=True, kw_only=True, tag="message.edited"):
    """A waiting message has another text."""

    message_id: str
    text: str
    parts: tuple[Part, ...] = ()


class MessageMoved(Input, frozen=True, kw_only=True, tag="message.moved"):
    """A waiting message takes another place in the queue (0 is next)."""

    message_id: str
    position: int


class MessageRemoved(Input, frozen=True, kw_only=True, tag="message.removed"):
    """A waiting message was taken back."""

    message_id: str


class MessageDispatched(RunEvent, frozen=True, kw_only=True, tag="message.dispatched"):
    """A message was handed to this run: it can no longer be edited."""

    message_id: str


class QueuePaused(Input, frozen=True, kw_only=True, tag="queue.paused"):
    """Waiting messages stay where they are until a person says otherwise.

    A pause that a stop made holds what waits now; one that a person asked for, whatever is queued later too.
    """

    by_stop: bool = False


class QueueResumed(Input, frozen=True, kw_only=True, tag="queue.resumed"):
    """Waiting messages start runs again."""


class RunQueued(Input, frozen=True, kw_only=True, tag="run.queued"):
    """A run exists; it stands in the same transaction as its message."""

    run_id: str
    message_id: str
    settings: RunSettings = RunSettings()
    history: tuple[HistoryMessage, ...] | None = None
    key: str = ""  # the name of the API key that started it


class RunStarted(RunEvent, frozen=True, kw_only=True, tag="run.started"):
    """The run has its slot."""

    target: str = ""


class CallStarted(RunEvent, frozen=True, kw_only=True, tag="call.started"):
    """One logical model request begins."""

    call_id: str
    turn: int
    purpose: CallPurpose = "answer"


class CallEnded(RunEvent, frozen=True, kw_only=True, tag="call.ended"):
    """The call is over, and how the model finished; from here on a crash need not ask again."""

    call_id: str
    finish: CallFinish


class AttemptStarted(RunEvent, frozen=True, kw_only=True, tag="attempt.started"):
    """One connection to one target begins; text that follows is its text."""

    call_id: str
    attempt_id: str
    target: str
    model: str = ""
    nth: int = 1
    first_event_s: float = 0.0
    reconnects: int = 0  # how often nobody was there between the failure before it and this attempt


class AttemptFailed(RunEvent, frozen=True, kw_only=True, tag="attempt.failed"):
    """The attempt did not bring an answer."""

    attempt_id: str
    failure: Failure
    close_reason: CloseReason
    ms: int = 0


class AttemptSuperseded(RunEvent, frozen=True, kw_only=True, tag="attempt.superseded"):
    """The attempt's text stays in the log, but no longer in the answer or the context.

    `problem` says why an answer that was complete can't be used; the model is told.
    """

    attempt_id: str
    problem: str = ""


class TextDelta(RunEvent, frozen=True, kw_only=True, gc=False, tag="text.delta"):
    """More of the answer."""

    segment: int
    text: str


class TextDone(RunEvent, frozen=True, kw_only=True, gc=False, tag="text.done"):
    """A stretch of the answer is complete; this is the whole of it.

    `phase` is its provider's word for what the stretch is (commentary, final_answer), which it wants back.
    `goes_on` says that the next stretch is the rest of the same text, which was too long for one.
    """

    segment: int
    text: str
    phase: str = ""
    goes_on: bool = False


class ReasoningDelta(RunEvent, frozen=True, kw_only=True, gc=False, tag="reasoning.delta"):
    """More of what the model thinks."""

    segment: int
    text: str


class ReasoningDone(RunEvent, frozen=True, kw_only=True, tag="reasoning.done"):
    """A stretch of thinking is complete; `opaque` is what its provider wants back with it."""

    segment: int
    text: str
    opaque: dict[str, str] = {}


class ToolAsked(RunEvent, frozen=True, kw_only=True, tag="tool.asked"):
    """The model asks for a tool; `bad_args` holds arguments that are no JSON object, as they came."""

    tool_call_id: str
    name: str
    args: dict[str, object] = {}
    bad_args: str = ""
    opaque: dict[str, str] = {}  # what the provider wants back with the call


class ToolStarted(RunEvent, frozen=True, kw_only=True, tag="tool.started"):
    """The intent is on disk: from here on the effect may have happened."""

    tool_call_id: str
    effect_key: str
    profile: str = ""  # the digest of the sandbox's profile; empty if there was no sandbox
    home: str = ""  # where the session stays from here on, as `node:NAME` or `volume:NAME`; empty: as before


class ToolOutput(RunEvent, frozen=True, kw_only=True, gc=False, tag="tool.output"):
    """A running tool said something."""

    tool_call_id: str
    text: str
    stream: Literal["stdout", "stderr", "progress"] = "stdout"


class ToolEnded(RunEvent, frozen=True, kw_only=True, tag="tool.ended"):
    """The tool call is over; `result` is what the model is shown, `blob` the whole where it was cut."""

    tool_call_id: str
    ok: bool
    result: str
    ending: ToolEnding = "finished"
    parts: tuple[Part, ...] = ()
    blob: str = ""
    ms: int = 0


class SnapshotTaken(RunEvent, frozen=True, kw_only=True, tag="snapshot.taken"):
    """The workspace is stored as it was before the first change of a turn, or after the last one.

    `snapshot` is empty if nothing could be stored; `why_not` says why, and the turn can't be undone then.
    """

    turn: int
    when: Literal["before", "after"]
    workspace: str
    snapshot: str = ""
    files: int = 0
    not_covered: int = 0  # how many files and folders aren't stored
    changed: int = 0  # how many files the run has changed so far; only after a turn
    overlaps: tuple[str, ...] = ()  # runs that could change the same files at the same time
    why_not: str = ""
    branch: str = ""  # of the workspace's git repository, which snapshots leave out; empty if it is detached
    commit: str = ""  # the one that is checked out


class _OfApproval:
    """An event about an ask that is an approval."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for approvals and questions."""
        return self.approval_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class _OfQuestion:
    """An event about an ask that is a question."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for approvals and questions."""
        return self.question_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ApprovalAsked(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.asked"):
    """A person must decide on one exact action."""

    approval_id: str
    tool_call_id: str
    action: Action
    findings: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ("once", "session", "always", "deny")
    expires_at_ms: int = 0
    headline: str = ""  # what it does and why it asks, in one line
    offers: tuple[GrantOffer, ...] = ()  # what "session" and "always" can store, narrowest first
    once_because: str = ""  # why "session" and "always" are not among the choices


class ApprovalAnswered(Input, _OfApproval, frozen=True, kw_only=True, tag="approval.answered"):
    """A person decided."""

    run_id: str
    approval_id: str
    choice: Choice
    by: str = ""
    reason: str = ""
    width: Width = "exact"


class ApprovalExpired(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.expired"):
    """Nobody decided in time, so the action is not run."""

    approval_id: str


class ApprovalWithdrawn(RunEvent, _OfApproval, frozen=True, kw_only=True, tag="approval.withdrawn"):
    """The action is no longer wanted, so the approval can no longer be given."""

    approval_id: str
    cause: str


class QuestionAsked(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.asked"):
    """The model, or one of its tools, asks a person."""

    question_id: str
    tool_call_id: str
    text: str
    choices: tuple[str, ...] = ()
    expires_at_ms: int = 0


class QuestionAnswered(Input, _OfQuestion, frozen=True, kw_only=True, tag="question.answered"):
    """A person answered; a `reason` says why there is no answer."""

    run_id: str
    question_id: str
    answer: str
    by: str = ""
    reason: str = ""


class QuestionExpired(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.expired"):
    """Nobody answered in time."""

    question_id: str


class QuestionWithdrawn(RunEvent, _OfQuestion, frozen=True, kw_only=True, tag="question.withdrawn"):
    """The question is no longer open."""

    question_id: str
    cause: str


class _OfClientTools:
    """An event about an ask that the client answers: tool calls that it runs itself."""

    __slots__ = ()

    @property
    def ask_id(self) -> str:
        """The ask's id, under the name that is the same for all asks."""
        return self.client_tools_id  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]  # each event declares it


class ClientToolsAsked(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.asked"):
    """The client must run these tool calls, which are for tools that it brought."""

    client_tools_id: str
    tool_call_ids: tuple[str, ...]
    expires_at_ms: int = 0


class ClientToolsAnswered(Input, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.answered"):
    """The client returned the results; `tools` and `tool_choice` hold for the calls that follow."""

    run_id: str
    client_tools_id: str
    results: tuple[ClientToolResult, ...]
    tools: tuple[ClientTool, ...] | None = None  # None: as before
    tool_choice: str = ""
    by: str = ""


class ClientToolsExpired(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.expired"):
    """The client returned no results in time."""

    client_tools_id: str


class ClientToolsWithdrawn(RunEvent, _OfClientTools, frozen=True, kw_only=True, tag="client_tools.withdrawn"):
    """The results are no longer wanted."""

    client_tools_id: str
    cause: str


class GrantAdded(Input, frozen=True, kw_only=True, tag="grant.added"):
    """A person allowed a kind of action for this session or always."""

    grant_id: str
    rule: GrantRule
    scope: Literal["session", "always"]
    approval_id: str = ""
    by: str = ""


class GrantRemoved(Input, frozen=True, kw_only=True, tag="grant.removed"):
    """A grant no longer holds."""

    grant_id: str


class CallGated(RunEvent, frozen=True, kw_only=True, tag="call.gated"):
    """The call waits for a time that the provider named."""

    call_id: str
    until_ms: int
    target: str
    why: str = ""


class TargetSwitched(RunEvent, frozen=True, kw_only=True, tag="target.switched"):
    """Another target answers, and the user is told why."""

    from_target: str
    to_target: str
    why: str


class Usage(RunEvent, frozen=True, kw_only=True, tag="usage"):
    """What one call used."""

    call_id: str
    target: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None


class ContextCompacted(RunEvent, frozen=True, kw_only=True, tag="context.compacted"):
    """The model is shown `summary` in place of everything up to `upto_seq`; the tokens are estimates."""

    upto_seq: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0


class AttachmentsSaved(RunEvent, frozen=True, kw_only=True, tag="attachments.saved"):
    """Attached files that the model can't read directly are in the workspace, or could not be put there."""

    files: tuple[SavedFile, ...]


class StopRequested(Input, frozen=True, kw_only=True, tag="stop.requested"):
    """Someone wants the run to stop."""

    run_id: str
    cause: str = "user_stop"
    by: str = ""


class RunResumed(RunEvent, frozen=True, kw_only=True, tag="run.resumed"):
    """The run continues after a `crash` or a `restart`."""

    after: str


class RunEnded(RunEvent, frozen=True, kw_only=True, tag="run.ended"):
    """The run's one true ending; `refused_actions` counts the tool calls that nobody allowed."""

    outcome: OutcomeKind
    cause: str = ""
    failure: Failure | None = None
    trace: tuple[str, ...] = ()
    refused_actions: int = 0


class OutputRecovered(Input, frozen=True, kw_only=True, tag="output.recovered"):
    """Output of a run that became readable after its ending: the stored bodies, in order."""

    run_id: str
    events: tuple[msgspec.Raw, ...]


class RelayCalled(Input, frozen=True, kw_only=True, tag="relay.called"):
    """The record of a relayed call, written when it is over: who asked which target, and what it used."""

    call_id: str
    key: str  # the name of the API key
    wire: str  # the protocol of the client
    model: str = ""  # the name that the client asked for
    target: str = ""  # the target of the last attempt
    outcome: Literal["completed", "failed", "cancelled"] = "completed"
    failure: Failure | None = None
    attempts: int = 0
    ms: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False  # the provider reported no usage, so this is Holdfast's estimate


# fmt: off
AnyEvent: TypeAlias = (
    SessionCreated | SessionRenamed | SessionPinned | SessionUnpinned | SessionArchived
    | SessionUnarchived | SessionDeleted | SessionRestored | SessionForked | SessionRewound | SessionMoved
    | MessageAccepted | MessageEdited | MessageMoved | MessageRemoved | MessageDispatched | QueuePaused
    | QueueResumed | RunQueued | RunStarted | CallStarted | CallEnded | AttemptStarted | AttemptFailed
    | AttemptSuperseded | TextDelta | TextDone | ReasoningDelta | ReasoningDone | ToolAsked
    | ToolStarted | ToolOutput | ToolEnded | SnapshotTaken | ApprovalAsked | ApprovalAnswered
    | ApprovalExpired | ApprovalWithdrawn | QuestionAsked | QuestionAnswered | QuestionExpired
    | QuestionWithdrawn | ClientToolsAsked | ClientToolsAnswered | ClientToolsExpired | ClientToolsWithdrawn
    | GrantAdded | GrantRemoved | CallGated | TargetSwitched | Usage | ContextCompacted | AttachmentsSaved
    | StopRequested | RunResumed | RunEnded | OutputRecovered | RelayCalled
)
# fmt: on

PersonAsked: TypeAlias = ApprovalAsked | QuestionAsked
AskAsked: TypeAlias = PersonAsked | ClientToolsAsked
# fmt: off
AskSettled: TypeAlias = (
    ApprovalAnswered | ApprovalExpired | ApprovalWithdrawn | QuestionAnswered | QuestionExpired
    | QuestionWithdrawn | ClientToolsAnswered | ClientToolsExpired | ClientToolsWithdrawn
)
# fmt: on
