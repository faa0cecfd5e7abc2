"""The phases of a run and which event leads from one to the next: the whole state machine, as data."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from holdfast import events as e
from holdfast.codec import FEATURE_EVENTS, type_of
from holdfast.events.bases import RunEvent


class Phase(StrEnum):
    """The phase of a run; waiting for a person or for the client is RUNNING with an open ask."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    ENDED = "ended"


_BEGINS_SOMETHING: tuple[type[e.Event], ...] = (
    e.MessageDispatched,
    e.CallStarted,
    e.AttemptStarted,
    e.CallGated,
    e.TargetSwitched,
    e.ContextCompacted,
    e.ContextTrimmed,
    e.ContextCompactionFailed,
    e.AttachmentsSaved,
    e.ContextRead,
    e.ContextSet,
    e.ContextNoted,
    e.ToolAsked,
    e.ToolStarted,
    e.ApprovalAsked,
    e.QuestionAsked,
    e.ClientToolsAsked,
    e.ChildStarted,
    *(kind for kind in FEATURE_EVENTS if issubclass(kind, RunEvent)),
)
_WINDS_DOWN: tuple[type[e.Event], ...] = (
    e.CallEnded,
    e.AttemptFailed,
    e.AttemptSuperseded,
    e.TextDelta,
    e.TextDone,
    e.ReasoningDelta,
    e.ReasoningDone,
    e.ToolOutput,
    e.ToolEnded,
    e.ChildEnded,
    e.ChildAsked,
    e.ChildAskSettled,
    e.ApprovalAnswered,
    e.ApprovalExpired,
    e.ApprovalWithdrawn,
    e.QuestionAnswered,
    e.QuestionExpired,
    e.QuestionWithdrawn,
    e.ClientToolsAnswered,
    e.ClientToolsExpired,
    e.ClientToolsWithdrawn,
    e.Usage,
    e.RunResumed,
)

# an event missing from a row is a bug in the code that wrote it: IllegalEvent
TRANSITIONS: Mapping[Phase, Mapping[type[e.Event], Phase]] = MappingProxyType(
    {
        Phase.QUEUED: {
            e.MessageDispatched: Phase.QUEUED,
            e.RunResumed: Phase.QUEUED,
            e.RunStarted: Phase.RUNNING,
            e.StopRequested: Phase.STOPPING,
            e.RunEnded: Phase.ENDED,
        },
        Phase.RUNNING: {
            **dict.fromkeys(_BEGINS_SOMETHING, Phase.RUNNING),
            **dict.fromkeys(_WINDS_DOWN, Phase.RUNNING),
            e.StopRequested: Phase.STOPPING,
            e.RunEnded: Phase.ENDED,
        },
        # Events of work started before the stop can follow it, because inputs don't wait for runs.
        Phase.STOPPING: {
            **dict.fromkeys(_BEGINS_SOMETHING, Phase.STOPPING),
            **dict.fromkeys(_WINDS_DOWN, Phase.STOPPING),
            e.RunStarted: Phase.STOPPING,
            e.StopRequested: Phase.STOPPING,
            e.RunEnded: Phase.ENDED,
        },
        # A sub-agent in the background may ask and end after its parent's run.
        Phase.ENDED: dict.fromkeys(
            (e.OutputRecovered, e.ChildEnded, e.ChildAsked, e.ChildAskSettled), Phase.ENDED
        ),
    }
)


class IllegalEvent(Exception):
    """An event that can't follow what is in the log; the text has its seq, run, phase and type."""

    def __init__(
        self, reason: str, *, event: e.Event, seq: int = 0, run_id: str = "", phase: Phase | None = None
    ) -> None:
        of_run = f" of run {run_id}" if run_id else ""
        in_phase = f" (phase {phase})" if phase else ""
        super().__init__(f"seq {seq}: {type_of(event)}{of_run}{in_phase} is illegal: {reason}")
        self.reason = reason
        self.event = event
        self.seq = seq
        self.run_id = run_id
        self.phase = phase
