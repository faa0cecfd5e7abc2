"""The options of a server: who has access, from where, and all limits."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct, field

from holdfast.api.live import BackgroundJobShown, BackgroundOutput
from holdfast.api.server import SandboxShown, TargetState, TargetTried
from holdfast.config.server import KeySettings, LimitSettings
from holdfast.events import Event
from holdfast.server.transport.open_files import OpenFiles
from holdfast.targets import Target
from holdfast.values import OPENAI, RELAY, ApprovalMode

if TYPE_CHECKING:  # commands that only read keys load these options too, and need no HTTP client
    from holdfast.interfaces.feature import Upkeep
    from holdfast.models.call_deps import CallDeps
    from holdfast.server.image_urls import ImageUrls


MEBIBYTE = 1024 * 1024
MONTH_S = 30 * 86_400.0

TryNow: TypeAlias = Callable[[str], Awaitable[bool]]
DescribeJobs: TypeAlias = Callable[[str], Sequence[BackgroundJobShown]]
# Of the session, the process with this id; None if there is none.
ReadJob: TypeAlias = Callable[[str, str], Awaitable[BackgroundOutput | None]]
DescribeTargets: TypeAlias = Callable[[], Awaitable[Sequence[TargetState]]]
# Calls a target once; the events of the call go to the function. None if there is no such target.
TryTarget: TypeAlias = Callable[[str, Callable[[Event], None]], Awaitable[TargetTried | None]]


def _no_jobs(session_id: str) -> Sequence[BackgroundJobShown]:
    del session_id
    return ()


async def _no_job(session_id: str, job_id: str) -> BackgroundOutput | None:
    del session_id, job_id
    return None


async def _no_targets() -> Sequence[TargetState]:
    return ()


async def _no_target(name: str, heard: Callable[[Event], None]) -> None:
    del name, heard


class ApiKey(Struct, frozen=True):
    """An API key and its name."""

    name: str
    secret: str
    source: Literal["configured", "made"] = (
        "configured"  # made: created at the first start, and stored in a file
    )

    def __repr__(self) -> str:
        """The secret stays out of logs and tracebacks."""
        return f"ApiKey({self.name!r})"


class Limits(LimitSettings, frozen=True, kw_only=True):
    """Limits on what one client may send or hold: those of the settings, and those that have none."""

    blob_bytes_max: int = 25 * MEBIBYTE
    relayed_bytes_max: int = 32 * MEBIBYTE  # the body of a model call that is relayed
    hook_bytes_max: int = MEBIBYTE  # one delivery to a webhook
    hook_s: float = 10.0  # how long it may take to arrive
    hooks_at_once: int = 8  # deliveries of one address that are being read
    hook_per_minute: int = 120  # signed deliveries to one hook
    json_brackets_max: int = 100_000  # lists and objects in one body
    json_values_max: int = 100_000  # strings, and values between commas, in one body
    header_bytes_max: int = 64 * 1024
    headers_max: int = 200
    pipelined_max: int = 32  # requests that a connection may send before their responses
    unauthenticated_grace_s: float = 1.0  # how long a connection can stay without one, however many there are
    unauthenticated_bytes_max: int = 4 * MEBIBYTE  # headers and bodies of all such connections together
    body_total_s: float = 120.0  # how long a whole body may take
    keep_alive_s: float = 5.0  # how long a connection may wait for its next request
    unread_s: float = 300.0  # how long a client may read nothing
    going_s: float = 3.0  # how long active responses may take during a shutdown
    heartbeat_s: float = 15.0
    live_after_s: float = 3.0
    live_every_s: float = 1.0
    undelete_s: float = 60.0
    # By source. Plain OpenAI clients and the relay start a session with each request.
    sessions_kept_s: Mapping[str, float] = field(default_factory=lambda: {OPENAI: MONTH_S, RELAY: MONTH_S})
    sessions_max: Mapping[str, int] = field(default_factory=dict[str, int])
    sessions_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    deltas_kept_s: float = 0.0  # after their run has ended; 0: forever
    disconnect_grace_s: float = 30.0  # how long a run that is only for its readers continues without any

    def next_live_s(self, silent_s: float) -> float:
        """When a stream that has been silent for so long looks for changed live lines again."""
        return max(self.live_after_s - silent_s, self.live_every_s)


class ServerOptions(Struct, frozen=True, kw_only=True):
    """All options of a server; with `keys` None, anyone on this machine may use it."""

    keys: tuple[ApiKey, ...] | None = None
    hosts: tuple[str, ...] = ()  # names of this server besides loopback
    mount_path: str = ""  # under which a reverse proxy serves this server
    trusted_proxies: tuple[str, ...] = ()  # addresses, networks, or "unix"
    cors_origins: tuple[str, ...] = ()
    mode_max: ApprovalMode = "ask"  # the least strict permission mode that added keys can set
    workspaces: tuple[Path, ...] = ()  # that keys without `admin` can choose, beside the default one
    limits: Limits = field(default_factory=Limits)
    model: str = "holdfast"  # the model's name that clients see
    targets: tuple[Target, ...] = ()
    target_states: DescribeTargets = _no_targets
    try_target: TryTarget = _no_target
    public_url: str = ""  # of the page, for links; empty: the address that the client called
    key_settings: Mapping[str, KeySettings] = field(
        default_factory=dict[str, KeySettings]
    )  # by the key's name
    calls: "CallDeps | None" = None  # for features that call models by themselves
    try_now: TryNow | None = None
    open_files: OpenFiles = field(default_factory=OpenFiles)
    data_dir: Path | None = None  # its disk is part of the detailed health
    sandbox: Callable[[], SandboxShown | None] = lambda: None  # what commands run in, as far as it's known
    tools_failed: Callable[[], bool] = lambda: False  # whether they can't be opened, so that no run begins
    requires_sandbox: bool = False  # nothing but the health is served before the sandbox's self-test succeeds
    jobs: DescribeJobs = _no_jobs  # the background processes of a session
    read_job: ReadJob = _no_job
    stop_job: ReadJob = _no_job  # returns when it is dead
    upkeep: "Upkeep | None" = None  # ends the background processes of purged sessions
    images: "ImageUrls | None" = None  # fetches the images that clients name by their addresses
    features: Mapping[str, Any] = field(default_factory=dict[str, Any])  # what the settings say about each
    page: Mapping[str, bytes | Path] = field(default_factory=dict[str, bytes | Path])  # see read_page
