"""What the server answers, as types; fields that a server adds later are passed over."""

from typing import Any, Literal, TypeAlias

import msgspec

from holdfast.values import Action, GrantRule, OutcomeKind

Json: TypeAlias = dict[str, Any]


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A message was taken: it started a run, waits for its turn, or steers the run under way."""

    run_id: str
    session_id: str
    message_id: str = ""
    status: Literal["started", "steered"] = "started"


class Accepted(msgspec.Struct, frozen=True, kw_only=True):
    """A message for a run under way was taken."""

    run_id: str
    session_id: str
    message_id: str
    mode: str


class UsageShown(msgspec.Struct, frozen=True, kw_only=True):
    """What a run used."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cost_usd: float | None = None


class ApprovalShown(msgspec.Struct, frozen=True, kw_only=True):
    """An approval that is asked for: one exact action and everything that was found in it."""

    approval_id: str
    tool: str = ""
    command: str = ""
    description: str = ""
    findings: tuple[str, ...] = ()
    action: Action | None = None
    choices: tuple[str, ...] = ()
    expires_at: float | None = None


class QuestionShown(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a run asks."""

    question_id: str
    question: str = ""
    choices: tuple[str, ...] = ()
    expires_at: float | None = None


class RunShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands; in a list only the first fields are there."""

    run_id: str
    session_id: str
    status: str
    created_at: float = 0.0
    updated_at: float = 0.0
    model: str = ""
    preview: str = ""
    outcome: OutcomeKind | None = None
    last_event: str = ""
    last_event_id: int = 0
    output: str = ""
    usage: UsageShown | None = None
    error: str = ""
    code: str = ""
    hint: str = ""
    cause: str = ""
    finish_reason: str = ""
    approval: ApprovalShown | None = None
    question: QuestionShown | None = None
    queue_position: int = 0
    queue_reason: str = ""
    gated_until: float = 0.0
    metadata: dict[str, str] = {}


class RunPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some runs, newest first, and the cursor of the next page."""

    data: tuple[RunShown, ...]
    has_more: bool = False
    next_cursor: str | None = None


class HitShown(msgspec.Struct, frozen=True, kw_only=True):
    """Where a search found a session; `highlights` are (begin, end) pairs in the passage."""

    seq: int
    passage: str
    highlights: tuple[tuple[int, int], ...] = ()


class SessionShown(msgspec.Struct, frozen=True, kw_only=True):
    """A session as the list shows it."""

    session_id: str
    title: str = ""
    preview: str = ""
    source: str = ""
    workspace: str = ""
    epoch: str = ""
    created_at: float = 0.0
    updated_at: float = 0.0
    message_count: int = 0
    pinned: bool = False
    archived: bool = False
    open_runs: int = 0
    open_asks: int = 0
    paused: bool = False  # it has an open run and no server works on it; only a store without one says so
    unread: bool = False
    last_seq: int = 0
    hit: HitShown | None = None


class SessionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some sessions, and the cursor of the next page."""

    data: tuple[SessionShown, ...]
    has_more: bool = False
    next_cursor: str | None = None


class TranscriptPage(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of a transcript in their order, as JSON; `next_before` asks for the ones before them."""

    session_id: str
    data: tuple[Json, ...]
    last_seq: int
    epoch: str = ""  # of the log that the seqs are of
    has_more: bool = False
    next_before: int | None = None
    marks: dict[str, str] = {}


class OpenAsk(msgspec.Struct, frozen=True, kw_only=True):
    """An approval or a question that waits for someone."""

    kind: Literal["approval", "question"]
    run_id: str
    session_id: str
    asked_at: float = 0.0
    expires_at: float | None = None
    choices: tuple[str, ...] = ()
    approval_id: str = ""
    tool: str = ""
    command: str = ""
    findings: tuple[str, ...] = ()
    action: Action | None = None
    question_id: str = ""
    question: str = ""

    @property
    def ask_id(self) -> str:
        """By which it is answered."""
        return self.approval_id or self.question_id


class AskList(msgspec.Struct, frozen=True):
    """All that waits for someone."""

    data: tuple[OpenAsk, ...]


class GrantShown(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that people have stored, and in words what it allows."""

    grant_id: str
    scope: str
    rule: GrantRule
    says: str
    session_id: str = ""


class GrantList(msgspec.Struct, frozen=True):
    """Such rules, and the cursor of the next page."""

    data: tuple[GrantShown, ...]
    next_cursor: str | None = None


class RulePreview(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that an answer would store; None if the action cannot be put into one."""

    approval_id: str
    rule: GrantRule | None = None


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits."""

    message_id: str
    text: str
    mode: str = ""
    state: str = ""
    position: int = 0
    run_id: str = ""


class QueueShown(msgspec.Struct, frozen=True, kw_only=True):
    """What waits in a session."""

    data: tuple[QueuedMessage, ...]
    paused: bool = False


class Forked(msgspec.Struct, frozen=True, kw_only=True):
    """A copy of a session."""

    session_id: str
    forked_from: str
    at_seq: int


class TargetShown(msgspec.Struct, frozen=True, kw_only=True):
    """A target and its health."""

    name: str
    model: str
    wire: str = ""
    context_window: int = 0
    gated_ms: int = 0
    silent_ms: int = 0


class TargetList(msgspec.Struct, frozen=True):
    """All targets, the default first."""

    data: tuple[TargetShown, ...]


class KeyShown(msgspec.Struct, frozen=True, kw_only=True):
    """A key by its name; its secret is known to its owner alone."""

    name: str
    source: Literal["configured", "made", "added"] = "added"
    created_at: float | None = None
    scopes: tuple[str, ...] = ("chat", "approve", "admin")


class KeyList(msgspec.Struct, frozen=True):
    """All keys."""

    data: tuple[KeyShown, ...]


class KeyMade(msgspec.Struct, frozen=True, kw_only=True):
    """A new key, which is shown this once."""

    name: str
    key: str

    def __repr__(self) -> str:
        """The secret stays out of logs and tracebacks."""
        return f"KeyMade({self.name!r})"


class SignInLink(msgspec.Struct, frozen=True, kw_only=True):
    """What stands behind `/#token=` in a link that signs one browser in, once."""

    token: str
    expires_in_s: int

    def __repr__(self) -> str:
        """The token stays out of logs and tracebacks."""
        return "SignInLink()"


class Health(msgspec.Struct, frozen=True):
    """The server is alive; `warning` is what it is short of, if anything."""

    status: str
    version: str = ""
    warning: str = ""
