"""The bodies of responses about what only the server that works on a session knows."""

from holdfast.api.body import ResponseBody


class BackgroundJobShown(ResponseBody, frozen=True, kw_only=True):
    """A process that a tool started to outlive its call; `exit_code` is null while it runs, or if unknown.

    `server` is the name of the server on whose machine it is, if several share the store.
    """

    job_id: str
    run_id: str
    command: str
    running: bool
    started_at: float
    exit_code: int | None = None
    server: str = ""


class BackgroundOutput(ResponseBody, frozen=True, kw_only=True):
    """A process in the background and the end of its output; `is_cut` if earlier output is left out."""

    job: BackgroundJobShown
    output: str = ""
    is_cut: bool = False


class QueuePlace(ResponseBody, frozen=True, kw_only=True):
    """The place of a run in the queue for a slot, starting at 1, and why it waits."""

    position: int
    why: str


class SessionLive(ResponseBody, frozen=True, kw_only=True):
    """What the server in `server` knows about a session's active runs; it is empty if only one has the store.

    `known` is false if that server didn't answer: then the rest is empty, which says nothing. `lines` are
    live lines and `queue` places in the queue, by run id.
    """

    session_id: str
    server: str
    known: bool
    lines: dict[str, str] = {}  # noqa: RUF012  # each struct gets its own
    queue: dict[str, QueuePlace] = {}  # noqa: RUF012  # each struct gets its own
    background: tuple[BackgroundJobShown, ...] = ()
