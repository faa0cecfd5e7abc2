"""The answers of the API as types: described to clients, and what a fuzzer holds every answer to."""

from typing import Any, Literal, NotRequired, TypedDict

from holdfast.values import GrantRule, OutcomeKind


class Problem(TypedDict):
    """What is wrong, and where; `code` is for programs."""

    message: str
    type: Literal[
        "invalid_request_error",
        "authentication_error",
        "permission_error",
        "rate_limit_error",
        "server_error",
    ]
    param: str | None
    code: str


class Error(TypedDict):
    """The one envelope of every error."""

    error: Problem


class Started(TypedDict):
    """A message that is on disk, and the run that has it."""

    run_id: str
    status: Literal["started", "steered"]
    session_id: str
    message_id: str


class TokenUsage(TypedDict):
    """What a run used."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: NotRequired[float]


class Approval(TypedDict):
    """What a person is asked to decide."""

    approval_id: str
    tool_call_id: str
    tool: str
    command: str
    description: str
    findings: list[str]
    action: dict[str, Any]
    choices: list[Literal["once", "session", "always", "deny"]]
    expires_at: float | None


class Question(TypedDict):
    """What a person is asked to say."""

    question_id: str
    tool_call_id: str
    question: str
    choices: list[str]
    expires_at: float | None


class ListedRun(TypedDict):
    """A run as the list shows it."""

    object: Literal["hermes.run"]
    run_id: str
    session_id: str
    status: Literal[
        "queued",
        "running",
        "waiting_for_approval",
        "stopping",
        "completed",
        "failed",
        "interrupted",
        "cancelled",
    ]
    created_at: float
    updated_at: float
    model: str
    preview: NotRequired[str]
    outcome: NotRequired[OutcomeKind]
    queue_position: NotRequired[int]
    queue_reason: NotRequired[str]


class Run(ListedRun):
    """A run as its log says it stands."""

    last_event: str
    last_event_id: int
    output: NotRequired[str]
    usage: NotRequired[TokenUsage]
    metadata: NotRequired[dict[str, str]]
    finish_reason: NotRequired[str]
    cause: NotRequired[str]
    error: NotRequired[str]
    code: NotRequired[str]
    hint: NotRequired[str]
    gated_until: NotRequired[float]
    approval: NotRequired[Approval]
    question: NotRequired[Question]


class RunList(TypedDict):
    """A page of runs, newest first."""

    object: Literal["list"]
    data: list[ListedRun]
    has_more: bool
    next_cursor: str | None


class RunEvents(TypedDict):
    """Events of a run for those who poll."""

    object: Literal["list"]
    run_id: str
    events: list[dict[str, Any]]
    cursor: int
    last_event_id: int


class Stopping(TypedDict):
    """The stop is on disk; the run ends as soon as nothing of it is left running."""

    run_id: str
    status: Literal["stopping"]


class Accepted(TypedDict):
    """A message for a run under way is on disk."""

    run_id: str
    session_id: str
    message_id: str
    status: Literal["accepted"]
    accepted: bool
    mode: Literal["send", "queue", "steer", "redirect"]


class ApprovalAnswer(TypedDict):
    """How many approvals the answer settled."""

    object: Literal["hermes.run.approval_response"]
    run_id: str
    choice: Literal["once", "session", "always", "deny"]
    resolved: int
    approval_id: NotRequired[str]


class Rule(TypedDict):
    """The rule that "session" or "always" would store; null if that choice is not offered."""

    approval_id: str
    choice: Literal["session", "always"]
    rule: GrantRule | None


class Grant(TypedDict):
    """A rule that people have stored; one of a session also says whose, by whom and when."""

    grant_id: str
    scope: Literal["session", "always"]
    rule: GrantRule
    says: str
    session_id: NotRequired[str]
    by: NotRequired[str]
    created_at: NotRequired[float]


class GrantList(TypedDict):
    """What is not asked about any more."""

    object: Literal["list"]
    data: list[Grant]
    has_more: bool
    next_cursor: str | None


class GrantRevoked(TypedDict):
    """What the rule allowed is asked about again."""

    grant_id: str
    deleted: Literal[True]


class QuestionAnswer(TypedDict):
    """The answer is on disk."""

    run_id: str
    question_id: str
    status: Literal["answered"]


class Gate(TypedDict):
    """Whether the wait ended by this."""

    run_id: str
    status: Literal["trying", "tried"]


class Ask(TypedDict):
    """An approval or question that waits for a person, with the fields of its kind."""

    kind: Literal["approval", "question"]
    run_id: str
    session_id: str
    asked_at: float


class Asks(TypedDict):
    """What waits for a person, oldest first."""

    object: Literal["list"]
    data: list[Ask]


class Hit(TypedDict):
    """Where the words were found; `highlights` are pairs of places in the passage."""

    seq: int
    passage: str
    highlights: list[tuple[int, int]]


class Session(TypedDict):
    """A session as the list shows it."""

    object: Literal["hermes.session"]
    id: str
    session_id: str
    epoch: str
    title: str
    source: str
    workspace: str
    preview: str
    created_at: float
    started_at: float
    updated_at: float
    last_active: float
    message_count: int
    pinned: bool
    archived: bool
    open_runs: int
    open_asks: int
    begun_runs: int
    read_seq: int
    unread: bool
    purge_at: NotRequired[float]
    last_seq: NotRequired[int]
    hit: NotRequired[Hit]
    session: NotRequired[dict[str, Any]]


class SessionList(TypedDict):
    """A page of sessions, pinned ones first, then the newest."""

    object: Literal["list"]
    data: list[Session]
    has_more: bool
    next_cursor: str | None
    limit: NotRequired[int]
    offset: NotRequired[int]


class MadeSession(TypedDict):
    """A session that was created."""

    object: Literal["hermes.session"]
    id: str
    session_id: str
    title: str
    epoch: str
    created_at: float
    session: dict[str, Any]


class Forked(TypedDict):
    """A session that holds a copy of another's log."""

    object: Literal["hermes.session"]
    id: str
    session_id: str
    forked_from: str
    parent_session_id: str
    at_seq: int
    session: dict[str, Any]


class DeletedSession(TypedDict):
    """The session is hidden, and gone for good at `purge_at`, or now without one."""

    object: Literal["hermes.session.deleted"]
    id: str
    session_id: str
    deleted: bool
    purge_at: NotRequired[float]


class DraftText(TypedDict):
    """What was written and not sent."""

    text: str


class Entries(TypedDict):
    """A page of the transcript, in its order; `next_before` continues it upwards."""

    object: Literal["list"]
    session_id: str
    data: list[dict[str, Any]]
    has_more: bool
    next_before: int | None
    last_seq: int
    marks: NotRequired[dict[str, str]]
    runs: list[dict[str, Any]]
    session: NotRequired[Session]
    title: NotRequired[str]
    epoch: NotRequired[str]
    workspace: NotRequired[str]
    queue_paused: NotRequired[bool]
    waiting: NotRequired[list[dict[str, Any]]]
    usage: NotRequired[dict[str, Any]]
    live: NotRequired[dict[str, str]]


class LogStretch(TypedDict):
    """A part of a session's log; `bytes` are the sizes of the stored bodies. A cursor is SEQ@EPOCH."""

    object: Literal["list"]
    session_id: str
    epoch: str
    events: list[dict[str, Any]]
    bytes: list[int]
    last_seq: int


class Export(TypedDict):
    """A whole session."""

    object: Literal["holdfast.session.export"]
    session: Session
    events: list[dict[str, Any]]


class SaidMessage(TypedDict):
    """What the model said."""

    role: Literal["assistant"]
    content: str


class ChatAnswer(TypedDict):
    """The answer to a message of a session."""

    object: Literal["hermes.session.chat.completion"]
    session_id: str
    run_id: str
    status: Literal["completed"]
    message: SaidMessage
    usage: TokenUsage


class Waiting(TypedDict):
    """A message that waits."""

    message_id: str
    run_id: str
    text: str
    parts: list[dict[str, Any]]
    mode: str
    state: str
    position: int
    client_id: str
    created_at: float


class Queue(TypedDict):
    """What waits in a session, in its order."""

    object: Literal["list"]
    paused: bool
    data: list[Waiting]
