"""Triggers over HTTP: list, make, change, and let them fire.

Triggers as clients see them.
"""

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.features.automations.bodies import (
    FireShown,
    HookSecret,
    HookSecretRequest,
    MissedAnswerRequest,
    MissedShown,
    NextInstants,
    TriggerDeleted,
    TriggerHistory,
    TriggerList,
    TriggerMade,
    TriggerRequest,
    TriggerShown,
)
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerEdited,
    TriggerMissedAnswered,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
)
from holdfast.features.automations.hooks import new_secret, put_secret
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.requests import (
    asked_when,
    checked_schedule,
    checked_secret,
    edited_settings,
    new_settings,
    upcoming,
    zone_of,
)
from holdfast.features.automations.schedules import length, next_instants, schedule_text
from holdfast.features.automations.state import MissedInstants, Trigger, TriggerFire
from holdfast.features.automations.values import (
    TRIGGER,
    AfterRun,
    AtTime,
    CronTimes,
    EveryTimes,
    OnWebhook,
    TriggerSettings,
    When,
    new_trigger_id,
)
from holdfast.interfaces.ids import is_automation, new_epoch, token_hex
from holdfast.interfaces.journal import Appended, IfSessionKnown
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, too_many
from holdfast.server.transport.bodies import decoded, json_response

_REPEATS = {
    "github": "by GitHub's delivery id, and for a week by the body",
    "slack": "by Slack's event_id, or for ten minutes by the body",
    "stripe": "by the event's id",
    "standard": "by the signed webhook-id",
    "bearer": "by Idempotency-Key, or without one for ten minutes by the body",
}


async def trigger_view(trigger_id: str, trigger: Trigger, *, now_ms: int) -> TriggerShown:
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
        "when": schedule_text(settings.when),
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


TRIGGERS_MAX = 1_000
_NO_STORE = {"Cache-Control": "no-store"}


def trigger_not_found(trigger_id: str) -> Problem:
    """There is no such trigger, or it is deleted."""
    return Problem(
        404, f"Trigger not found: {trigger_id[:100]}", code="trigger_not_found", param="trigger_id"
    )


class TriggerRoutes:
    """The routes under /api/triggers."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def list(self, request: Request) -> Response:
        """GET /api/triggers."""
        del request
        now_ms, store = self._deps.clock.now_ms(), self._deps.store
        states = [
            (row.session_id, await trigger_state(store, row.session_id)) for row in await store.logs(TRIGGER)
        ]
        found = [
            await trigger_view(id_, one, now_ms=now_ms) for id_, one in states if one.settings is not None
        ]
        return json_response(TriggerList(data=tuple(found)))

    async def create(self, request: Request) -> Response:
        """POST /api/triggers."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, TriggerRequest)
        now_ms, trigger_id = deps.clock.now_ms(), new_trigger_id()
        settings = await new_settings(wanted, deps)
        await checked_schedule(settings.when, now_ms=now_ms)
        if len(await deps.store.logs(TRIGGER)) >= TRIGGERS_MAX:
            text = f"The limit of {TRIGGERS_MAX} triggers is reached. Delete one first"
            raise too_many(text, code="too_many_triggers", retry_after_s=60)
        secret = ""
        if isinstance(settings.when, OnWebhook):
            secret = checked_secret(wanted.secret) if wanted.secret else new_secret(settings.when.signature)
            # Before the hook exists, so that there is never one without a secret.
            await put_secret(deps.store, trigger_id, secret)
        created = TriggerCreated(
            at_ms=now_ms,
            settings=settings,
            paused=bool(wanted.paused),
            key=request.scope[KEY_NAME],
            seen_seq=await self._end_of(settings),
        )
        begun = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=TRIGGER)
        await deps.store.append(trigger_id, [begun, created])
        trigger = await trigger_state(deps.store, trigger_id)
        body = await made(trigger_id, trigger, now_ms=now_ms, secret="" if wanted.secret else secret)
        return json_response(body, 201, headers=_NO_STORE)

    async def _end_of(self, settings: TriggerSettings) -> int:
        """Where the log of the session ends whose runs it waits for: earlier ones don't count."""
        when = settings.when
        return await self._deps.store.last_seq(when.session_id) if isinstance(when, AfterRun) else 0

    async def preview(self, request: Request) -> Response:
        """POST /api/triggers/preview."""
        deps = self._deps
        when = asked_when(await decoded(request, deps.limits, TriggerRequest))
        now_ms = deps.clock.now_ms()
        schedule = await checked_schedule(when, now_ms=now_ms)
        following = [] if schedule is None else next_instants(schedule, now_ms)
        zone = await zone_of(when)
        local = [datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone) for at_ms in following]
        return json_response(
            NextInstants(
                next=tuple(at_ms / 1000 for at_ms in following),
                local=tuple(one.isoformat(" ", "seconds") for one in local),
                when=schedule_text(when),
            )
        )

    async def show(self, request: Request) -> Response:
        """GET /api/triggers/{trigger_id}."""
        return await self._shown(*await self._found(request))

    async def edit(self, request: Request) -> Response:
        """PATCH /api/triggers/{trigger_id}."""
        deps = self._deps
        wanted = await decoded(request, deps.limits, TriggerRequest)
        trigger_id, trigger = await self._found(request)
        assert trigger.settings is not None, "it was found"
        settings = await edited_settings(trigger.settings, wanted, deps)
        if settings.when != trigger.settings.when:
            await checked_schedule(settings.when, now_ms=deps.clock.now_ms())
        if isinstance(settings.when, OnWebhook) and (
            wanted.secret or not isinstance(trigger.settings.when, OnWebhook)
        ):
            await put_secret(deps.store, trigger_id, wanted.secret or new_secret(settings.when.signature))
        now_ms = deps.clock.now_ms()
        edited = TriggerEdited(
            at_ms=now_ms,
            from_ms=now_ms,
            settings=settings,
            by=request.scope[KEY_NAME],
            seen_seq=await self._end_of(settings),
        )
        return await self._changed(trigger_id, edited)

    async def delete(self, request: Request) -> Response:
        """DELETE /api/triggers/{trigger_id}."""
        trigger_id, _ = await self._found(request)
        now_ms = self._deps.clock.now_ms()
        deleted = e.SessionDeleted(
            at_ms=now_ms, purge_at_ms=now_ms + int(1000 * self._deps.limits.undelete_s)
        )
        await self._deps.store.append(trigger_id, [deleted], when=[IfSessionKnown()])
        return json_response(TriggerDeleted(id=trigger_id, deleted=True))

    async def pause(self, request: Request) -> Response:
        """POST /api/triggers/{trigger_id}/pause."""
        trigger_id, _ = await self._found(request)
        paused = TriggerPaused(at_ms=self._deps.clock.now_ms(), by=request.scope[KEY_NAME])
        return await self._changed(trigger_id, paused)

    async def resume(self, request: Request) -> Response:
        """POST /api/triggers/{trigger_id}/resume."""
        trigger_id, trigger = await self._found(request)
        now_ms = self._deps.clock.now_ms()
        if not (trigger.is_paused or trigger.is_done or trigger.held_until_ms(now_ms)):
            return await self._shown(trigger_id, trigger)
        resumed = TriggerResumed(at_ms=now_ms, from_ms=now_ms, by=request.scope[KEY_NAME])
        return await self._changed(trigger_id, resumed)

    async def run(self, request: Request) -> Response:
        """POST /api/triggers/{trigger_id}/run."""
        trigger_id, _ = await self._found(request)
        given = request.headers.get("idempotency-key", "")
        request_id = sha256(given.encode()).hexdigest()[:24] if given else token_hex(12)
        asked = TriggerRunAsked(
            at_ms=self._deps.clock.now_ms(), request_id=request_id, by=request.scope[KEY_NAME]
        )
        return await self._changed(trigger_id, asked, status=202)

    async def missed(self, request: Request) -> Response:
        """POST /api/triggers/{trigger_id}/missed."""
        wanted = await decoded(request, self._deps.limits, MissedAnswerRequest)
        trigger_id, trigger = await self._found(request)
        if trigger.unanswered is None:
            raise Problem(409, "This trigger has no pending missed runs", code="nothing_missed")
        answered = TriggerMissedAnswered(
            at_ms=self._deps.clock.now_ms(), run=wanted.run, by=request.scope[KEY_NAME]
        )
        return await self._changed(trigger_id, answered)

    async def secret(self, request: Request) -> Response:
        """POST /api/triggers/{trigger_id}/secret."""
        wanted = await decoded(request, self._deps.limits, HookSecretRequest)
        trigger_id, trigger = await self._found(request)
        assert trigger.settings is not None, "it was found"
        when = trigger.settings.when
        if not isinstance(when, OnWebhook):
            raise Problem(409, "This trigger isn't a webhook, so it has no secret", code="no_webhook")
        secret = checked_secret(wanted.secret) if wanted.secret else new_secret(when.signature)
        await put_secret(self._deps.store, trigger_id, secret)
        shown_once = "" if wanted.secret else secret
        return json_response(HookSecret(id=trigger_id, secret=shown_once), headers=_NO_STORE)

    async def history(self, request: Request) -> Response:
        """GET /api/triggers/{trigger_id}/history."""
        _, trigger = await self._found(request)
        return json_response(history(trigger))

    async def _found(self, request: Request) -> tuple[str, Trigger]:
        trigger_id: str = request.path_params["trigger_id"]
        trigger = (
            await trigger_state(self._deps.store, trigger_id) if is_automation(trigger_id) else Trigger()
        )
        if trigger.settings is None or trigger.is_deleted:
            raise trigger_not_found(trigger_id)
        return trigger_id, trigger

    async def _changed(self, trigger_id: str, change: e.Input, *, status: int = 200) -> Response:
        result = await self._deps.store.append(trigger_id, [change], when=[IfSessionKnown()])
        if not isinstance(result, Appended):
            raise trigger_not_found(trigger_id)
        return await self._shown(trigger_id, await trigger_state(self._deps.store, trigger_id), status=status)

    async def _shown(self, trigger_id: str, trigger: Trigger, *, status: int = 200) -> Response:
        return json_response(
            await trigger_view(trigger_id, trigger, now_ms=self._deps.clock.now_ms()), status
        )
