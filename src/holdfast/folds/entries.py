"""The entries of a transcript: what people see of a session, one class per kind."""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

from holdfast.folds.asks import AskKind
from holdfast.folds.gathered import Gathered
from holdfast.folds.inputs import SessionMessage
from holdfast.values import (
    Action,
    AskState,
    Failure,
    GrantOffer,
    OutcomeKind,
    Part,
    SavedFile,
    ToolEnding,
    Width,
)

TOOL_OUTPUT_CHARS_MAX = 64 * 1024

NoticeKind: TypeAlias = Literal[
    "switched",
    "gated",
    "resumed",
    "compacted",
    "trimmed",
    "not_compacted",
    "steered",
    "saved",
    "goal",
    "noted",
    "described",
    "transcribed",
]


def _tail() -> Gathered:
    return Gathered(TOOL_OUTPUT_CHARS_MAX)


class _RunEntry(Struct, kw_only=True):
    """The base of entries: the event's seq and time, and its run."""

    seq: int
    at_ms: int
    run_id: str


class Person(_RunEntry, kw_only=True):
    """A person's message, where a run took it up."""

    kind: ClassVar[str] = "person"
    message: SessionMessage


class ModelOutput(_RunEntry, kw_only=True):
    """Continuous model output, and the attempt that it belongs to."""

    call_id: str
    attempt_id: str
    target: str
    segment: int
    gathered: Gathered = field(default_factory=Gathered)
    done: bool = False

    @property
    def text(self) -> str:
        """The text so far."""
        return str(self.gathered)


class Text(ModelOutput, kw_only=True):
    """A part of the answer; `phase` is sent back to its provider."""

    kind: ClassVar[str] = "text"
    phase: str = ""


class Thinking(ModelOutput, kw_only=True):
    """A part of the reasoning; `opaque` is sent back to its provider."""

    kind: ClassVar[str] = "thinking"
    opaque: dict[str, str] = field(default_factory=dict[str, str])


class ToolCard(_RunEntry, kw_only=True):
    """A tool call: its arguments, the end of its output while it ran, and its result."""

    kind: ClassVar[str] = "tool"
    call_id: str
    attempt_id: str
    tool_call_id: str
    name: str
    args: dict[str, object]
    bad_args: str
    opaque: dict[str, str]
    target: str
    state: Literal["asked", "started", "ended"] = "asked"
    gathered: Gathered = field(default_factory=_tail)
    ok: bool = False
    result: str = ""
    ending: ToolEnding | None = None
    parts: tuple[Part, ...] = ()
    blob: str = ""
    ms: int = 0
    trimmed_seq: int = 0  # the event since which the model no longer sees the result

    @property
    def output(self) -> str:
        """The last 64 Ki characters of the running tool's output."""
        return str(self.gathered)


class AskCard(_RunEntry, kw_only=True):
    """An approval (of `action`) or a question (`text`), and how it was settled."""

    kind: ClassVar[str] = "ask"
    ask: AskKind
    ask_id: str
    tool_call_id: str
    action: Action | None = None
    text: str = ""
    findings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    expires_at_ms: int = 0
    headline: str = ""
    offers: tuple[GrantOffer, ...] = ()
    once_because: str = ""
    state: AskState = "open"
    answer: str = ""
    by: str = ""
    reason: str = ""
    width: Width = "exact"


class Notice(_RunEntry, kw_only=True):
    """A one-line message to people about a run."""

    kind: ClassVar[str] = "notice"
    notice: NoticeKind
    text: str
    until_ms: int = 0
    upto_seq: int = 0
    summary: str = ""
    pinned: tuple[str, ...] = ()  # what follows a summary word for word
    is_reverted: bool = False  # a compaction or trimming that a person undid

    @property
    def told(self) -> str:
        """The message to the model at this point; a summary takes the place of everything before it."""
        return "" if self.notice == "compacted" else self.summary


class Ending(_RunEntry, kw_only=True):
    """How a run ended; `words` says it for people."""

    kind: ClassVar[str] = "ending"
    outcome: OutcomeKind
    cause: str
    words: str
    failure: Failure | None
    trace: tuple[str, ...]


Entry: TypeAlias = Person | Text | Thinking | ToolCard | AskCard | Notice | Ending


def entry_json(entry: Entry) -> dict[str, Any]:
    """The entry as JSON for the page: its kind and fields, with gathered text as `output` or `text`."""
    fields: dict[str, Any] = msgspec.to_builtins(entry, enc_hook=str)
    if isinstance(entry, ToolCard):
        fields["output"] = fields.pop("gathered")
        fields["output_chars"] = entry.gathered.total_chars
    elif isinstance(entry, Text | Thinking):
        fields["text"] = fields.pop("gathered")
    return {"kind": entry.kind, **fields}


def saved_words(files: Iterable[SavedFile]) -> str:
    """Where attached files are, for people."""
    return " · ".join(
        f"Saved {file.name} in the workspace: {file.path}"
        if file.path
        else f"Couldn't save {file.name} in the workspace. {file.why}"
        for file in files
    )


_OUTCOMES: dict[OutcomeKind, str] = {
    "completed": "Completed",
    "refused": "Refused by the model",
    "truncated": "Cut off at the length limit",
    "budget": "Budget used up",
    "failed": "Failed",
    "cancelled": "Stopped",
    "interrupted": "Interrupted",
}
_CAUSES = {
    "user_stop": "",
    "superseded": "a newer message replaced it",
    "shutdown": "the server shut down",
    "crash_loop": "the server restarted three times without progress",
    "client_gone": "the client disconnected",
    "content_filter": "blocked by the provider's filter",
    "length": "",
    "restart": "the server restarted",
    "removed": "its message was removed",
    "forked": "the rest is in the session this one was forked from",
    "deleted": "the session was deleted",
    "goal_blocked": "the goal can't be reached",
    "rounds": "the goal wasn't reached in time",
    "parent_stopped": "the agent that started it was stopped, or stopped it",
    "parent_gone": "the session of the agent that started it was deleted",
    "not_created": "it never began",
}


def ending_words(outcome: OutcomeKind, cause: str, *, failure: Failure | None) -> str:
    """How a run ended, as one line for people; a cause without its own wording is shown as it is."""
    why = failure.text if failure is not None else _CAUSES.get(cause, cause)
    return f"{_OUTCOMES[outcome]}: {why}" if why else _OUTCOMES[outcome]
