"""The bodies of relayed requests, and of responses about files, targets and the server itself."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import ResponseBody, one_of
from holdfast.api.scopes import Scope

_Model: TypeAlias = Annotated[
    str, msgspec.Meta(min_length=1, description="A relayed model, as listed by GET /v1/models.")
]
_Message: TypeAlias = Annotated[
    dict[str, Any],
    msgspec.Meta(
        extra_json_schema={
            "required": ["role", "content"],
            "properties": {
                "role": {"enum": ["user", "assistant"]},
                "content": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "object"}}]},
            },
        }
    ),
]


class RelayBody(msgspec.Struct):
    """A request body of the provider's API. Every field is passed on."""

    model: _Model


class MessagesRequest(RelayBody):
    """A request body of Anthropic's Messages API. Every field is passed on."""

    messages: Annotated[
        list[_Message],
        msgspec.Meta(min_length=1, description="The last one is the user's. Content can be text or blocks."),
    ]


class BlobStored(ResponseBody, frozen=True):
    """The stored bytes; parts of messages refer to them by this name."""

    blob: str
    bytes: int
    media_type: str


class TargetShown(ResponseBody, frozen=True):
    """A target and its health, never its key; a wait of 0 is none."""

    name: str
    model: str
    wire: str
    context_window: int
    gated_ms: int
    silent_ms: int


class LearnedShown(ResponseBody, frozen=True):
    """How soon a target began to answer recent requests of one size, and how long Holdfast now waits."""

    input_tokens_min: int
    calls: int
    first_event_p95_s: float
    waits_s: float


class PatienceShown(ResponseBody, frozen=True):
    """How long a small request may be silent, in seconds, before it is cut; 0 is without limit.

    `first_event_why` is `default`, `configured`, `learned`, `usual`, `cap` or `ttfb_off`.
    """

    connect_s: float
    first_event_s: float
    first_event_why: str
    gap_s: float


class TargetFailed(ResponseBody, frozen=True):
    """A failed call to a target: its kind, and in words what happened and what to do."""

    kind: str
    text: str
    at: float | None = None


class TargetState(TargetShown, frozen=True, kw_only=True):
    """A target with everything that is known about it.

    `gated_ms` is how long its provider asked all calls to wait, and `silent_ms` how long until a target that
    didn't answer is tried again. What happened is known since the server started; what was learned is stored.
    """

    health: Annotated[str, one_of("ok", "waiting", "silent", "unreachable", "failing")] = ""
    gate_why: str = ""
    active_calls: int = 0
    waiting_calls: int = 0
    silent_times: int = 0
    patience: PatienceShown | None = None
    learned: tuple[LearnedShown, ...] = ()
    last_answer_at: float | None = None
    last_failure: TargetFailed | None = None


class TargetList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All targets, the default first."""

    data: tuple[TargetState, ...]


class TargetTried(ResponseBody, frozen=True):
    """What a tiny call to a target showed; `works` without an answer means that it was cut off or refused."""

    name: str
    works: bool
    ms: int
    first_ms: int | None = None
    failure: TargetFailed | None = None


class AuthShown(ResponseBody, frozen=True):
    """How to authenticate, and what the caller's key may do."""

    type: Literal["bearer"]
    required: bool
    scopes: tuple[Scope, ...]


class SandboxShown(ResponseBody, frozen=True):
    """What the commands of agents run in; `says` is one line for people."""

    backend: Literal["bubblewrap", "landlock", "none"]
    holds: bool
    network: Literal["off", "hosts", "on"]
    says: str


class Capabilities(ResponseBody, frozen=True, tag_field="object", tag="hermes.api_server.capabilities"):
    """What this server can do, in the form that hermes clients ask for."""

    platform: str
    implementation: Literal["holdfast"]
    version: str
    model: str
    auth: AuthShown
    runtime: dict[str, Any]
    features: dict[str, Any]
    endpoints: dict[str, dict[str, str]]
    sandbox: SandboxShown | None = None


class HealthShown(ResponseBody, frozen=True):
    """The server is alive; `warning` says what runs short, if anything."""

    status: Annotated[str, one_of("ok")]
    # A client asks servers of any version, so these may be missing; this server always sends them.
    version: str = ""
    platform: Annotated[str, one_of("holdfast")] = ""
    warning: str = ""


class StoreHealth(ResponseBody, frozen=True):
    """Whether the store accepts writes, and how long one takes to reach the disk."""

    writable: bool
    late: bool
    error: str | UnsetType = UNSET
    write_ms: float | UnsetType = UNSET
    lost: str | UnsetType = UNSET  # what a database lost within the last day that it had confirmed
    blobs: str | UnsetType = UNSET  # why some blobs can't be read, or aren't in the bucket for large ones


class OpenFilesShown(ResponseBody, frozen=True):
    """How many files and sockets the process has open."""

    used: int
    allowed: int
    connections: int


class DiskShown(ResponseBody, frozen=True):
    """How much space the data directory's disk has."""

    free_bytes: int
    total_bytes: int


class ChannelHealth(ResponseBody, frozen=True):
    """Whether a chat platform works."""

    name: str
    state: Annotated[str, one_of("connected", "failed", "starting", "off", "not_configured")]
    problem: str = ""
    hint: str = ""
    undelivered: int = 0
    given_up: int = 0  # deliveries of which nobody knows whether they arrived
    rejected: int = 0


class FailingTask(ResponseBody, frozen=True):
    """A background task that has failed recently; Holdfast restarts it."""

    name: str
    error: str


class DetailedHealth(ResponseBody, frozen=True):
    """The server's health in detail."""

    status: Literal["ok", "degraded"]
    version: str
    store: StoreHealth
    active_sessions: int
    waiting_sessions: int
    open_streams: int
    event_loop_lag_ms: float
    event_loop_lag_worst_ms: float
    draining: bool
    targets: tuple[TargetShown, ...]
    open_files: OpenFilesShown
    warning: str = ""
    disk: DiskShown | None = None
    sandbox: SandboxShown | None = None
    channels: tuple[ChannelHealth, ...] = ()
    failing_tasks: tuple[FailingTask, ...] = ()
