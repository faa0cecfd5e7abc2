"""Triggers as the jobs of hermes-agent, for its clients.

The jobs of hermes-agent as triggers: what their fields mean here, and what has no meaning.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response

from holdfast import events as e
from holdfast.catalog import CHAT_SOURCES
from holdfast.features.automations.events import (
    TriggerCreated,
    TriggerEdited,
    TriggerPaused,
    TriggerResumed,
    TriggerRunAsked,
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
from holdfast.features.automations.schedules import BadSchedule, WhenFields, iso, seconds_of, when_of
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.values import (
    SKILL_NAME,
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
from holdfast.features.channels.http.places import checked_places
from holdfast.interfaces.ids import is_automation, new_epoch, token_hex
from holdfast.interfaces.journal import IfSessionKnown
from holdfast.server.access.caller import KEY_NAME
from holdfast.server.lazy_endpoints import RouteParts
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import decoded, json_response

# Fields of a job that mean nothing here, and what to do instead.
WITHOUT_MEANING: Mapping[str, str] = {
    "script": "its script wasn't taken over: add it with `holdfast triggers edit NAME --script COMMAND`",
    "provider": "the provider is that of the default target",
    "base_url": "the address is that of the target",
}


def schedule_when(schedule: object, *, now_ms: int, zone: str = "UTC") -> When:
    """When a job runs, from what people write or from the table that is stored; raises BadSchedule.

    `every 2h` repeats, `30m` is once in half an hour, and five fields are cron.
    """
    if isinstance(schedule, Mapping):
        return _stored(cast("Mapping[str, Any]", schedule), zone)
    if not isinstance(schedule, str) or not schedule.strip():
        raise BadSchedule("the schedule is missing")
    text = schedule.strip()
    if found := re.fullmatch(r"every\s+(.+)", text, re.IGNORECASE):
        return EveryTimes(seconds=_hermes_seconds(found[1]))
    if len(text.split()) >= 5:  # noqa: PLR2004  # the fields of cron
        return CronTimes(expression=" ".join(text.split()), zone=zone)
    if re.match(r"\d{4}-", text):
        return when_of(WhenFields(at=text))
    return AtTime(at_ms=now_ms + round(1000 * _hermes_seconds(text)))


def _stored(table: Mapping[str, Any], zone: str) -> When:
    match table.get("kind"):
        case "cron":
            return CronTimes(expression=" ".join(str(table.get("expr", "")).split()), zone=zone)
        case "interval":
            return EveryTimes(seconds=60 * float(table.get("minutes") or 0))
        case "once":
            return when_of(WhenFields(at=str(table.get("run_at", ""))))
        case _:
            raise BadSchedule("the schedule is of a kind that isn't known")


def _hermes_seconds(text: str) -> float:
    """A length of time, whose unit may be a word."""
    found = re.fullmatch(r"(\d+)\s*([smhd])[a-z]*", text.strip().lower())
    return seconds_of(f"{found[1]}{found[2]}" if found else text)


def differences(job: Mapping[str, Any]) -> list[str]:
    """Return the differences of a job here."""
    found = [why for field, why in WITHOUT_MEANING.items() if job.get(field)]
    found += [f"results can't go to {place!r}" for place in _places(job) if not _is_place(place)]
    found += [
        f"the skill {name!r} has no valid name" for name in _skills(job) if not SKILL_NAME.fullmatch(name)
    ]
    return list(dict.fromkeys(found))


def settings_of(job: Mapping[str, Any], *, now_ms: int) -> TriggerSettings:
    """A job as a trigger; raises BadSchedule."""
    prompt = str(job.get("prompt") or "").strip()
    if not prompt:
        raise BadSchedule("the prompt is missing")
    name = str(job.get("name") or "").strip() or prompt[:50]
    # Text that looks like one of our placeholders is plain text there.
    text = prompt.replace("{{", "{ {")
    return TriggerSettings(
        name=name[:200],
        prompt=text,
        when=schedule_when(job.get("schedule"), now_ms=now_ms),
        skills=skills_of(job),
        times=times_of(job.get("repeat")),
        deliver=places_of(job),
    )


def places_of(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the chats that its results go to, as far as there are channels for their platforms."""
    return tuple(place for place in _places(job) if _is_place(place))


def _places(job: Mapping[str, Any]) -> list[str]:
    """Return its places as CHANNEL or CHANNEL:CHAT; `origin` is the chat in which it was created."""
    given = job.get("deliver")
    names = given.split(",") if isinstance(given, str) else cast("list[object]", given or ())
    found: list[str] = []
    for name in names:
        place = str(name).strip()
        origin = job.get("origin")
        if place == "origin" and isinstance(origin, Mapping):
            table = cast("Mapping[str, object]", origin)
            place = f"{table.get('platform')}:{table.get('chat_id')}"
        channel, colon, chat = place.partition(":")
        found.append(f"{channel}{colon}{chat.replace(':', '/')}" if place != "local" else "")
    return [place for place in dict.fromkeys(found) if place]


def _is_place(place: str) -> bool:
    return place.partition(":")[0] in CHAT_SOURCES


def skills_of(job: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the skills of a job that can have a skill's name here."""
    return tuple(name for name in _skills(job) if SKILL_NAME.fullmatch(name))


def _skills(job: Mapping[str, Any]) -> list[str]:
    """Return the names of its skills; older jobs have a single one."""
    listed = job.get("skills") or job.get("skill") or ()
    names = [listed] if isinstance(listed, str) else cast("list[object]", listed)
    return list(dict.fromkeys(name.strip() for name in names if isinstance(name, str)))


def times_of(repeat: object) -> int:
    """Return how often it still runs: 0 is without a limit."""
    if isinstance(repeat, Mapping):
        table = cast("Mapping[str, Any]", repeat)
        times, done = table.get("times"), table.get("completed")
        return max(1, times - (done if isinstance(done, int) else 0)) if isinstance(times, int) else 0
    return max(0, repeat) if isinstance(repeat, int) else 0


def schedule_text(when: When) -> str:
    """When it runs, as hermes-agent's clients read it."""
    match when:
        case CronTimes():
            return when.expression
        case EveryTimes():
            return f"every {when.seconds / 60:g}m"
        case AtTime():
            return f"once at {iso(when.at_ms)}"
        case _:
            return ""


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
