"""The entries of a transcript: what people see of a session, one class for each kind."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from holdfast.folds.asks import AskKind
from holdfast.folds.gathered import Gathered
from holdfast.folds.inputs import SessionMessage
from holdfast.values import Action, AskState, Failure, OutcomeKind, Part, ToolEnding

TOOL_OUTPUT_CHARS_MAX = 64 * 1024

NoticeKind: TypeAlias = Literal["switched", "gated", "resumed", "compacted", "steered"]


def _tail() -> Gathered:
    return Gathered(TOOL_OUTPUT_CHARS_MAX)


@dataclass(slots=True, kw_only=True)
class Person:
    """What a person said, at the place where a run took it up."""

    kind: ClassVar[str] = "person"
    seq: int
    at_ms: int
    run_id: str
    message: SessionMessage


@dataclass(slots=True, kw_only=True)
class ModelOutput:
    """A stretch of what a model said or thought, and the attempt that it belongs to."""

    seq: int
    at_ms: int
    run_id: str
    call_id: str
    attempt_id: str
    target: str
    segment: int
    gathered: Gathered = field(default_factory=Gathered)
    done: bool = False

    @property
    def text(self) -> str:
        """All of it so far."""
        return str(self.gathered)


@dataclass(slots=True, kw_only=True)
class Text(ModelOutput):
    """A stretch of the answer; `phase` goes back to its provider."""

    kind: ClassVar[str] = "text"
    phase: str = ""


@dataclass(slots=True, kw_only=True)
class Thinking(ModelOutput):
    """A stretch of thinking; `opaque` goes back to its provider."""

    kind: ClassVar[str] = "thinking"
    opaque: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True, kw_only=True)
class ToolCard:
    """A tool call: what was asked, the end of what it said while it ran, what it brought."""

    kind: ClassVar[str] = "tool"
    seq: int
    at_ms: int
    run_id: str
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

    @property
    def output(self) -> str:
        """The last 64 Ki characters that the running tool said."""
        return str(self.gathered)


@dataclass(slots=True, kw_only=True)
class AskCard:
    """An approval (of `action`) or a question (`text`), and what became of it."""

    kind: ClassVar[str] = "ask"
    seq: int
    at_ms: int
    run_id: str
    ask: AskKind
    ask_id: str
    tool_call_id: str
    action: Action | None = None
    text: str = ""
    findings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    expires_at_ms: int = 0
    state: AskState = "open"
    answer: str = ""
    by: str = ""
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Notice:
    """Something that people are told about a run in one line."""

    kind: ClassVar[str] = "notice"
    seq: int
    at_ms: int
    run_id: str
    notice: NoticeKind
    text: str
    until_ms: int = 0
    upto_seq: int = 0
    summary: str = ""


@dataclass(slots=True, kw_only=True)
class Ending:
    """How a run ended; `words` says it to a person."""

    kind: ClassVar[str] = "ending"
    seq: int
    at_ms: int
    run_id: str
    outcome: OutcomeKind
    cause: str
    words: str
    failure: Failure | None
    trace: tuple[str, ...]


Entry: TypeAlias = Person | Text | Thinking | ToolCard | AskCard | Notice | Ending


def shown(entry: Entry) -> dict[str, Any]:
    """The entry as JSON for the page: its kind and its fields, gathered text under the name people use."""
    fields: dict[str, Any] = msgspec.to_builtins(entry, enc_hook=str)
    if isinstance(entry, ToolCard):
        fields["output"] = fields.pop("gathered")
        fields["output_chars"] = entry.gathered.total_chars
    elif isinstance(entry, Text | Thinking):
        fields["text"] = fields.pop("gathered")
    return {"kind": entry.kind, **fields}


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
}


def ending_words(outcome: OutcomeKind, cause: str, *, failure: Failure | None) -> str:
    """How a run ended, as one line for people; a cause without a sentence of its own stands as it is."""
    why = failure.text if failure is not None else _CAUSES.get(cause, cause)
    return f"{_OUTCOMES[outcome]}: {why}" if why else _OUTCOMES[outcome]
