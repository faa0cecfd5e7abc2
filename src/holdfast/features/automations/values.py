"""A trigger's settings: when it fires, what it sends, and with which rights."""

import re
from typing import Literal, TypeAlias

import msgspec

from holdfast.decisions.hook_signatures import HookSignature
from holdfast.interfaces.ids import token_hex
from holdfast.values import Budget

TRIGGER = "trigger"  # the source of a trigger's log
_PREFIX = "trg_"
SKILL_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

MissedRule: TypeAlias = Literal["once", "skip", "ask"]
OverlapRule: TypeAlias = Literal["queue", "skip", "replace"]
ScriptOutcome: TypeAlias = Literal["finished", "failed", "late", "unknown"]


class CronTimes(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="cron", tag_field="kind"):
    """When a cron expression says, in a time zone; six fields begin with seconds."""

    expression: str
    zone: str = "UTC"


class EveryTimes(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="every", tag_field="kind"
):
    """Again and again, so many seconds apart."""

    seconds: float


class AtTime(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="at", tag_field="kind"):
    """Once."""

    at_ms: int


class OnWebhook(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="webhook", tag_field="kind"
):
    """Whenever another program posts something that it has signed in this way."""

    signature: HookSignature = "bearer"


class AfterRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="after", tag_field="kind"):
    """Whenever a run of this session ends."""

    session_id: str


When: TypeAlias = CronTimes | EveryTimes | AtTime | OnWebhook | AfterRun


class TriggerSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When something is asked, of whom, and with which rights.

    Each run has at most the rights that the configuration gives. `approvals` is `unattended` for webhooks
    unless they say otherwise: what would be asked is refused.
    """

    name: str
    when: When
    prompt: str
    session_id: str = ""  # empty: a new session each time
    workspace: str = ""
    model: str = ""
    tools: tuple[str, ...] = ()  # empty: all
    approvals: Literal["", "ask", "unattended"] = ""
    network: bool | None = None  # whether its tools may use the network; None: not for webhooks
    budget: Budget | None = None
    missed: MissedRule = "once"
    overlap: OverlapRule = "queue"
    grace_s: float = 60.0  # an instant that is later than this was missed
    failures_max: int = 5  # so many failed runs in a row pause it; 0: never
    deliver: tuple[str, ...] = ()  # where results are sent: CHANNEL:CHAT, or an https URL
    skills: tuple[str, ...] = ()  # the run reads them first
    times: int = 0  # so many runs, not counting manual ones, and it's done; 0: no limit
    script: str = ""  # a bash command line; its output is part of the prompt, as untrusted input

    @property
    def has_network(self) -> bool:
        """Whether its tools and script can use the network."""
        return self.network if self.network is not None else not isinstance(self.when, OnWebhook)


def new_trigger_id() -> str:
    """Return an id for a trigger and its log."""
    return f"{_PREFIX}{token_hex(12)}"


def trigger_id_of(digest: str) -> str:
    """Return the trigger id for a hexadecimal digest."""
    return f"{_PREFIX}{digest[:24]}"
