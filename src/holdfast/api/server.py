"""The bodies of responses about files, targets and the server itself."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, UnsetType

from holdfast.api.body import ResponseBody, one_of
from holdfast.api.scopes import Scope


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


class TargetList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All targets, the default first."""

    data: tuple[TargetShown, ...]


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


class OpenFilesShown(ResponseBody, frozen=True):
    """How many files and sockets the process has open."""

    used: int
    allowed: int
    connections: int


class DiskShown(ResponseBody, frozen=True):
    """How much space the data directory's disk has."""

    free_bytes: int
    total_bytes: int


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
