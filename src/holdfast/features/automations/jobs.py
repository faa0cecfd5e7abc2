"""Triggers as the jobs of hermes-agent, for its clients."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerEdited,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
)
from holdfast.features.automations.hermes_fields import (
    differences,
    places_of,
    schedule_text,
    schedule_when,
    settings_of,
    skills_of,
    times_of,
)
from holdfast.features.automations.job_bodies import (
    JobBody,
    JobDeleted,
    JobList,
    JobRepeat,
    JobRequest,
    JobShown,
)
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.requests import bad_schedule, checked_schedule, models_of, upcoming
from holdfast.features.automations.schedules import BadSchedule
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.times import iso
from holdfast.features.automations.values import (
    TRIGGER,
    AfterRun,
    OnWebhook,
    TriggerSettings,
    new_trigger_id,
)
from holdfast.features.channels.http.places import checked_places
from holdfast.interfaces.ids import (
    is_automation,
    new_epoch,
    token_hex,
)
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import decoded, json_response

PROMPT_CHARS_MAX = 100_000


class JobRoutes:
    """The routes under /api/jobs."""

    def __init__(self, parts: RouteParts) -> None:
        self._deps = parts.deps

    async def list(self, request: Request) -> Response:
        """GET /api/jobs."""
        del request
        store = self._deps.store
        rows = await store.logs(TRIGGER)
        states = [(row.session_id, await trigger_state(store, row.session_id)) for row in rows]
        jobs = [await self._shown(trigger_id, one) for trigger_id, one in states if _is_job(one)]
        return json_response(JobList(jobs=tuple(jobs)))

    async def create(self, request: Request) -> Response:
        """POST /api/jobs."""
        deps, wanted = self._deps, await decoded(request, self._deps.limits, JobRequest)
        now_ms, trigger_id = deps.clock.now_ms(), new_trigger_id()
        job = _given(wanted)
        try:
            settings = replace(
                settings_of(job, now_ms=now_ms),
                model=await self._model(wanted),
                deliver=await self._deliver(wanted),
            )
        except BadSchedule as error:
            raise bad_schedule(error) from error
        await self._check(settings, now_ms)
        created = TriggerCreated(
            at_ms=now_ms,
            settings=settings,
            paused=wanted.enabled is False,
            key=request.scope[KEY_NAME],
        )
        begun = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=TRIGGER)
        await deps.store.append(trigger_id, [begun, created])
        return await self._answer(trigger_id, differs=await self._differs(wanted))

    async def _model(self, wanted: JobRequest) -> str:
        """Return the job's model if a target here has it. Hermes clients can name other providers' models."""
        names, known = await models_of(self._deps)
        return wanted.model if wanted.model and (wanted.model in known or not names) else ""

    async def _deliver(self, wanted: JobRequest) -> tuple[str, ...]:
        """Return the known places among those of the job."""
        found: list[str] = []
        for place in places_of(_given(wanted)):
            with suppress(Problem):
                found += await checked_places(self._deps, [place])
        return tuple(found)

    async def _differs(self, wanted: JobRequest) -> tuple[str, ...]:
        found = differences(_given(wanted))
        if wanted.model and not await self._model(wanted):
            found.append(f"unknown target {wanted.model[:100]!r}: using the default")
        if len(places := places_of(_given(wanted))) != len(await self._deliver(wanted)):
            found.append(f"unknown chats are left out of {', '.join(places)[:200]!r}")
        return tuple(found)

    async def _check(self, settings: TriggerSettings, now_ms: int) -> None:
        if len(settings.prompt) > PROMPT_CHARS_MAX:
            raise bad_request(f"'prompt' is longer than {PROMPT_CHARS_MAX} characters", param="prompt")
        await checked_schedule(settings.when, now_ms=now_ms)

    async def show(self, request: Request) -> Response:
        """GET /api/jobs/{job_id}."""
        trigger_id, _ = await self._found(request)
        return await self._answer(trigger_id)

    async def edit(self, request: Request) -> Response:
        """PATCH /api/jobs/{job_id}."""
        wanted = await decoded(request, self._deps.limits, JobRequest)
        trigger_id, trigger = await self._found(request)
        assert trigger.settings is not None, "it was found"
        now_ms, by = self._deps.clock.now_ms(), request.scope[KEY_NAME]
        changes: dict[str, Any] = {
            name: value for name in ("name", "prompt") if (value := getattr(wanted, name))
        }
        if wanted.skills is not None:
            changes["skills"] = skills_of(_given(wanted))
        if wanted.deliver is not None:
            changes["deliver"] = await self._deliver(wanted)
        if wanted.repeat is not None:
            changes["times"] = times_of(wanted.repeat)
        if wanted.model:
            changes["model"] = await self._model(wanted)
        try:
            if wanted.schedule is not None:
                changes["when"] = schedule_when(wanted.schedule, now_ms=now_ms)
        except BadSchedule as error:
            raise bad_schedule(error) from error
        settings = replace(trigger.settings, **changes)
        if "when" in changes or "prompt" in changes:
            await self._check(settings, now_ms)
        edited = TriggerEdited(at_ms=now_ms, from_ms=now_ms, settings=settings, by=by)
        inputs: list[e.Input] = [edited] if changes else []
        if wanted.enabled is not None and wanted.enabled == (trigger.is_paused or trigger.is_done):
            resumed = TriggerResumed(at_ms=now_ms, from_ms=now_ms, by=by)
            inputs.append(resumed if wanted.enabled else TriggerPaused(at_ms=now_ms, by=by))
        if inputs:
            await self._deps.store.append(trigger_id, inputs, when=[IfSessionKnown()])
        return await self._answer(trigger_id, differs=await self._differs(wanted))

    async def delete(self, request: Request) -> Response:
        """DELETE /api/jobs/{job_id}."""
        trigger_id, _ = await self._found(request)
        now_ms = self._deps.clock.now_ms()
        purge_at_ms = now_ms + int(1000 * self._deps.limits.undelete_s)
        deleted = e.SessionDeleted(at_ms=now_ms, purge_at_ms=purge_at_ms)
        await self._deps.store.append(trigger_id, [deleted], when=[IfSessionKnown()])
        return json_response(JobDeleted(ok=True))

    async def pause(self, request: Request) -> Response:
        """POST /api/jobs/{job_id}/pause."""
        paused = TriggerPaused(at_ms=self._deps.clock.now_ms(), by=request.scope[KEY_NAME])
        return await self._changed(request, paused)

    async def resume(self, request: Request) -> Response:
        """POST /api/jobs/{job_id}/resume."""
        now_ms = self._deps.clock.now_ms()
        resumed = TriggerResumed(at_ms=now_ms, from_ms=now_ms, by=request.scope[KEY_NAME])
        return await self._changed(request, resumed)

    async def run(self, request: Request) -> Response:
        """POST /api/jobs/{job_id}/run."""
        asked = TriggerRunAsked(
            at_ms=self._deps.clock.now_ms(), request_id=token_hex(12), by=request.scope[KEY_NAME]
        )
        return await self._changed(request, asked)

    async def _changed(self, request: Request, change: e.Input) -> Response:
        trigger_id, _ = await self._found(request)
        await self._deps.store.append(trigger_id, [change], when=[IfSessionKnown()])
        return await self._answer(trigger_id)

    async def _found(self, request: Request) -> tuple[str, Trigger]:
        job_id: str = request.path_params["job_id"]
        trigger = await trigger_state(self._deps.store, job_id) if is_automation(job_id) else Trigger()
        if not _is_job(trigger):
            raise Problem(404, f"Job not found: {job_id[:100]}", code="job_not_found", param="job_id")
        return job_id, trigger

    async def _answer(self, trigger_id: str, *, differs: tuple[str, ...] = ()) -> Response:
        trigger = await trigger_state(self._deps.store, trigger_id)
        shown = await self._shown(trigger_id, trigger)
        return json_response(JobBody(job=replace(shown, differs=differs)))

    async def _shown(self, trigger_id: str, trigger: Trigger) -> JobShown:
        settings, now_ms = trigger.settings, self._deps.clock.now_ms()
        assert settings is not None, "it was found"
        after_ms = max(trigger.cursor_ms, now_ms)
        following = await upcoming(settings.when, anchor_ms=trigger.anchor_ms, after_ms=after_ms)
        fires = list(trigger.fires.values())
        last = fires[-1] if fires else None
        is_scheduled = bool(following) and not trigger.is_done
        state = "paused" if trigger.is_paused else "scheduled" if is_scheduled else "completed"
        return JobShown(
            id=trigger_id,
            name=settings.name,
            prompt=settings.prompt,
            schedule_display=schedule_text(settings.when),
            enabled=not trigger.is_paused,
            state=state,
            created_at=iso(trigger.created_ms),
            next_run_at=iso(following[0]) if is_scheduled and not trigger.is_paused else None,
            last_run_at=iso(last.due_at_ms) if last else None,
            last_status=(last.outcome or last.state) if last else None,
            skills=settings.skills,
            repeat=JobRepeat(times=settings.times, completed=trigger.runs) if settings.times else None,
            deliver=", ".join(settings.deliver) or "local",
        )


def _is_job(trigger: Trigger) -> bool:
    """Return whether it has its own schedule, as all hermes-agent jobs do."""
    settings = trigger.settings
    return settings is not None and not (
        trigger.is_deleted or isinstance(settings.when, OnWebhook | AfterRun)
    )


def _given(wanted: JobRequest) -> Mapping[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(wanted).items() if value is not None}
