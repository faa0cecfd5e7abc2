"""The read model of a log: one fold of a session and its runs, shared by all its readers.

`SessionFold` is always at the newest applied event. A reader that needs an earlier state of a run replays
that run with `RunReplay`.
"""

from collections.abc import Mapping
from typing import Protocol

from holdfast import events as e
from holdfast.folds import session, transcript
from holdfast.folds.entries import Text
from holdfast.folds.rows import run_of
from holdfast.folds.run import Run, apply_to_run, queued_run
from holdfast.folds.run_view import RunView
from holdfast.folds.session import Session
from holdfast.folds.transcript import Transcript
from holdfast.model_events import LONG_CHARS

# The events that a status can name as a run's latest event.
_MILESTONES: frozenset[type[e.Event]] = frozenset(
    {
        e.RunQueued,
        e.RunStarted,
        e.RunResumed,
        e.MessageDispatched,
        e.ReasoningDone,
        e.ToolStarted,
        e.ToolEnded,
        e.ApprovalAsked,
        e.ApprovalAnswered,
        e.ApprovalExpired,
        e.ApprovalWithdrawn,
        e.QuestionAsked,
        e.QuestionAnswered,
        e.QuestionExpired,
        e.QuestionWithdrawn,
        e.ClientToolsAsked,
        e.ClientToolsAnswered,
        e.ClientToolsExpired,
        e.ClientToolsWithdrawn,
        e.RunEnded,
    }
)
RESTARTED = "\n\n[answer restarted]\n\n"


class AppendOnlyText:
    """Turns the text of a run's attempts into text that only grows.

    While a new attempt repeats what a superseded one said, nothing is added. At the first difference a line
    says that the answer restarted, and the new text follows from its beginning. Long texts aren't kept for
    comparison: after one, the answer always restarts.
    """

    __slots__ = ("_has_to_restart", "_repeated", "_repeating")

    def __init__(self) -> None:
        self._has_to_restart = False
        self._repeating = ""  # what readers have of a superseded attempt
        self._repeated = 0  # how much of that the new attempt has repeated

    def apply(self, event: e.Event, run: RunView) -> str:
        """Take the run's next event, before the run's view does; return the text that it adds."""
        if isinstance(event, e.TextDelta):
            if not run.answers:
                return ""
            return self._text(event.text) if self._has_to_restart or self._repeating else event.text
        if isinstance(event, e.AttemptSuperseded):
            self._supersede(run)
        elif isinstance(event, e.CallEnded) and event.finish != "failed":
            return self._settle()
        return ""

    def _text(self, text: str) -> str:
        if self._has_to_restart:
            self._has_to_restart = False
            return RESTARTED + text
        end = self._repeated + len(text)
        if self._repeating[self._repeated : end] == text:
            self._repeated = end
            if end == len(self._repeating):
                self._repeating, self._repeated = "", 0
            return ""
        return self._restart(self._repeating[: self._repeated] + text)

    def _restart(self, text: str) -> str:
        # If the new text only extends the old one, nothing has to be retracted.
        known, self._repeating, self._repeated = self._repeating, "", 0
        return text[len(known) :] if text.startswith(known) else RESTARTED + text

    def _supersede(self, run: RunView) -> None:
        self._repeated = 0
        if self._repeating or self._has_to_restart:
            return
        said = [text for text in run.entries if isinstance(text, Text) and text.call_id == run.call_id]
        if sum(text.gathered.total_chars for text in said) > LONG_CHARS:
            self._has_to_restart = True
        else:
            self._repeating = "".join([text.text for text in said])

    def _settle(self) -> str:
        """An answer that ends before it has repeated everything is a different answer."""
        if self._has_to_restart:
            self._has_to_restart = False
            return RESTARTED
        return self._restart(self._repeating[: self._repeated]) if self._repeating else ""


class RunFold:
    """One run: its state, its part of the transcript, and its text for views that can't retract any."""

    __slots__ = ("_append_only", "_sent", "_transcript", "added_text", "milestone", "state", "view")

    def __init__(self, state: Run, transcript: Transcript) -> None:
        self.state = state
        self.view = transcript.runs[state.run_id]
        self.milestone: type[e.Event] = e.RunQueued
        self._transcript = transcript
        self._append_only = AppendOnlyText()
        self._sent: dict[str, str] = {}
        self.added_text = ""

    @property
    def output(self) -> str:
        """The clean answer so far."""
        return transcript.output(self._transcript, self.state.run_id)

    @property
    def terminal_seq(self) -> int:
        """The seq of the ending; 0 while there is none."""
        return self.view.ending.seq if self.view.ending else 0

    def message_text(self, message_id: str) -> str:
        """The text of a message as it was sent to the run; empty if there is none."""
        return self._sent.get(message_id, "")

    def take(self, event: e.Event) -> None:
        """Take the run's next event, after its state and before its view."""
        self.added_text = self._append_only.apply(event, self.view)
        if type(event) not in _MILESTONES:
            if isinstance(event, e.MessageAccepted):
                self._sent[event.message_id] = event.text
            return
        if isinstance(event, e.ReasoningDone) and not (event.text and self.state.answers):
            return
        if isinstance(event, e.MessageDispatched) and event.message_id == self.state.message_id:
            return
        self.milestone = type(event)


class SessionReadModel(Protocol):
    """A read-only view of a folded session."""

    @property
    def last_seq(self) -> int:
        """The newest applied event."""
        ...

    @property
    def session(self) -> Session:
        """The session's state."""
        ...

    @property
    def transcript(self) -> Transcript:
        """Return the session's transcript."""
        ...

    @property
    def runs(self) -> Mapping[str, RunFold]:
        """The session's runs by id, in the order they were queued."""
        ...


class SessionFold:
    """State, transcript and runs of one session; each event is applied once, in log order."""

    __slots__ = ("last_seq", "runs", "session", "transcript")

    def __init__(self) -> None:
        self.last_seq = 0
        self.session = Session()
        self.transcript = Transcript()
        self.runs: dict[str, RunFold] = {}

    def apply(self, seq: int, event: e.Event) -> None:
        """Take the next event; one that was applied before changes nothing.

        Raises IllegalEvent or UnreadableEvent, every time the event is offered.
        """
        if seq <= self.last_seq:
            return
        session.apply(self.session, seq, event)
        run = self.runs.get(run_of(event))
        if run is not None:
            run.take(event)
        transcript.apply(self.transcript, seq, event)
        if isinstance(event, e.RunQueued):
            self.runs[event.run_id] = RunFold(self.session.runs[event.run_id], self.transcript)
        self.last_seq = seq


class RunReplay:
    """One run folded on its own from its first event, for a reader that is behind the shared fold."""

    def __init__(self, run_id: str) -> None:
        self.fold: RunFold | None = None
        self._run_id = run_id
        self._transcript = Transcript()

    def apply(self, seq: int, event: e.Event) -> RunFold | None:
        """Take the session's next event; return the run if the event belongs to it."""
        if run_of(event) != self._run_id:
            return None
        run = self.fold
        if run is None:
            if not isinstance(event, e.RunQueued):
                return None
            transcript.apply(self._transcript, seq, event)
            self.fold = RunFold(queued_run(seq, event), self._transcript)
            return self.fold
        if not isinstance(event, e.MessageAccepted):
            apply_to_run(run.state, seq, event)
        run.take(event)
        transcript.apply(self._transcript, seq, event)
        return run
