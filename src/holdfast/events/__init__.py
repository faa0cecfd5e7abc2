"""What can happen: the closed set of events, each an immutable value.

An event's `type` is its tag. A later version of an event gets a tag of its own (`usage/2`), and the codec
turns the old one into it when it is read. `seq` is not part of an event: the journal gives it out.

Three bases say who may append. `Input` comes from anyone. `OwnedEvent` comes from the owner of the log, who
holds the fence; `RunEvent` is one about a run.
"""

from typing import Literal, TypeAlias

import msgspec

from holdfast.events.asks import (
    ApprovalAnswered,
    ApprovalAsked,
    ApprovalExpired,
    ApprovalWithdrawn,
    ClientToolsAnswered,
    ClientToolsAsked,
    ClientToolsExpired,
    ClientToolsWithdrawn,
    QuestionAnswered,
    QuestionAsked,
    QuestionExpired,
    QuestionWithdrawn,
)
from holdfast.events.asks import AskAsked as AskAsked
from holdfast.events.asks import AskSettled as AskSettled
from holdfast.events.asks import PersonAsked as PersonAsked
from holdfast.events.bases import Event as Event
from holdfast.events.bases import ForeignEvent as ForeignEvent
from holdfast.events.bases import Input, RunEvent
from holdfast.events.bases import OwnedEvent as OwnedEvent
from holdfast.events.channels import (
    ChannelChatBound,
    ChannelCodeMade,
    ChannelCodeTried,
    ChannelConnected,
    ChannelFailed,
    ChannelMessageSettled,
    ChannelModelChosen,
    ChannelResultWanted,
    ChannelUpdateTaken,
    ChannelUserAllowed,
    ChannelUserRevoked,
)
from holdfast.events.children import ChildAsked as ChildAsked
from holdfast.events.children import ChildAskSettled as ChildAskSettled
from holdfast.events.children import ChildEnded as ChildEnded
from holdfast.events.children import ChildStarted as ChildStarted
from holdfast.events.children import ParentTold as ParentTold
from holdfast.events.children import PersonAskSettled as PersonAskSettled
from holdfast.events.deliveries import (
    DeliveryAttempted,
    DeliveryConfirmed,
    DeliveryIntended,
    DeliveryPostponed,
    DeliveryRejected,
    DeliveryUnknown,
)
from holdfast.events.memory import ContextRead as ContextRead
from holdfast.events.memory import MemoryProposed as MemoryProposed
from holdfast.events.memory import MemoryRejected as MemoryRejected
from holdfast.events.memory import MemoryWritten as MemoryWritten
from holdfast.events.plans import GoalContinued as GoalContinued
from holdfast.events.plans import PlanUpdated as PlanUpdated
from holdfast.events.relay import RelayCalled as RelayCalled
from holdfast.values import (
    ApprovalMode,
    CallFinish,
    CallPurpose,
    CloseReason,
    Failure,
    GrantRule,
    HistoryMessage,
    Mode,
    OutcomeKind,
    ParentLink,
    Part,
    RunSettings,
    SavedFile,
    SentFile,
    ToolEnding,
    ToolOwner,
    Undo,
)


class SessionCreated(Input, frozen=True, kw_only=True, tag="session.created"):
    """The first event of a log; `epoch` tells this log from an earlier one under the same id."""

    epoch: str
    source: str = "api"
    title: str = ""
    workspace: str = ""
    parent: ParentLink | None = None  # of a sub-agent's session
    chat: str = ""  # the chat on a platform that it belongs to, as `channel/chat`


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
    """What came after `to_seq` no longer counts; with `undo`, files are put back, also after a crash."""

    to_seq: int
    undo: Undo | None = None


class SessionMoved(Input, frozen=True, kw_only=True, tag="session.moved"):
    """A person lets machines with other files continue the session; an empty home is any machine."""

    home: str = ""
    by: str = ""


class SessionModeSet(Input, frozen=True, kw_only=True, tag="session.mode_set"):
    """A person chose how actions of this session are approved; an empty mode is the configured one.

    `allow-workspace` applies to `workspace` or, if that's empty, to the workspace of the last started run.
    """

    mode: Literal["", ApprovalMode] = ""
    by: str = ""
    workspace: str | None = None


class MessageAccepted(Input, frozen=True, kw_only=True, tag="message.accepted"):
    """A person's message is on disk."""

    message_id: str
    text: str
    mode: Mode = "send"
    client_id: str = ""
    parts: tuple[Part, ...] = ()
    run_id: str = ""
    child: str = ""  # the session of the sub-agent whose ending this brings; empty if a person sent it
    key: str = ""  # the name of the API key that sent it
    source: str = ""  # where it was written, as `session.created` says it; empty in old logs


class MessageEdited(Input, frozen=True, kw_only=True, tag="message.edited"):
    """A waiting message has another text."""

    message_id: str
    text: str
    parts: tuple[Part, ...] = ()
    key: str = ""  # the name of the API key that edited it


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
    """The attempt's text no longer counts; `problem` says why a complete answer can't be used."""

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
    opaque: dict[str, str] = {}  # noqa: RUF012  # msgspec makes a new one each time


class ToolAsked(RunEvent, frozen=True, kw_only=True, tag="tool.asked"):
    """The model asks for a tool; `bad_args` holds arguments that are no JSON object, as they came.

    `owner` runs the call, because a client's tool can have the name of one of ours. Without an owner, as in
    logs of earlier versions, the name alone identifies the tool.
    """

    tool_call_id: str
    name: str
    owner: ToolOwner | None = None
    args: dict[str, object] = {}  # noqa: RUF012  # as above
    bad_args: str = ""
    # What the provider wants back with the call.
    opaque: dict[str, str] = {}  # noqa: RUF012  # as above


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
    """The tool call is over; `result` is what the model is shown, `blob` the whole where it was cut.

    `sent` is a file for the person in the chat that the session belongs to. `advice` is appended to `result`
    for the model only. `proposal` is a pending change to a memory or skill.
    """

    tool_call_id: str
    ok: bool
    result: str
    ending: ToolEnding = "finished"
    parts: tuple[Part, ...] = ()
    blob: str = ""
    ms: int = 0
    sent: SentFile | None = None
    advice: str = ""
    proposal: str = ""


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
    estimated: bool = False  # the provider didn't report all of it, so some is Holdfast's estimate


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


# fmt: off
AnyEvent: TypeAlias = (
    SessionCreated | SessionRenamed | SessionPinned | SessionUnpinned | SessionArchived
    | SessionUnarchived | SessionDeleted | SessionRestored | SessionForked | SessionRewound | SessionMoved
    | SessionModeSet | MessageAccepted | MessageEdited | MessageMoved | MessageRemoved | MessageDispatched
    | QueuePaused | QueueResumed | RunQueued | RunStarted | CallStarted | CallEnded | AttemptStarted
    | AttemptFailed | AttemptSuperseded | TextDelta | TextDone | ReasoningDelta | ReasoningDone | ToolAsked
    | ToolStarted | ToolOutput | ToolEnded | SnapshotTaken | ChildStarted | ChildEnded | ChildAsked
    | ChildAskSettled | ParentTold | ApprovalAsked | ApprovalAnswered
    | ApprovalExpired | ApprovalWithdrawn | QuestionAsked | QuestionAnswered | QuestionExpired
    | QuestionWithdrawn | ClientToolsAsked | ClientToolsAnswered | ClientToolsExpired | ClientToolsWithdrawn
    | GrantAdded | GrantRemoved | CallGated | TargetSwitched | Usage | ContextCompacted | AttachmentsSaved
    | ContextRead | MemoryProposed | MemoryWritten | MemoryRejected
    | PlanUpdated | GoalContinued | StopRequested | RunResumed | RunEnded | OutputRecovered | RelayCalled
    | DeliveryIntended | DeliveryAttempted | DeliveryConfirmed | DeliveryPostponed | DeliveryRejected
    | DeliveryUnknown | ChannelConnected | ChannelFailed | ChannelCodeMade | ChannelCodeTried
    | ChannelUserAllowed | ChannelUserRevoked | ChannelChatBound | ChannelModelChosen | ChannelUpdateTaken
    | ChannelResultWanted | ChannelMessageSettled
)
# fmt: on
