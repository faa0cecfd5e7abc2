"""The bodies of requests and responses about runs."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import AbsolutePath, ResponseBody, one_of
from holdfast.api.errors import ErrorDetail
from holdfast.api.live import BackgroundJobShown
from holdfast.values import Action, GrantOffer, Mode, OnRestart, OutcomeKind, Part, WhenBusy

NAME_CHARS_MAX = 256  # lists of runs and messages repeat them
SESSION_ID_CHARS_MAX = 256
ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})


def _says(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


Tokens: TypeAlias = Annotated[
    int,
    msgspec.Meta(ge=1, le=10_000_000, description="The most tokens that one answer of the model may have."),
]
Effort: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        pattern="^[a-z0-9]{1,16}$",
        description=(
            "How much the model thinks: none, minimal, low, medium, high, xhigh, max, or a number of tokens "
            "for Anthropic models that take a budget; off tells the model nothing about it."
        ),
    ),
]
Temperature: TypeAlias = Annotated[
    float,
    msgspec.Meta(
        ge=0, le=2, description="Not sent to endpoints that refuse it, such as Anthropic's own and Codex."
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
                        "Text, or a list of parts: text, image_url, input_image, file, input_file with data: "
                        "URLs, or {type, blob, media_type, name} with a name of POST /api/blobs."
                    ),
                    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}],
                },
            },
        }
    ),
]
ShortText: TypeAlias = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]
OnDisconnect: TypeAlias = Literal["", "detach", "cancel"]
RawInput: TypeAlias = str | list[str | RawMessage]
SessionId: TypeAlias = Annotated[
    str,
    msgspec.Meta(
        extra_json_schema={
            "description": "1 to 256 printable characters without / and \\; a new one makes a new session.",
            "pattern": r"^[ -.0-\[\]-~]+$",
            "maxLength": SESSION_ID_CHARS_MAX,
        }
    ),
]


class Reasoning(msgspec.Struct):
    """`reasoning` as the Responses API has it."""

    effort: Effort | None = None


class ModelOptions(msgspec.Struct, kw_only=True):
    """Sampling, length and effort, in all the names that clients have for them."""

    temperature: Temperature | None = None
    max_tokens: Tokens | None = None
    max_completion_tokens: Tokens | None = None
    max_output_tokens: Tokens | None = None
    reasoning_effort: Effort | None = None
    reasoning: Reasoning | None = None

    @property
    def effort(self) -> str:
        """How much the model should think; empty leaves it to the model."""
        return self.reasoning_effort or (self.reasoning.effort if self.reasoning else None) or ""


class HistoryFunction(msgspec.Struct):
    """The function that a tool call of a history named, and its arguments as JSON text."""

    name: ShortText
    arguments: str = ""


class HistoryCall(msgspec.Struct):
    """A tool call of a history, as Chat Completions has it."""

    id: ShortText
    function: HistoryFunction


class HistoryItem(msgspec.Struct):
    """One message of a history as clients write it; `content` is text or a list of parts.

    An assistant message may have `tool_calls`, and each result follows with the role "tool" and the id of its
    call. They are context for the model, and nothing is run because of them.
    """

    role: str
    content: str | list[dict[str, Any]] | None
    tool_calls: list[HistoryCall] | None = None
    tool_call_id: ShortText | None = None


class BudgetRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a run may use up; 0 means the server's own limit, which a request can't raise."""

    tokens: Annotated[int, _says("Most tokens, read and written.")] = 0
    cost_usd: Annotated[float, _says("Most dollars, as far as the price is known.")] = 0.0
    turns: Annotated[int, _says("Most answers of the model.")] = 0
    minutes: Annotated[float, _says("Most minutes of work, without waiting for people.")] = 0.0


class RunRequest(ModelOptions, kw_only=True):
    """The body of POST /v1/runs."""

    input: Annotated[
        RawInput | None, _says("What the run is to do: text, or messages, of which the last is the user's.")
    ] = None
    message: Annotated[RawInput | None, _says("Another name for input.")] = None
    parts: Annotated[list[Part], _says("Attachments, by their names of POST /api/blobs.")] = msgspec.field(
        default_factory=list[Part]
    )
    session_id: SessionId | None = None
    instructions: Annotated[
        str | None, _says("Instructions for the model, in addition to the server's own.")
    ] = None
    conversation_history: Annotated[
        list[HistoryItem] | None, _says("Replaces the session's history for this run.")
    ] = None
    previous_response_id: Annotated[str | None, _says("Continue after this response.")] = None
    model: Annotated[
        ShortText | None, _says("A target's name or model; an unknown one means the default.")
    ] = None
    metadata: Annotated[
        dict[str, Any] | None, _says("Stored with the run and shown with it; at most 64 entries.")
    ] = None
    workspace: Annotated[
        AbsolutePath | None,
        _says(
            "The folder that tools work in, as an absolute path. By default the one that the session was "
            "created with, or else the server's."
        ),
    ] = None
    when_busy: Annotated[WhenBusy, _says("What to do while another run has the session.")] = "queue"
    budget: Annotated[
        BudgetRequest | None, _says("What the run may use up; it ends with outcome budget.")
    ] = None
    on_restart: Annotated[
        Literal["", OnRestart] | None, _says("Whether the run continues by itself after a restart.")
    ] = None
    on_disconnect: Annotated[
        OnDisconnect | None, _says("Whether the run ends when its last reader leaves: detach or cancel.")
    ] = None
    origin: Annotated[
        str | None,
        _says(
            "What begins the session: page or chat (a model gives it a title), run (not listed with the "
            "others); anything else means api."
        ),
    ] = None
    client_id: Annotated[ShortText | None, _says("The client's own id of the message, returned with it.")] = (
        None
    )
    plan_first: Annotated[
        bool, _says("Plan mode: the run may only read until a person accepts its plan, perhaps changed.")
    ] = False
    goal: Annotated[
        bool,
        _says(
            "The input is a goal: the run goes on by itself until the model shows with evidence that it is "
            "reached, or its budget is used up."
        ),
    ] = False


class SessionChatRequest(RunRequest, kw_only=True):
    """The body of POST /api/sessions/{session_id}/chat and /chat/stream."""

    system_message: Annotated[str | None, msgspec.Meta(description="Another name for instructions.")] = None


class StopRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/stop; it is optional."""

    reason: str | None = None


class SayRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/steer and /messages."""

    message: str | list[dict[str, Any]] | None = None
    text: str | None = None
    input: str | None = None
    mode: Literal["steer", "redirect", "queue"] = "steer"
    client_id: ShortText | None = None


class RetryRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/retry; a fork inherits its runs from another session."""

    session_id: str | None = None


class GateRequest(msgspec.Struct):
    """The body of POST /v1/runs/{run_id}/gate."""

    action: Literal["try_now"]


class Started(ResponseBody, frozen=True):
    """The message is on disk; this is its run, which starts, waits, or is the active one that it steers."""

    run_id: str
    status: Literal["started", "steered"]
    session_id: str
    message_id: str


class Accepted(ResponseBody, frozen=True):
    """A message for an active run is on disk.

    If the run waits for someone, `waiting_for` says for what, and `note` when the model gets the message.
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
    """What a run used."""

    input_tokens: int
    output_tokens: int
    total_tokens: int
    cost_usd: float | None = None


class ApprovalShown(ResponseBody, frozen=True):
    """An open approval: one exact action and everything that was found in it."""

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
    """A question that a run asks."""

    question_id: str
    tool_call_id: str
    question: str
    choices: tuple[str, ...]
    expires_at: float | None


class ClientCallShown(ResponseBody, frozen=True):
    """A call of a tool that the client brought; its result is returned with this id."""

    id: str
    tool: str
    args: dict[str, Any] = {}  # noqa: RUF012  # each struct gets its own


class ClientToolsShown(ResponseBody, frozen=True):
    """The calls that a run waits for its client to run."""

    client_tools_id: str
    calls: tuple[ClientCallShown, ...] = ()
    expires_at: float | None = None


REFUSED_ACTIONS = "How many actions were not done because nobody allowed them."


STATUS_FILTERS = (
    *("queued", "running", "waiting_for_approval", "stopping", "ended"),
    *("completed", "failed", "interrupted", "cancelled"),
)


class _RunHead(ResponseBody, frozen=True):
    run_id: str
    session_id: str
    status: Annotated[
        str,
        one_of(
            "queued",
            "running",
            "waiting_for_approval",
            "waiting_for_client",
            "stopping",
            "completed",
            "failed",
            "interrupted",
            "cancelled",
        ),
    ]
    created_at: float
    updated_at: float
    model: str


class RunListed(_RunHead, frozen=True, tag_field="object", tag="hermes.run"):
    """A run as the list shows it.

    The status of a run that waits for a person is always `waiting_for_approval`, as hermes clients know it;
    `waiting_for` says whether it waits for an approval or for the answer to a question.
    """

    preview: str
    outcome: OutcomeKind | None = None
    queue_position: int = 0
    queue_reason: str = ""
    waiting_for: Literal["approval", "answer"] | None = None
    refused_actions: Annotated[int, _says(REFUSED_ACTIONS)] = 0


class RunChild(ResponseBody, frozen=True):
    """A sub-agent of the run; without an outcome, it works."""

    session_id: str
    run_id: str
    tool_call_id: str
    name: str
    background: bool = False
    outcome: OutcomeKind | None = None


class RunState(_RunHead, frozen=True, tag_field="object", tag="hermes.run"):
    """A run as its log shows it; `waiting_for` says what a run with `waiting_for_approval` waits for."""

    last_event: str
    last_event_id: int
    output: str = ""
    usage: UsageShown | None = None
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
    refused_actions: Annotated[int, _says(REFUSED_ACTIONS)] = 0
    children: Annotated[tuple[RunChild, ...], _says("Its sub-agents, oldest first.")] = ()
    children_usage: Annotated[
        UsageShown | None, _says("What those that ended used, in addition to the run itself.")
    ] = None


class RunShown(RunState, frozen=True, kw_only=True, tag_field="object", tag="hermes.run"):
    """A run as its log shows it, and what only the server that works on it knows.

    That is its place in the queue, its live line, and the processes that it left running in the background.
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
    """The stop is on disk; the run ends once nothing of it is running."""

    run_id: str
    status: Literal["stopping"]


class GateTried(ResponseBody, frozen=True):
    """Whether this ended the wait."""

    run_id: str
    status: Literal["trying", "tried"]


class AssistantSaid(ResponseBody, frozen=True):
    """What the model said."""

    role: Literal["assistant"]
    content: str


class SessionChatCompletion(
    ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"
):
    """The answer to a message of a session."""

    session_id: str
    run_id: str
    status: Literal["completed"]
    message: AssistantSaid
    usage: UsageShown


class SessionChatFailed(ResponseBody, frozen=True, tag_field="object", tag="hermes.session.chat.completion"):
    """A message of a session whose run gave no complete answer."""

    session_id: str
    run_id: str
    status: str
    error: ErrorDetail
    output: str
