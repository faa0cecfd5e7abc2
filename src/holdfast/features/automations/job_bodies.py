"""The supported fields of hermes-agent's /api/jobs."""

from typing import Annotated, Any

import msgspec

from holdfast.api.body import ALWAYS_TRUE, ResponseBody, one_of


class JobRequest(msgspec.Struct, kw_only=True):
    """The body of POST and PATCH. `differs` in the response lists unsupported fields."""

    name: str | None = None
    schedule: Annotated[
        str | None,
        msgspec.Meta(description="`every 2h`, `30m` (once), a five-field cron expression, or a time."),
    ] = None
    prompt: str | None = None
    model: str | None = None
    enabled: bool | None = None
    deliver: Any = None
    skills: Any = None
    repeat: Any = None
    script: Any = None


class JobRepeat(ResponseBody, frozen=True, kw_only=True):
    """How often a job runs, and how often it did."""

    times: int
    completed: int


class JobShown(ResponseBody, frozen=True, kw_only=True):
    """A trigger as a job."""

    id: str
    name: str
    prompt: str
    schedule_display: str
    enabled: bool
    state: Annotated[str, one_of("scheduled", "paused", "completed")]
    created_at: str
    next_run_at: str | None = None
    last_run_at: str | None = None
    last_status: str | None = None
    skills: tuple[str, ...] = ()
    repeat: JobRepeat | None = None  # none: no limit
    deliver: str = "local"
    differs: tuple[str, ...] = ()  # unsupported fields of the request


class JobBody(ResponseBody, frozen=True):
    """One job."""

    job: JobShown


class JobList(ResponseBody, frozen=True):
    """All jobs. Webhooks aren't included."""

    jobs: tuple[JobShown, ...]


class JobDeleted(ResponseBody, frozen=True):
    """The job is deleted."""

    ok: Annotated[bool, ALWAYS_TRUE]
