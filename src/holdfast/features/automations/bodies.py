"""Request and response bodies for triggers and webhooks."""

from typing import Annotated

import msgspec

from holdfast.api.body import ALWAYS_TRUE, AbsolutePath, ResponseBody, one_of
from holdfast.api.runs import BudgetRequest
from holdfast.decisions.hook_signatures import HookSignature
from holdfast.features.automations.values import MissedRule, OverlapRule
from holdfast.values import Budget

_WHEN = "Exactly one of `cron`, `every`, `at`, `after` and `webhook`."


class TriggerRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /api/triggers and of the preview. To edit, send only the fields to change."""

    name: str | None = None
    prompt: Annotated[
        str | None,
        msgspec.Meta(description="The task. `{{payload.a.b}}` is replaced with a value from the delivery."),
    ] = None
    cron: Annotated[
        str | None, msgspec.Meta(description=f"Five fields, or six with seconds first. {_WHEN}")
    ] = None
    zone: Annotated[str | None, msgspec.Meta(description="Time zone of `cron`. Default: UTC.")] = None
    every: Annotated[str | float | None, msgspec.Meta(description="Such as `15m`, or seconds.")] = None
    at: Annotated[
        str | float | None, msgspec.Meta(description="ISO 8601 with an offset, or Unix time in seconds.")
    ] = None
    after: Annotated[str | None, msgspec.Meta(description="Start after each run of this session.")] = None
    webhook: Annotated[HookSignature | None, msgspec.Meta(description="Signature scheme of deliveries.")] = (
        None
    )
    secret: Annotated[
        str | None,
        msgspec.Meta(description="The webhook's secret, if the sender provides one. Default: generated."),
    ] = None
    session_id: Annotated[
        str | None, msgspec.Meta(description="Session to run in. Default: a new one each time.")
    ] = None
    workspace: Annotated[AbsolutePath | None, msgspec.Meta(description="A folder on the server.")] = None
    model: Annotated[
        str | None, msgspec.Meta(description="A target's name or model. Default: the default target.")
    ] = None
    tools: Annotated[list[str] | None, msgspec.Meta(description="Tools its runs can use. Default: all.")] = (
        None
    )
    approvals: Annotated[
        str | None,
        one_of("ask", "unattended"),
        msgspec.Meta(description="`unattended` denies anything that needs approval. Default for webhooks."),
    ] = None
    network: Annotated[
        bool | None,
        msgspec.Meta(
            description="Whether its tools can use the network. Default: true, except for webhooks."
        ),
    ] = None
    budget: BudgetRequest | None = None
    missed: MissedRule | None = None
    overlap: OverlapRule | None = None
    grace_s: float | None = None
    failures_max: int | None = None
    deliver: Annotated[
        list[str] | None,
        msgspec.Meta(description="Where to send results: chats as CHANNEL:CHAT, and https URLs."),
    ] = None
    skills: Annotated[
        list[str] | None, msgspec.Meta(description="Skills that the run reads before it begins.")
    ] = None
    times: Annotated[
        int | None,
        msgspec.Meta(
            description="Stop after this many runs, not counting manual ones. Default: 0, no limit."
        ),
    ] = None
    script: Annotated[
        str | None,
        msgspec.Meta(
            description="A bash command line to run in the sandbox first, for up to 120 s. The prompt "
            "gets its output, as untrusted input."
        ),
    ] = None
    paused: Annotated[bool | None, msgspec.Meta(description="Create it paused.")] = None


class MissedAnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/triggers/{trigger_id}/missed."""

    run: bool


class HookSecretRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/triggers/{trigger_id}/secret. Without a secret, one is generated."""

    secret: str | None = None


class FireShown(ResponseBody, frozen=True, kw_only=True):
    """One scheduled time of a trigger and its outcome."""

    key: str
    due_at: float
    state: Annotated[str, one_of("due", "fired", "ended", "skipped")]
    outcome: str = ""
    why: str = ""  # it was skipped
    session_id: str = ""
    run_id: str = ""
    missed: int = 0  # number of missed times it also covers
    event: str = ""
    script: Annotated[str, one_of("", "started", "finished", "failed", "late", "unknown")] = ""
    script_why: str = ""  # the script didn't succeed


class MissedShown(ResponseBody, frozen=True, kw_only=True):
    """Scheduled times missed while no server was running."""

    first_at: float
    last_at: float
    count: int
    is_more: bool = False


class TriggerShown(ResponseBody, frozen=True, kw_only=True):
    """A trigger: its schedule, task and status."""

    id: str
    name: str
    state: Annotated[str, one_of("active", "paused", "gave_up", "done")]
    kind: Annotated[str, one_of("cron", "every", "at", "after", "webhook")]
    when: str  # as text
    prompt: str
    created_at: float
    next: tuple[float, ...] = ()  # at most five
    cron: str = ""
    zone: str = ""
    every: str = ""
    at: float | None = None
    after: str = ""
    webhook: str = ""
    hook: str = ""  # path for deliveries
    repeats: str = ""  # how deliveries are deduplicated
    session_id: str = ""
    workspace: str = ""
    model: str = ""
    tools: tuple[str, ...] = ()
    approvals: Annotated[str, one_of("ask", "unattended")]
    network: bool
    budget: Budget | None = None
    missed: Annotated[str, one_of("once", "skip", "ask")]
    overlap: Annotated[str, one_of("queue", "skip", "replace")]
    grace_s: float
    failures_max: int
    failures: int = 0  # in a row
    deliver: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    times: int = 0
    times_left: int = 0  # of `times`; resume the trigger to start over
    script: str = ""
    held_until: float | None = (
        None  # on hold until then, because the clock was ahead; POST …/resume resets it
    )
    unanswered: MissedShown | None = None  # run or skip them with POST …/missed
    last: FireShown | None = None


class TriggerMade(TriggerShown, frozen=True, kw_only=True):
    """A new trigger. Only this response contains the webhook's secret."""

    secret: str = ""

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        return f"TriggerMade({self.id!r})"


class TriggerList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All triggers, oldest first."""

    data: tuple[TriggerShown, ...]


class TriggerHistory(ResponseBody, frozen=True, kw_only=True):
    """A trigger's history, newest first: up to a hundred of each kind."""

    fires: tuple[FireShown, ...]
    missed: tuple[MissedShown, ...]


class NextInstants(ResponseBody, frozen=True):
    """The next five times, in seconds of Unix time and as text in the trigger's time zone."""

    next: tuple[float, ...]
    local: tuple[str, ...]
    when: str


class HookSecret(ResponseBody, frozen=True):
    """A webhook's secret. Only this response contains it."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """Keep the secret out of logs and tracebacks."""
        return f"HookSecret({self.id!r})"


class TriggerDeleted(ResponseBody, frozen=True):
    """The trigger is deleted."""

    id: str
    deleted: Annotated[bool, ALWAYS_TRUE]


class HookAccepted(ResponseBody, frozen=True):
    """The delivery is stored. It starts exactly one run."""

    id: str
    accepted: Annotated[bool, ALWAYS_TRUE]
    repeated: bool = False  # a duplicate
