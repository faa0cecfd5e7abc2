"""The closed set of events, each an immutable value.

An event's `type` is its tag. A new version of an event gets a new tag (`usage/2`), and the codec upgrades old
ones when they're read. `seq` isn't part of an event: the journal assigns it.

Three base classes define who can append. `Input` comes from anyone. `OwnedEvent` comes from the owner of the
log, who holds the fence; `RunEvent` is one about a run.
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
from holdfast.events.children import ChildAsked as ChildAsked
from holdfast.events.children import ChildAskSettled as ChildAskSettled
from holdfast.events.children import ChildEnded as ChildEnded
from holdfast.events.children import ChildStarted as ChildStarted
from holdfast.events.children import ParentTold as ParentTold
from holdfast.events.children import PersonAskSettled as PersonAskSettled
from holdfast.events.context import ContextCompacted as ContextCompacted
from holdfast.events.context import ContextCompactionFailed as ContextCompactionFailed
from holdfast.events.context import ContextNoted as ContextNoted
from holdfast.events.context import ContextRead as ContextRead
from holdfast.events.context import ContextReverted as ContextReverted
from holdfast.events.context import ContextSet as ContextSet
from holdfast.events.context import ContextTrimmed as ContextTrimmed
from holdfast.events.context import MessagePinned as MessagePinned
from holdfast.events.context import MessageUnpinned as MessageUnpinned
from holdfast.events.deliveries import (
    DeliveryAttempted,
    DeliveryConfirmed,
    DeliveryIntended,
    DeliveryPostponed,
    DeliveryRejected,
    DeliveryUnknown,
)
from holdfast.events.modes import ModeSet as ModeSet
from holdfast.events.modes import PermissionModeSet as PermissionModeSet
from holdfast.events.modes import SessionModeSet as SessionModeSet
from holdfast.values import (
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
    """The first event of a log. `epoch` distinguishes it from an earlier log with the same id."""

    epoch: str
    source: str = "api"
    title: str = ""
    workspace: str = ""
    parent: ParentLink | None = None  # of a sub-agent's session
    chat: str = ""  # the chat on a platform, as `channel/chat`


class SessionRenamed(Input, frozen=True, kw_only=True, tag="session.renamed"):
    """The session got a title, from a person or from a model after the first answer."""

    title: str
    by: Literal["person", "model"] = "person"
    cost_usd: float | None = None  # of the call that generated the title


class SessionDefaultsSet(Input, frozen=True, kw_only=True, tag="session.defaults_set"):
    """The defaults of the session's later runs were set. They replace all earlier defaults.

    `model` overrides the model that a request names. `instructions` come before the request's own.
    `reasoning_effort` applies only if the request has none.
    """

    model: str = ""
    instructions: str = ""
    reasoning_effort: str = ""
    by: str = ""


class SessionPinned(Input, frozen=True, kw_only=True, tag="session.pinned"):
    """The session was pinned."""


class SessionUnpinned(Input, frozen=True, kw_only=True, tag="session.unpinned"):
    """The session was unpinned."""


class SessionArchived(Input, frozen=True, kw_only=True, tag="session.archived"):
    """The session was archived."""


class SessionUnarchived(Input, frozen=True, kw_only=True, tag="session.unarchived"):
    """The session was unarchived."""


class SessionDeleted(Input, frozen=True, kw_only=True, tag="session.deleted"):
    """The session was hidden. It's purged after `purge_at_ms`."""

    purge_at_ms: int


class SessionRestored(Input, frozen=True, kw_only=True, tag="session.restored"):
    """The session was undeleted before it was purged."""


class SessionForked(Input, frozen=True, kw_only=True, tag="session.forked"):
    """The preceding events were copied from another session, up to its `at_seq`."""

    source_session_id: str
    at_seq: int


class SessionRewound(Input, frozen=True, kw_only=True, tag="session.rewound"):
    """Events after `to_seq` are ignored. With `undo`, files are restored, even after a crash."""

    to_seq: int
    undo: Undo | None = None


class SessionMoved(Input, frozen=True, kw_only=True, tag="session.moved"):
    """A person moved the session to machines without its files. An empty home means any machine."""

    home: str = ""
    by: str = ""


class MessageAccepted(Input, frozen=True, kw_only=True, tag="message.accepted"):
    """A message was accepted."""

    message_id: str
    text: str
    mode: Mode = "send"
    client_id: str = ""
    parts: tuple[Part, ...] = ()
    run_id: str = ""
    child: str = ""  # the session of the sub-agent whose result this is; empty if a person sent it
    key: str = ""  # the name of the API key that sent it
    source: str = ""  # its source, as in `session.created`; empty in old logs


class MessageEdited(Input, frozen=True, kw_only=True, tag="message.edited"):
    """A queued message was edited."""

    message_id: str
    text: str
    parts: tuple[Part, ...] = ()
    key: str = ""  # the name of the API key that edited it


class MessageMoved(Input, frozen=True, kw_only=True, tag="message.moved"):
    """A queued message was moved to this position (0 is next)."""

    message_id: str
    position: int


class MessageRemoved(Input, frozen=True, kw_only=True, tag="message.removed"):
    """A queued message was removed."""

    message_id: str


class MessageDispatched(RunEvent, frozen=True, kw_only=True, tag="message.dispatched"):
    """A message was sent to this run and can no longer be edited."""

    message_id: str


class QueuePaused(Input, frozen=True, kw_only=True, tag="queue.paused"):
    """The queue was paused.

    A pause caused by a stop applies to the current messages; one requested by a person also applies to later
    messages.
    """

    by_stop: bool = False


class QueueResumed(Input, frozen=True, kw_only=True, tag="queue.resumed"):
    """The queue was resumed."""


class RunQueued(Input, frozen=True, kw_only=True, tag="run.queued"):
    """A run was created, in the same transaction as its message."""

    run_id: str
    message_id: str
    settings: RunSettings = RunSettings()
    history: tuple[HistoryMessage, ...] | None = None
    key: str = ""  # the name of the API key that started it


class RunStarted(RunEvent, frozen=True, kw_only=True, tag="run.started"):
    """The run got a slot. `settings` are the request's with the session's defaults applied, if it has any."""

    target: str = ""
    settings: RunSettings | None = None


class CallStarted(RunEvent, frozen=True, kw_only=True, tag="call.started"):
    """A logical model request started."""

    call_id: str
    turn: int
    purpose: CallPurpose = "answer"


class CallEnded(RunEvent, frozen=True, kw_only=True, tag="call.ended"):
    """The call ended, with the model's finish reason. After this, a crash doesn't repeat the call."""

    call_id: str
    finish: CallFinish


class AttemptStarted(RunEvent, frozen=True, kw_only=True, tag="attempt.started"):
    """A connection to a target was opened. The text that follows belongs to it."""

    call_id: str
    attempt_id: str
    target: str
    model: str = ""
    nth: int = 1
    first_event_s: float = 0.0
    reconnects: int = 0  # failed connections between the previous failure and this attempt


class AttemptFailed(RunEvent, frozen=True, kw_only=True, tag="attempt.failed"):
    """The attempt failed."""

    attempt_id: str
    failure: Failure
    close_reason: CloseReason
    ms: int = 0


class AttemptSuperseded(RunEvent, frozen=True, kw_only=True, tag="attempt.superseded"):
    """The attempt's text was discarded. `problem` is the reason why a complete answer can't be used."""

    attempt_id: str
    problem: str = ""


class TextDelta(RunEvent, frozen=True, kw_only=True, gc=False, tag="text.delta"):
    """A chunk of the answer."""

    segment: int
    text: str


class TextDone(RunEvent, frozen=True, kw_only=True, gc=False, tag="text.done"):
    """A complete segment of the answer.

    `phase` is the provider's label for the segment (commentary, final_answer), to be sent back to it.
    `goes_on` means that the next segment continues the same text, which was too long for one.
    """

    segment: int
    text: str
    phase: str = ""
    goes_on: bool = False


class ReasoningDelta(RunEvent, frozen=True, kw_only=True, gc=False, tag="reasoning.delta"):
    """A chunk of the model's reasoning."""

    segment: int
    text: str


class ReasoningDone(RunEvent, frozen=True, kw_only=True, tag="reasoning.done"):
    """A complete segment of reasoning. `opaque` is the provider's data to be sent back with it."""

    segment: int
    text: str
    opaque: dict[str, str] = {}  # noqa: RUF012  # msgspec makes a new one each time


class ToolAsked(RunEvent, frozen=True, kw_only=True, tag="tool.asked"):
    """The model called a tool. `bad_args` has the raw arguments if they aren't a JSON object.

    `owner` runs the call, because a client's tool can have the same name as one of ours. Without an owner, as
    in logs of earlier versions, the name alone identifies the tool.
    """

    tool_call_id: str
    name: str
    owner: ToolOwner | None = None
    args: dict[str, object] = {}  # noqa: RUF012  # as above
    bad_args: str = ""
    # Provider data to be sent back with the call.
    opaque: dict[str, str] = {}  # noqa: RUF012  # as above
    via: str = ""  # the tool that the model called to call this one, such as `call_tool`


class ToolStarted(RunEvent, frozen=True, kw_only=True, tag="tool.started"):
    """The tool call is about to run. After this, its effect may have happened."""

    tool_call_id: str
    effect_key: str
    profile: str = ""  # the digest of the sandbox's profile; empty if there was no sandbox
    home: str = ""  # the session's new home, as `node:NAME` or `volume:NAME`; empty: unchanged


class ToolOutput(RunEvent, frozen=True, kw_only=True, gc=False, tag="tool.output"):
    """Output of a running tool."""

    tool_call_id: str
    text: str
    stream: Literal["stdout", "stderr", "progress"] = "stdout"


class ToolEnded(RunEvent, frozen=True, kw_only=True, tag="tool.ended"):
    """The tool call ended. `result` is the text for the model, and `blob` the full text if it was shortened.

    `sent` is a file for the person in the session's chat. `advice` is appended to `result` for the model
    only. `proposal` is a pending change to a memory or skill.
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


class GrantAdded(Input, frozen=True, kw_only=True, tag="grant.added"):
    """A person allowed a kind of action for this session or always."""

    grant_id: str
    rule: GrantRule
    scope: Literal["session", "always"]
    approval_id: str = ""
    by: str = ""


class GrantRemoved(Input, frozen=True, kw_only=True, tag="grant.removed"):
    """A grant was revoked."""

    grant_id: str


class CallGated(RunEvent, frozen=True, kw_only=True, tag="call.gated"):
    """The call is waiting, as requested by the provider."""

    call_id: str
    until_ms: int
    target: str
    why: str = ""


class TargetSwitched(RunEvent, frozen=True, kw_only=True, tag="target.switched"):
    """The call switched to another target, for the given reason."""

    from_target: str
    to_target: str
    why: str


class Usage(RunEvent, frozen=True, kw_only=True, tag="usage"):
    """Usage of one call."""

    call_id: str
    target: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = False  # partly estimated, because the provider's report is incomplete


class RelayCalled(Input, frozen=True, kw_only=True, tag="relay.called"):
    """The record of a relayed call: its API key, target and usage. Budgets and usage reports count it."""

    call_id: str
    key: str  # the name of the API key
    wire: str  # the protocol of the client
    model: str = ""  # the model name in the request
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


class AttachmentsSaved(RunEvent, frozen=True, kw_only=True, tag="attachments.saved"):
    """Attached files that the model can't read directly were saved in the workspace, or couldn't be saved."""

    files: tuple[SavedFile, ...]


class StopRequested(Input, frozen=True, kw_only=True, tag="stop.requested"):
    """A stop of the run was requested."""

    run_id: str
    cause: str = "user_stop"
    by: str = ""


class RunResumed(RunEvent, frozen=True, kw_only=True, tag="run.resumed"):
    """The run resumed after a `crash` or a `restart`."""

    after: str


class RunEnded(RunEvent, frozen=True, kw_only=True, tag="run.ended"):
    """The run's only terminal event. `refused_actions` counts tool calls that weren't approved."""

    outcome: OutcomeKind
    cause: str = ""
    failure: Failure | None = None
    trace: tuple[str, ...] = ()
    refused_actions: int = 0


class OutputRecovered(Input, frozen=True, kw_only=True, tag="output.recovered"):
    """Output of a run that became readable after it ended: the stored bodies, in order."""

    run_id: str
    events: tuple[msgspec.Raw, ...]


# fmt: off
AnyEvent: TypeAlias = (
    SessionCreated | SessionRenamed | SessionDefaultsSet | SessionPinned | SessionUnpinned | SessionArchived
    | SessionUnarchived | SessionDeleted | SessionRestored | SessionForked | SessionRewound
    | SessionMoved | SessionModeSet | PermissionModeSet | MessageAccepted | MessageEdited | MessageMoved
    | MessageRemoved | MessageDispatched | QueuePaused | QueueResumed | RunQueued | RunStarted
    | CallStarted | CallEnded | AttemptStarted | AttemptFailed | AttemptSuperseded | TextDelta
    | TextDone | ReasoningDelta | ReasoningDone | ToolAsked | ToolStarted | ToolOutput | ToolEnded
    | ChildStarted | ChildEnded | ChildAsked | ChildAskSettled | ParentTold
    | ApprovalAsked | ApprovalAnswered | ApprovalExpired | ApprovalWithdrawn | QuestionAsked
    | QuestionAnswered | QuestionExpired | QuestionWithdrawn | ClientToolsAsked | ClientToolsAnswered
    | ClientToolsExpired | ClientToolsWithdrawn | GrantAdded | GrantRemoved | CallGated | TargetSwitched
    | Usage | ContextCompacted | AttachmentsSaved | ContextRead | ContextSet | ContextNoted
    | ContextTrimmed | ContextCompactionFailed | ContextReverted | MessagePinned | MessageUnpinned
    | StopRequested | RunResumed
    | RunEnded | OutputRecovered | RelayCalled
    | DeliveryIntended | DeliveryAttempted | DeliveryConfirmed | DeliveryPostponed | DeliveryRejected
    | DeliveryUnknown
)
# fmt: on
