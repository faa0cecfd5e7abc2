"""The values that events are made of: parts of messages, settings of runs, failures, actions."""

from typing import Annotated, Literal, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

Number = TypeVar("Number", int, float)
# The name of a blob that an event keeps.
BlobRef: TypeAlias = Annotated[str, "blob"]

# Where a session comes from, as `session.created` says it: people chat on the page and in the terminal.
PAGE, CHAT, ONE_SHOT, OPENAI, RELAY = "page", "chat", "run", "openai", "relay"
CHANNEL = "channel"
AUTOMATION = "automation"  # a session that a trigger began
EVERY_SOURCE = "*"  # in settings: all sources of conversations that have no setting themselves
CHILD = "child"  # the session of a sub-agent, which is listed under its parent
COMPACT = "/compact"  # how the message of a compaction begins; what follows is what to keep
COMMAND_MARK = "!"  # how the message of a command that a person typed begins
COMMAND_CALL = "typed-"  # how the id of its tool call begins
PARENT_STOPPED, PARENT_GONE = "parent_stopped", "parent_gone"  # why a sub-agent is cancelled
NOT_CREATED = "not_created"  # the cause of a sub-agent's ending that never began
NO_TOOLS = ("none",)  # for RunSettings.tools, where an empty list means all of them
# A call of these only waits for sub-agents: meanwhile its run holds no slot and has nothing in flight.
WAITING_TOOLS = frozenset({"delegate", "child_wait"})
OUTPUT_INVALID = "output_invalid"  # the cause of a failed run whose answer fits no schema
PEOPLE_SOURCES = frozenset({PAGE, CHAT})
RECALLED_SOURCES = frozenset({*PEOPLE_SOURCES, ONE_SHOT, "api"})  # the conversations that an agent can recall

# The permission modes, strictest first: what runs without a person in one also runs in those after it.
ApprovalMode: TypeAlias = Literal["plan", "unattended", "ask", "edits", "workspace"]
OldMode: TypeAlias = Literal["allow-workspace"]  # an earlier name of `workspace`
MODES: tuple[ApprovalMode, ...] = get_args(ApprovalMode)
WORKSPACE_MODES = frozenset[str]({"edits", "workspace"})  # they apply in the workspace they were set for
AskState: TypeAlias = Literal["open", "answered", "expired", "withdrawn"]
Choice: TypeAlias = Literal["once", "session", "always", "deny"]
Width: TypeAlias = Literal["exact", "similar"]
CallFinish: TypeAlias = Literal["stop", "tools", "length", "too_long", "refused", "failed", "redirected"]
CallPurpose: TypeAlias = Literal["answer", "compaction", "title"]
CloseReason: TypeAlias = Literal[
    "ttfb_kill", "stream_idle_kill", "upload_kill", "connect_kill", "cancel", "peer", "done"
]
Durability: TypeAlias = Literal["power", "process"]  # what an event survives: a power cut, or a crash alone
FailureKind: TypeAlias = Literal[
    "cancelled",
    "local_bug",
    "bad_request",
    "payload_too_large",
    "model_missing",
    "content_refused",
    "auth",
    "entitlement",
    "quota_exhausted",
    "rate_limited",
    "overloaded",
    "server_error",
    "connect_failed",
    "upload_stalled",
    "no_first_event",
    "stalled",
    "dropped",
    "malformed",
    "tls_untrusted",
    "overflow_input",
    "overflow_output",
    "truncated",
    "empty",
    "unknown",
]
MemoryMode: TypeAlias = Literal["ask", "auto", "off"]
Mode: TypeAlias = Literal["send", "queue", "steer", "redirect"]
OnExpiry: TypeAlias = Literal["continue", "stop"]
OnRestart: TypeAlias = Literal["resume", "interrupt"]
RelayKeep: TypeAlias = Literal["usage", "all", "none"]  # what is stored of relayed calls
OutcomeKind: TypeAlias = Literal[
    "completed", "refused", "truncated", "budget", "failed", "cancelled", "interrupted"
]
PlanStepState: TypeAlias = Literal["pending", "in_progress", "completed"]
RunPurpose: TypeAlias = Literal["answer", "compaction", "command"]
ToolOwner: TypeAlias = Literal["holdfast", "client"]  # of a tool: it runs the calls
ToolEnding: TypeAlias = Literal[
    "finished", "not_started", "killed", "unknown", "detached", "denied", "expired", "no_approver"
]
WhenBusy: TypeAlias = Literal["queue", "steer", "redirect", "reject"]


class LogEnd(NamedTuple):
    """Which log a session has, and how far it goes: after a purge, the same id may name another log."""

    epoch: str
    last_seq: int


class TextPart(msgspec.Struct, frozen=True, tag="text", tag_field="kind"):
    """A stretch of text inside a message."""

    text: str


class ImagePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="image", tag_field="kind"):
    """An image, kept as a blob."""

    blob: str
    media_type: str
    name: str = ""


class FilePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="file", tag_field="kind"):
    """A file that a person attached, kept as a blob."""

    blob: str
    media_type: str
    name: str


class SavedFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An attached file in the workspace; without a `path` it isn't there, and `why` says why."""

    blob: str
    name: str
    media_type: str
    bytes: int
    path: str = ""  # relative to the workspace
    why: str = ""
    head: str = ""  # how a long text begins


class TrimmedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool result that was removed from what the model sees, and how long it was."""

    run_id: str
    tool_call_id: str
    chars: int = 0


Part: TypeAlias = TextPart | ImagePart | FilePart


class HistoryToolCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool call in a history that a client sent along; `arguments` is the text as it came."""

    tool_call_id: str
    name: str
    arguments: str = ""


class HistoryMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One message of a history that a client sent along, as it came."""

    role: str
    content: str
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[HistoryToolCall, ...] = ()
    tool_call_id: str = ""  # of the call that a message of role "tool" is the result of


STEPS_MAX = 50
STEP_CHARS_MAX = 500


class PlanStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a plan."""

    text: str
    state: PlanStepState = "pending"


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run's budget; 0 means no limit."""

    tokens: int = 0
    cost_usd: float = 0.0
    turns: int = 0
    minutes: float = 0.0

    def within(self, other: "Budget") -> "Budget":
        """The smaller of both, field by field."""
        return Budget(
            tokens=_smaller(self.tokens, other.tokens),
            cost_usd=_smaller(self.cost_usd, other.cost_usd),
            turns=_smaller(self.turns, other.turns),
            minutes=_smaller(self.minutes, other.minutes),
        )


def _smaller(one: Number, other: Number) -> Number:
    return min(one, other) or max(one, other)


class ParentLink(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose sub-agent a session is: the parent's session and run, and the tool call that made it.

    `depth` is 1 for the sub-agent of a session that is no sub-agent itself. `home` is where the parent's
    files are, so the sub-agent works there too.
    """

    session_id: str
    run_id: str
    tool_call_id: str
    name: str
    depth: int = 1
    background: bool = False
    home: str = ""


class ChildUsage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A sub-agent's usage, including its own sub-agents. `cost_usd` covers calls with a known price."""

    input_tokens: int = 0
    output_tokens: int = 0
    turns: int = 0
    cost_usd: float = 0.0


class OutputFormat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The form that the answer must have: JSON that fits `schema`; an empty schema means any JSON object.

    `strict` asks the provider to keep to the schema token by token, which not every schema allows.
    """

    name: str = "output"
    description: str = ""
    schema: dict[str, object] = {}
    strict: bool = False


class ClientTool(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool that the client brings and runs itself; `schema` is JSON Schema of an object."""

    name: str
    description: str = ""
    schema: dict[str, object] = {}


class ClientToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a client's own tool for one call."""

    tool_call_id: str
    text: str
    parts: tuple[Part, ...] = ()


class SentFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file that the agent hands to the person in the chat."""

    blob: str
    name: str
    media_type: str
    caption: str = ""


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The caller's settings for this run. Empty means the server's setting."""

    model: str = ""
    instructions: str = ""
    workspace: str = ""
    budget: Budget | None = None
    temperature: float | None = None
    max_output_tokens: int = 0  # of one answer of the model; 0 is as many as it gives
    reasoning_effort: str = ""
    on_restart: Literal["", OnRestart] = ""
    on_disconnect: Literal["", "detach", "cancel"] = ""
    metadata: dict[str, str] = {}
    output: OutputFormat | None = None  # None: free text
    sampling: dict[str, object] = {}  # top_p, stop and the like, as OpenAI names them
    client_tools: tuple[ClientTool, ...] = ()
    tool_choice: str = ""  # of the first call: "none", "required", the name of a tool, or empty for any
    no_questions: bool = False  # the caller can't answer questions of the model
    tools: tuple[
        str, ...
    ] = ()  # the names of tools that the run may use, of those that there are; empty: all
    unattended: bool = False  # anything that needs approval is denied, because it's unattended
    offline: bool = False  # tools must not use the network
    client: str = ""  # the API key that brought the client tools, and alone may return their results
    # A compaction only summarizes the conversation. A command runs without a model.
    purpose: RunPurpose = "answer"
    command: str = ""  # what a person typed, to run it in the sandbox
    takes_files: bool = False  # the caller's chat can show files that the agent sends
    plan_first: bool = False  # only reading tools until a person accepts the plan
    goal: bool = False  # the message is a goal: the run continues until the model proves that it's reached
    prompt: Literal["", "none"] = ""  # none: without the server's base prompt and environment
    agent: str = ""  # the named agent whose settings are among these
    mode: Literal["", ApprovalMode] = ""  # the loosest permission mode that the run works in


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt, a call or a run did not succeed, as a person and a program can use it."""

    kind: FailureKind
    text: str
    rule: str = ""
    status: int = 0
    code: str = ""
    hint: str = ""


class Outcome(NamedTuple):
    """How a run ended; becomes its run.ended."""

    kind: OutcomeKind
    cause: str = ""
    failure: Failure | None = None
    trace: tuple[str, ...] = ()


class Lift(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The sandbox restrictions that an approval lifts for one command. Empty means none."""

    hosts: tuple[str, ...] = ()  # these hosts, through the proxy
    network: bool = False  # every host
    write: tuple[str, ...] = ()  # these paths, protected ones included
    read: tuple[str, ...] = ()  # these paths, secret ones included
    everything: bool = False  # no sandbox at all


class Action(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The one exact thing that an approval is about."""

    tool: str
    summary: str
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    host: str = ""
    diff: str = ""
    digest: str = ""
    lift: Lift = Lift()
    definition: str = ""  # the digest of what a server says that its tool does
    reason: str = ""  # the agent's own, shown beside the action and never as part of it
    background: bool = False  # whether it keeps running when its call has ended
    shortfall: str = ""  # what the sandbox can't keep this command from, in this workspace, as sentences


class GrantRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A structured rule: which actions need no further question.

    An exact one covers the command that it names. A similar one names a program and subcommand, and covers
    them with harmless options and with paths in the workspace. One for a tool of a server covers it as long
    as the server describes it in the same way.
    """

    tool: str
    argv: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    host: str = ""
    width: Width = "exact"
    lift: Lift = Lift()
    definition: str = ""


class GrantOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule that "session" or "always" can store, with an action that it covers and one that still asks."""

    rule: GrantRule
    covers: str
    asks: str


class Undo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An undo or, with `redoes`, a redo: the changes to the workspace.

    `runs` are undone (or redone) as a whole. `plan` lists the exact files, and `digest` is that plan's
    SHA-256. `snapshot` has these files, before and after.
    """

    undo_id: str
    run_id: str
    workspace: str
    files: int
    digest: str
    plan: str
    snapshot: str = ""
    runs: tuple[str, ...] = ()
    redoes: str = ""
    keeps_log: bool = False  # only files are put back
    turns: int = 0  # runs that leave the conversation, with or without changed files
    by: str = ""


def mode_named(name: Literal["", ApprovalMode, OldMode]) -> Literal["", ApprovalMode]:
    """Return the mode with this name, current or old; empty stays empty."""
    return "workspace" if name == "allow-workspace" else name


def asks_less(mode: ApprovalMode, than: ApprovalMode) -> bool:
    """Return whether more runs without a person in the first mode than in the second."""
    return MODES.index(mode) > MODES.index(than)


def strictest(*modes: ApprovalMode) -> ApprovalMode:
    """Return the mode in which the least runs without a person."""
    return min(modes, key=MODES.index)
