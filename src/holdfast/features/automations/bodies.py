"""The bodies of requests and responses about triggers and webhooks."""

from typing import Annotated

import msgspec

from holdfast.api.body import ALWAYS_TRUE, AbsolutePath, ResponseBody, one_of
from holdfast.api.runs import BudgetRequest
from holdfast.decisions.hook_signatures import HookSignature
from holdfast.features.automations.values import MissedRule, OverlapRule
from holdfast.values import Budget

_WHEN = "Exactly one of `cron`, `every`, `at`, `after` and `webhook`."


class TriggerRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of POST /api/triggers, and of the preview; an edit names only what changes."""

    name: str | None = None
    prompt: Annotated[
        str | None,
        msgspec.Meta(description="What is asked. `{{payload.a.b}}` stands for a value of a delivery."),
    ] = None
    cron: Annotated[
        str | None, msgspec.Meta(description=f"Five fields, or six with seconds first. {_WHEN}")
    ] = None
    zone: Annotated[str | None, msgspec.Meta(description="The time zone of `cron`; UTC by default.")] = None
    every: Annotated[str | float | None, msgspec.Meta(description="Such as `15m`, or seconds.")] = None
    at: Annotated[
        str | float | None, msgspec.Meta(description="ISO 8601 with an offset, or seconds of Unix time.")
    ] = None
    after: Annotated[
        str | None, msgspec.Meta(description="A session, after each of whose runs it fires.")
    ] = None
    webhook: Annotated[
        HookSignature | None, msgspec.Meta(description="How deliveries to the hook are signed.")
    ] = None
    secret: Annotated[
        str | None, msgspec.Meta(description="The hook's secret, if the sender gives one; else it is made.")
    ] = None
    session_id: Annotated[
        str | None, msgspec.Meta(description="Session to run in. Default: a new one each time.")
    ] = None
    workspace: Annotated[AbsolutePath | None, msgspec.Meta(description="A folder on the server.")] = None
    model: Annotated[
        str | None, msgspec.Meta(description="The name of a target, or its model; the default one if empty.")
    ] = None
    tools: Annotated[
        list[str] | None, msgspec.Meta(description="The tools that its runs may use; all by default.")
    ] = None
    approvals: Annotated[
        str | None,
        one_of("ask", "unattended"),
        msgspec.Meta(description="`unattended` refuses what would be asked; the default for webhooks."),
    ] = None
    network: Annotated[
        bool | None,
        msgspec.Meta(description="Whether its tools may use the network; not for webhooks by default."),
    ] = None
    budget: BudgetRequest | None = None
    missed: MissedRule | None = None
    overlap: OverlapRule | None = None
    grace_s: float | None = None
    failures_max: int | None = None
    deliver: Annotated[
        list[str] | None,
        msgspec.Meta(description="Who is told the result: chats as CHANNEL:CHAT, and https addresses."),
    ] = None
    paused: Annotated[bool | None, msgspec.Meta(description="Whether it begins paused.")] = None


class MissedAnswerRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/triggers/{trigger_id}/missed."""

    run: bool


class HookSecretRequest(msgspec.Struct, forbid_unknown_fields=True):
    """The body of POST /api/triggers/{trigger_id}/secret: the new secret, or none to have one made."""

    secret: str | None = None


class FireShown(ResponseBody, frozen=True, kw_only=True):
    """One time that a trigger was due, and what became of it."""

    key: str
    due_at: float
    state: Annotated[str, one_of("due", "fired", "ended", "skipped")]
    outcome: str = ""
    why: str = ""  # it was skipped
    session_id: str = ""
    run_id: str = ""
    missed: int = 0  # how many instants it stands for besides
    event: str = ""


class MissedShown(ResponseBody, frozen=True, kw_only=True):
    """Instants that passed while nobody was there."""

    first_at: float
    last_at: float
    count: int
    is_more: bool = False


class TriggerShown(ResponseBody, frozen=True, kw_only=True):
    """A trigger: when it fires, what it asks, and how it is."""

    id: str
    name: str
    state: Annotated[str, one_of("active", "paused", "gave_up", "done")]
    kind: Annotated[str, one_of("cron", "every", "at", "after", "webhook")]
    when: str  # in words
    prompt: str
    created_at: float
    next: tuple[float, ...] = ()  # at most five
    cron: str = ""
    zone: str = ""
    every: str = ""
    at: float | None = None
    after: str = ""
    webhook: str = ""
    hook: str = ""  # the path to post to
    repeats: str = ""  # how a repeated delivery is told
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
    held_until: float | None = (
        None  # it won't fire before then, because the clock was ahead; POST …/resume resets it
    )
    unanswered: MissedShown | None = None  # say with POST …/missed whether to make up for them
    last: FireShown | None = None


class TriggerMade(TriggerShown, frozen=True, kw_only=True):
    """A new trigger; the secret of a hook is in this response and nowhere else."""

    secret: str = ""

    def __repr__(self) -> str:
        """The secret stays out of logs and tracebacks."""
        return f"TriggerMade({self.id!r})"


class TriggerList(ResponseBody, frozen=True, tag_field="object", tag="list"):
    """All triggers, oldest first."""

    data: tuple[TriggerShown, ...]


class TriggerHistory(ResponseBody, frozen=True, kw_only=True):
    """What a trigger did, newest first: at most a hundred of each."""

    fires: tuple[FireShown, ...]
    missed: tuple[MissedShown, ...]


class NextInstants(ResponseBody, frozen=True):
    """The next five instants, as seconds of Unix time and as text in the trigger's time zone."""

    next: tuple[float, ...]
    local: tuple[str, ...]
    when: str


class HookSecret(ResponseBody, frozen=True):
    """The secret of a hook, which is in this response and nowhere else."""

    id: str
    secret: str

    def __repr__(self) -> str:
        """The secret stays out of logs and tracebacks."""
        return f"HookSecret({self.id!r})"


class TriggerDeleted(ResponseBody, frozen=True):
    """The trigger is gone."""

    id: str
    deleted: Annotated[bool, ALWAYS_TRUE]


class HookAccepted(ResponseBody, frozen=True):
    """The delivery is stored; it starts one run, however often it comes."""

    id: str
    accepted: Annotated[bool, ALWAYS_TRUE]
    repeated: bool = False  # it was here before
