"""Response bodies for live state, which only the server that runs a session has."""

from holdfast.api.body import ResponseBody


class BackgroundJobShown(ResponseBody, frozen=True, kw_only=True):
    """A background process started by a tool. `exit_code` is null while it runs, or if unknown.

    `server` is the server it runs on, if several share the store.
    """

    job_id: str
    run_id: str
    command: str
    running: bool
    started_at: float
    exit_code: int | None = None
    server: str = ""


class BackgroundOutput(ResponseBody, frozen=True, kw_only=True):
    """A background process and the end of its output. `is_cut` is true if earlier output is omitted."""

    job: BackgroundJobShown
    output: str = ""
    is_cut: bool = False


class QueuePlace(ResponseBody, frozen=True, kw_only=True):
    """A run's position in the queue for a slot, starting at 1, and why it's queued."""

    position: int
    why: str


class SessionLive(ResponseBody, frozen=True, kw_only=True):
    """The live state of a session's active runs. `server` is empty if the store isn't shared.

    `known` is false if that server didn't respond, and the state is unknown. `lines` (live lines) and `queue`
    (queue positions) are by run id.
    """

    session_id: str
    server: str
    known: bool
    lines: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    queue: dict[str, QueuePlace] = {}  # noqa: RUF012  # each struct gets its own
    background: tuple[BackgroundJobShown, ...] = ()
