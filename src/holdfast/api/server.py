"""Bodies for blobs, targets and server status."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.api.body import ALWAYS_TRUE, ResponseBody, one_of
from holdfast.api.operation import Scope
from holdfast.values import MODES


class BlobStored(ResponseBody, frozen=True):
    """The stored blob. Refer to it by name in message parts."""

    blob: str
    bytes: int
    media_type: str


class TargetShown(ResponseBody, frozen=True):
    """A target and its health, without its key. A wait of 0 means none."""

    name: str
    model: str
    wire: str
    context_window: int
    gated_ms: int
    silent_ms: int


class LearnedShown(ResponseBody, frozen=True):
    """A target's recent time to first event for one request size, and the timeout derived from it."""

    input_tokens_min: int
    calls: int
    first_event_p95_s: float
    waits_s: float


class PatienceShown(ResponseBody, frozen=True):
    """Timeouts of a small request in seconds; 0 means no limit.

    `first_event_why` is `default`, `configured`, `learned`, `usual`, `cap` or `ttfb_off`.
    """

    connect_s: float
    first_event_s: float
    first_event_why: str
    gap_s: float


class TargetFailed(ResponseBody, frozen=True):
    """A failed call to a target: its kind, and a description with a hint."""

    kind: str
    text: str
    at: float | None = None


class TargetState(TargetShown, frozen=True, kw_only=True):
    """A target with its full state.

    `gated_ms` is the remaining wait requested by the provider, and `silent_ms` the time until an unresponsive
    target is retried. Call history is since the server started; learned timings are stored.
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
    """All targets, default first."""

    data: tuple[TargetState, ...]


class TargetTried(ResponseBody, frozen=True):
    """The result of a test call. `works` without an answer means that it was cut off or refused."""

    name: str
    works: bool
    ms: int
    first_ms: int | None = None
    failure: TargetFailed | None = None


class AuthShown(ResponseBody, frozen=True):
    """How to authenticate, and the scopes of the caller's key."""

    type: Literal["bearer"]
    required: bool
    scopes: tuple[Scope, ...]


class SandboxShown(ResponseBody, frozen=True):
    """The sandbox for commands. `says` is a one-line description."""

    backend: Literal["bubblewrap", "landlock", "none"]
    holds: bool
    network: Literal["off", "hosts", "on"]
    says: str


class PermissionModesShown(ResponseBody, frozen=True):
    """The configured permission mode, and the modes that the caller can set, strictest first."""

    mode: Annotated[str, one_of(*MODES)]
    allowed: tuple[Annotated[str, one_of(*MODES)], ...]


class Capabilities(ResponseBody, frozen=True, tag_field="object", tag="hermes.api_server.capabilities"):
    """The server's capabilities, in hermes format."""

    platform: str
    implementation: Literal["holdfast"]
    version: str
    model: str
    auth: AuthShown
    runtime: dict[str, Any]
    features: dict[str, Any]
    endpoints: dict[str, dict[str, str]]
    sandbox: SandboxShown | None = None
    permission_modes: PermissionModesShown | None = None


class HealthShown(ResponseBody, frozen=True):
    """The server is alive. `warning` names a resource that is running low."""

    status: Annotated[str, one_of("ok")]
    # Optional because older servers don't send them; this server always does.
    version: str = ""
    platform: Annotated[str, one_of("holdfast")] = ""
    warning: str = ""


class StoreHealth(ResponseBody, frozen=True):
    """Whether the store accepts writes, and its write latency."""

    writable: bool
    late: bool
    error: str | UnsetType = UNSET
    write_ms: float | UnsetType = UNSET
    lost: str | UnsetType = UNSET  # confirmed writes that a database lost within the last day
    blobs: str | UnsetType = UNSET  # why some blobs are unreadable or missing from the bucket


class OpenFilesShown(ResponseBody, frozen=True):
    """Open files and sockets of the process."""

    used: int
    allowed: int
    connections: int


class DiskShown(ResponseBody, frozen=True):
    """Disk space of the data directory."""

    free_bytes: int
    total_bytes: int


class ChannelHealth(ResponseBody, frozen=True):
    """The status of a channel."""

    name: str
    state: Annotated[str, one_of("connected", "failed", "starting", "off", "not_configured")]
    problem: str = ""
    hint: str = ""
    undelivered: int = 0
    given_up: int = 0  # unconfirmed deliveries
    rejected: int = 0


class ReadinessCheck(ResponseBody, frozen=True):
    """One of hermes' readiness checks, with its numbers."""

    status: Literal["ok", "degraded"]
    state: str = ""
    used_percent: float | None = None
    free_bytes: int | None = None
    active_api_runs: int | None = None


class ReadinessShown(ResponseBody, frozen=True):
    """The server's readiness, in hermes format."""

    status: Literal["ok", "degraded"]
    checks: dict[str, ReadinessCheck]


class FailingTask(ResponseBody, frozen=True):
    """A background task that failed recently and was restarted."""

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
    readiness: ReadinessShown | None = None
    gateway_state: Annotated[str, one_of("starting", "running", "draining")] = ""
    active_agents: int | None = None
    failing_tasks: tuple[FailingTask, ...] = ()


class QuarantineEntry(ResponseBody, frozen=True, kw_only=True):
    """A file or folder in quarantine. Bytes in paths that aren't UTF-8 are shown as numbers."""

    id: str
    path: Annotated[str, msgspec.Meta(description="Its original path, used to restore it.")]
    kept: Annotated[str, msgspec.Meta(description="Its path in quarantine.")]
    taken_at: Annotated[float, msgspec.Meta(description="When it was quarantined, in seconds of Unix time.")]


class QuarantineList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """Quarantined files, newest first."""

    data: tuple[QuarantineEntry, ...]
    has_more: Annotated[bool, msgspec.Meta(description="Whether the list is incomplete.")] = False


class QuarantineRestored(ResponseBody, frozen=True):
    """The file is restored. Any file it replaced is now in quarantine, under the same id."""

    id: str
    path: str
    restored: Annotated[bool, ALWAYS_TRUE]


class QuarantineDeleted(ResponseBody, frozen=True):
    """The file is permanently deleted."""

    id: str
    deleted: Annotated[bool, ALWAYS_TRUE]
