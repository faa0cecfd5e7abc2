"""Triggers as clients see them."""

from typing import Any

from holdfast.features.automations.bodies import (
    FireShown,
    MissedShown,
    TriggerHistory,
    TriggerMade,
    TriggerShown,
)
from holdfast.features.automations.requests import upcoming
from holdfast.features.automations.state import MissedInstants, Trigger, TriggerFire
from holdfast.features.automations.times import length, said
from holdfast.features.automations.values import (
    AfterRun,
    AtTime,
    CronTimes,
    EveryTimes,
    OnWebhook,
    When,
)

_REPEATS = {
    "github": "by GitHub's delivery id, and for a week by the body",
    "slack": "by Slack's event_id, or for ten minutes by the body",
    "stripe": "by the event's id",
    "standard": "by the signed webhook-id",
    "bearer": "by Idempotency-Key, or without one for ten minutes by the body",
}


async def shown(trigger_id: str, trigger: Trigger, *, now_ms: int) -> TriggerShown:
    """One trigger."""
    return TriggerShown(**await _fields(trigger_id, trigger, now_ms))


async def made(trigger_id: str, trigger: Trigger, *, now_ms: int, secret: str) -> TriggerMade:
    """A new trigger, with the secret of its hook."""
    return TriggerMade(**await _fields(trigger_id, trigger, now_ms), secret=secret)


async def _fields(trigger_id: str, trigger: Trigger, now_ms: int) -> dict[str, Any]:
    settings = trigger.settings
    assert settings is not None, "it was found"
    is_hook = isinstance(settings.when, OnWebhook)
    after_ms = max(trigger.cursor_ms, now_ms)
    following = await upcoming(settings.when, anchor_ms=trigger.anchor_ms, after_ms=after_ms)
    fires = list(trigger.fires.values())
    return {
        "id": trigger_id,
        "name": settings.name,
        "state": _state(trigger, following),
        "when": said(settings.when),
        "prompt": settings.prompt,
        "created_at": trigger.created_ms / 1000,
        "next": () if trigger.is_paused or trigger.is_done else tuple(at_ms / 1000 for at_ms in following),
        **_when(trigger_id, settings.when),
        "session_id": settings.session_id,
        "workspace": settings.workspace,
        "model": settings.model,
        "tools": settings.tools,
        "approvals": settings.approvals or ("unattended" if is_hook else "ask"),
        "network": settings.has_network,
        "budget": settings.budget,
        "missed": settings.missed,
        "overlap": settings.overlap,
        "grace_s": settings.grace_s,
        "failures_max": settings.failures_max,
        "failures": trigger.failures,
        "deliver": settings.deliver,
        "skills": settings.skills,
        "times": settings.times,
        "times_left": max(0, settings.times - trigger.runs),
        "script": settings.script,
        "held_until": held_ms / 1000 if (held_ms := trigger.held_until_ms(now_ms)) else None,
        "unanswered": None if trigger.unanswered is None else missed_shown(trigger.unanswered),
        "last": fire_shown(fires[-1]) if fires else None,
    }


def _state(trigger: Trigger, following: list[int]) -> str:
    settings = trigger.settings
    assert settings is not None, "it was found"
    if trigger.is_paused:
        return "gave_up" if trigger.gave_up_after else "paused"
    is_over = isinstance(settings.when, AtTime) and not following
    return "done" if is_over or trigger.is_done else "active"


def _when(trigger_id: str, when: When) -> dict[str, Any]:
    match when:
        case CronTimes():
            return {"kind": "cron", "cron": when.expression, "zone": when.zone}
        case EveryTimes():
            return {"kind": "every", "every": length(when.seconds)}
        case AtTime():
            return {"kind": "at", "at": when.at_ms / 1000}
        case AfterRun():
            return {"kind": "after", "after": when.session_id}
        case OnWebhook():
            return {
                "kind": "webhook",
                "webhook": when.signature,
                "hook": f"/hooks/{trigger_id}",
                "repeats": _REPEATS[when.signature],
            }


def history(trigger: Trigger) -> TriggerHistory:
    """Return its history, newest first."""
    return TriggerHistory(
        fires=tuple(fire_shown(fire) for fire in reversed(trigger.fires.values())),
        missed=tuple(missed_shown(one) for one in reversed(trigger.missed)),
    )


def fire_shown(fire: TriggerFire) -> FireShown:
    """One fire."""
    return FireShown(
        key=fire.key,
        due_at=fire.due_at_ms / 1000,
        state=fire.state,
        outcome=fire.outcome or "",
        why=fire.why or "",
        session_id=fire.session_id,
        run_id=fire.run_id,
        missed=fire.missed,
        event=fire.event,
        script=fire.script,
        script_why=fire.script_why,
    )


def missed_shown(missed: MissedInstants) -> MissedShown:
    """A stretch of missed instants."""
    return MissedShown(
        first_at=missed.first_ms / 1000,
        last_at=missed.last_ms / 1000,
        count=missed.count,
        is_more=missed.is_more,
    )
