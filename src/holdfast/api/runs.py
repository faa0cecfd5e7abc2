"""Request and response bodies for runs."""

from typing import Annotated, Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import AbsolutePath, ResponseBody, doc, one_of
from holdfast.api.live import BackgroundJobShown
from holdfast.values import (
    Action,
    ApprovalMode,
    GrantOffer,
    Mode,
    OldMode,
    OnRestart,
    OutcomeKind,
    Part,
    WhenBusy,
)

NAME_CHARS_MAX = 256  # repeated in lists of runs and messages
COMMAND_CHARS_MAX = 16_384
SESSION_ID_CHARS_MAX = 256
ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


Tokens: TypeAlias = Annotated[
    int,
    msgspec.Meta(ge=1, le=10_000_000, description="Maximum tokens in one model answer."),
]
Effort: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern="^[a-z0-9]{1,16}$",
        description=(
            "Reasoning effort: none, minimal, low, medium, high, xhigh, max, or a token count for "
            "Anthropic models with a thinking budget. off sends no setting."
        ),
    ),
]
Temperature: TypeAlias = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=2, description="Not sent to endpoints that reject it, such as Anthropic's and Codex."
    ),
]
RawMessage: TypeAlias = Annotated[
    dict[str, Any],
    msgspec.Meta(
        extra_json_schema={
            "required": ["role", "content"],
            "properties": {
                "role": {
                    "type": "string",
                    "description": "user, assistant, system, developer or tool",
                    "enum": sorted(ROLES),
                },
                "content": {
                    "description": (
                        "Text, or a list of parts: text, image_url, input_image, file or input_file with "
                        "data: URLs, or {type, blob, media_type, name} with a name from POST /api/blobs."
                    ),
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
                },
            },
        }
    ),
]
ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
ShortCommand: TypeAlias = Annotated[str, msgspec.Meta(max_length=COMMAND_CHARS_MAX)]
OnDisconnect: TypeAlias = Literal["", "detach", "cancel"]
RawInput: TypeAlias = str | list[str | RawMessage]
SessionId: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "description": "1 to 256 printable characters except / and \\. A new id creates a session.",
            "pattern": r"^[ -.0-\[\]-~]+$",
            "maxLength": SESSION_ID_CHARS_MAX,
        }
    ),
]


class Reasoning(msgspec.Struct):
    """`reasoning` of the Responses API."""

    effort: Effort | None = None


class ModelOptions(msgspec.Struct, kw_only=True):
    """Sampling, length and effort, under every name that clients use."""

    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    max_output_tokens: Tokens | None = None
    reasoning_effort: Effort | None = None
    reasoning: Reasoning | None = None

    @property
    def effort(self) -> str:
        """Return the reasoning effort, or "" to leave it to the model."""
        return self.reasoning_effort or (self.reasoning.effort if self.reasoning else None) or ""


class HermesReasoning(msgspec.Struct):
    """`reasoning` of hermes' `model_options`."""

    enabled: bool = True
    effort: Effort | None = None


class HermesModelOptions(msgspec.Struct, forbid_unknown_fields=True):
    """hermes' options for one request. Its service tiers aren't supported."""

    reasoning: HermesReasoning | None = None
    reasoning_effort: Effort | None = None
    service_tier: Literal["", "auto", "default"] | None = None
    fast: Annotated[bool | None, msgspec.Meta(extra_json_schema={"enum": [False, None]})] = None

    @property
    def effort(self) -> str:
        """Return the reasoning effort, or "" to leave it to the model."""
        if self.reasoning is None:
            return self.reasoning_effort or ""
        return (self.reasoning.effort or self.reasoning_effort or "") if self.reasoning.enabled else "none"


class HistoryFunction(msgspec.Struct):
    """The function of a tool call in a history, with its arguments as JSON text."""

    name: ShortText
    arguments: str = ""


class HistoryCall(msgspec.Struct):
    """A tool call in a history, in the Chat Completions format."""

    id: ShortText
    function: HistoryFunction


class HistoryItem(msgspec.Struct):
    """A message in a history. `content` is text or a list of parts.

    An assistant message can have `tool_calls`; each result follows as a message with the role "tool" and the
    call's id. They are context for the model and aren't run.
    """

    role: str
    content: str | list[dict[str, Any]] | None
    tool_calls: list[HistoryCall] | None = None
    tool_call_id: ShortText | None = None


class BudgetRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A run's budget. 0 means the server's limit, which a request can't raise."""

    tokens: Annotated[int, doc("Maximum tokens, input and output.")] = 0
    cost_usd: Annotated[float, doc("Maximum cost in US dollars, for models with a known price.")] = 0.0
    turns: Annotated[int, doc("Maximum number of model answers.")] = 0
    minutes: Annotated[float, doc("Maximum minutes of work, excluding time spent waiting for people.")] = 0.0


class RunRequest(ModelOptions, kw_only=True):
    """The body of POST /v1/runs."""

    input: Annotated[RawInput | None, doc("The task: text, or messages ending with a user message.")] = None
    message: Annotated[RawInput | None, doc("Another name for input.")] = None
    command: Annotated[
        ShortCommand | None,
        doc(
            "Shell command to run in the sandbox, instead of a task for the model. Its output becomes part "
            "of the conversation. Needs the scope `approve`."
        ),
    ] = None
    parts: Annotated[list[Part], doc("Attachments, by their names from POST /api/blobs.")] = msgspec.field(
        default_factory=list[Part]
    )
    session_id: SessionId | None = None
    instructions: Annotated[str | None, doc("Instructions for the model, added to the server's.")] = None
    conversation_history: Annotated[
        list[HistoryItem] | None, doc("Replaces the session's history for this run.")
    ] = None
    previous_response_id: Annotated[str | None, doc("Response to continue from.")] = None
    model: Annotated[
        ShortText | None, doc("A target's name or model. Unknown values select the default.")
    ] = None
    provider: Annotated[
        ShortText | None,
        doc("hermes' name for a target. With `model`, the target must have that model."),
    ] = None
    model_options: Annotated[
        HermesModelOptions | None, doc("hermes' options: the reasoning effort of this run.")
    ] = None
    agent: Annotated[
        ShortText | None,
        doc("A named agent, whose instructions, tools, mode, model and budget the run gets."),
    ] = None
    metadata: Annotated[dict[str, Any] | None, doc("Stored and returned with the run. Up to 64 entries.")] = (
        None
    )
    workspace: Annotated[
        AbsolutePath | None,
        doc("Working directory for tools, as an absolute path. Default: the session's, or the server's."),
    ] = None
    when_busy: Annotated[WhenBusy, doc("How to handle another active run in the session.")] = "queue"
    budget: Annotated[
        BudgetRequest | None, doc("Limits for the run. Exceeding one ends it with the outcome budget.")
    ] = None
    on_restart: Annotated[
        Literal["", OnRestart] | None, doc("Whether the run resumes automatically after a restart.")
    ] = None
    on_disconnect: Annotated[
        OnDisconnect | None,
        doc("What happens when the last reader disconnects: detach (continue) or cancel."),
    ] = None
    origin: Annotated[
        str | None,
        doc(
            "Origin of a new session: page or chat (gets a generated title), run (hidden from the list), "
            "or api (anything else)."
        ),
    ] = None
    client_id: Annotated[ShortText | None, doc("Client-chosen message id, returned with the message.")] = None
    permission_mode: Annotated[
        Literal[ApprovalMode, OldMode] | None,
        doc("Sets the session's permission mode before the run. See PUT /api/sessions/{id}/approval-mode."),
    ] = None
    plan_first: Annotated[
        bool,
        doc("Plan mode: the run is read-only until a person accepts its plan, with or without changes."),
    ] = False
    goal: Annotated[
        bool,
        doc(
            "Goal mode: the run continues until the model shows evidence that the goal in `input` is "
            "reached, or its budget is used up."
        ),
    ] = False

    @property
    def effort(self) -> str:
        """Return the reasoning effort, or "" to leave it to the model."""
        return super().effort or (self.model_options.effort if self.model_options else "")


class StopRequest(msgspec.Struct):
    """The optional body of POST /v1/runs/{run_id}/stop."""

    reason: str | None = None


class SayRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/steer and /messages."""

    message: str | list[dict[str, Any]] | None = None
    text: str | None = None
    input: str | None = None
    mode: Literal["steer", "redirect", "queue"] = "steer"
    client_id: ShortText | None = None


class RetryRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/retry. `session_id` is for runs that a fork inherited."""

    session_id: str | None = None


class GateRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/gate."""

    action: Literal["try_now"]


class Started(ResponseBody, frozen=True):
    """The message is stored. The run is starting, queued, or the active one that the message steers."""

    run_id: str
    status: Literal["started", "steered"]
    session_id: str
    message_id: str


class Accepted(ResponseBody, frozen=True, tag_field="object", tag="hermes.run.steer"):
    """The message for an active run is stored.

    If the run is waiting, `waiting_for` is the reason, and `note` explains when the model reads the message.
    """

    run_id: str
    session_id: str
    message_id: str
    status: Annotated[str, one_of("accepted")]
    accepted: bool
    mode: Mode
    waiting_for: Literal["approval", "answer", "client"] | UnsetType = UNSET
    note: str | UnsetType = UNSET


class UsageShown(ResponseBody, frozen=True):
    """The usage of a run."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None = None


class ApprovalShown(ResponseBody, frozen=True):
    """An open approval: one exact action and all findings about it."""

    approval_id: str
    tool_call_id: str
    tool: str
    command: str
    description: str
    findings: tuple[str, ...]
    action: Action
    choices: tuple[Annotated[str, one_of("once", "session", "always", "deny")], ...]
    expires_at: float | None
    headline: str = ""
    offers: tuple[GrantOffer, ...] = ()
    once_because: str = ""


class QuestionShown(ResponseBody, frozen=True):
    """A question from a run."""

    question_id: str
    tool_call_id: str
    question: str
    choices: tuple[str, ...]
    expires_at: float | None


class ClientCallShown(ResponseBody, frozen=True):
    """A call to a client-supplied tool. Return its result with this id."""

    id: str
    tool: str
    args: dict[str, Any] = {}  # noqa: RUF012  # each struct gets its own


class ClientToolsShown(ResponseBody, frozen=True):
    """Pending tool calls for the client to run."""

    client_tools_id: str
    calls: tuple[ClientCallShown, ...] = ()
    expires_at: float | None = None


REFUSED_ACTIONS = "Number of actions denied for lack of approval."


STATUS_FILTERS = (
    *("queued", "running", "waiting_for_approval", "stopping", "ended"),
    *("completed", "failed", "interrupted", "cancelled"),
)


RunStatusShown: TypeAlias = Literal[
    "queued",
    "running",
    "waiting_for_approval",
    "waiting_for_client",
    "stopping",
    "completed",
    "failed",
    "interrupted",
    "cancelled",
]


class _RunHead(ResponseBody, frozen=True):
    run_id: str
    session_id: str
    status: Annotated[str, one_of(*get_args(RunStatusShown))]
    created_at: float
    updated_at: float
    model: str


class RunListed(_RunHead, frozen=True, tag_field="object", tag="hermes.run"):
    """A run in a list.

    For compatibility with hermes clients, the status of a run that waits for a person is always
    `waiting_for_approval`. `waiting_for` tells approvals from questions.
    """

    preview: str
    outcome: OutcomeKind | None = None
    queue_position: int = 0
    queue_reason: str = ""
    waiting_for: Literal["approval", "answer"] | None = None
    refused_actions: Annotated[int, doc(REFUSED_ACTIONS)] = 0


class RunChild(ResponseBody, frozen=True):
    """A sub-agent of the run. Without an outcome, it's active."""

    session_id: str
    run_id: str
    tool_call_id: str
    name: str
    background: bool = False
    outcome: OutcomeKind | None = None


class RunState(_RunHead, frozen=True, tag_field="object", tag="hermes.run"):
    """A run's state from its log. `waiting_for` is the reason for `waiting_for_approval`."""

    last_event: str
    last_event_id: int
    output: str = ""
    usage: UsageShown | None = None
    agent: Annotated[str, doc("The named agent of the run.")] = ""
    metadata: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    gated_until: float | None = None
    outcome: OutcomeKind | None = None
    finish_reason: str = ""
    cause: str = ""
    error: str = ""
    code: str = ""
    hint: str = ""
    approval: ApprovalShown | None = None
    question: QuestionShown | None = None
    client_tools: ClientToolsShown | None = None
    waiting_for: Literal["approval", "answer"] | None = None
    pending_approval_id: str = ""
    pending_clarify_id: str = ""
    refused_actions: Annotated[int, doc(REFUSED_ACTIONS)] = 0
    children: Annotated[tuple[RunChild, ...], doc("Sub-agents, oldest first.")] = ()
    children_usage: Annotated[
        UsageShown | None, doc("Usage of ended sub-agents, not included in the run's own.")
    ] = None


class RunShown(RunState, frozen=True, kw_only=True, tag_field="object", tag="hermes.run"):
    """A run's state from its log, plus its live state.

    Live state is its queue position, live line and background processes, known only to the server that runs
    it.
    """

    preview: str
    queue_position: int = 0
    queue_reason: str = ""
    mark: str = ""
    live: str = ""
    background: tuple[BackgroundJobShown, ...] = ()


class RunPage(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """A page of runs, newest first."""

    data: tuple[RunListed, ...]
    has_more: bool
    next_cursor: str | None


class RunEvents(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """Events of a run, for polling."""

    run_id: str
    cursor: int
    last_event_id: int
    events: tuple[dict[str, Any], ...]


class Stopping(ResponseBody, frozen=True):
    """The stop request is stored. The run ends when all its work has stopped."""

    run_id: str
    status: Literal["stopping"]


class GateTried(ResponseBody, frozen=True):
    """Whether the request ended the wait."""

    run_id: str
    status: Literal["trying", "tried"]
