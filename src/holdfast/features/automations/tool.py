"""The schedule tool: an agent asks that something is done later, and a person approves it with its times."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from typing_extensions import override

from holdfast import events as e
from holdfast.features.automations.events import TriggerCreated
from holdfast.features.automations.values import TRIGGER, CronTimes, TriggerSettings, When, trigger_id_of
from holdfast.interfaces.clock import Clock
from holdfast.interfaces.feature import FeatureContext
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import IfSessionNew, Journal
from holdfast.interfaces.tool import Tool, ToolCall, ToolResult, ToolTraits
from holdfast.policy.tool_names import SCHEDULE
from holdfast.tools.arguments import BadArguments, arguments_hash, parsed, spec_of
from holdfast.values import Action


class ScheduleArgs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scheduled task."""

    name: Annotated[str, Meta(min_length=1, max_length=100, description="A short name for people.")]
    prompt: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=20_000,
            description="The full task. The run can't see this conversation.",
        ),
    ]
    cron: Annotated[
        str, Meta(max_length=200, description="A five-field cron expression, such as 0 8 * * 1-5.")
    ] = ""
    zone: Annotated[str, Meta(max_length=100, description="The time zone of cron. Default: UTC.")] = ""
    every: Annotated[str, Meta(max_length=50, description="An interval, such as 15m or 2h.")] = ""
    at: Annotated[
        str, Meta(max_length=50, description="A single time: ISO 8601 with its offset from UTC.")
    ] = ""
    times: Annotated[int, Meta(ge=0, le=100_000, description="Stop after this many runs. 0: no limit.")] = 0
    skills: Annotated[
        tuple[Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=64)], ...],
        Meta(max_length=20, description="Skills to read first."),
    ] = ()


def tools(context: FeatureContext) -> Sequence[Tool]:
    """Return the tools of automations."""
    return (Schedule(context.store, context.clock),)


class Schedule(Tool):
    """Makes a trigger; the same call makes it once."""

    args_type = ScheduleArgs
    spec = spec_of(
        SCHEDULE,
        "Schedule a task for later, once or repeatedly. Set exactly one of cron, every and at. Each time "
        "starts a new session with the prompt. The user sees the next times and has to approve.",
        args=ScheduleArgs,
        on_demand=True,
    )
    traits = ToolTraits(idempotent=True, place="anywhere")

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock

    @override
    def action(self, args: Mapping[str, object], *, workspace: Path) -> Action:
        given = parsed(ScheduleArgs, args)
        planned = plan_times(given, now_ms=self._clock.now_ms())
        times = "\n".join(planned.times)
        limit = f"\nStops after {given.times} runs" if given.times else ""
        skills = f"\nSkills: {', '.join(given.skills)}" if given.skills else ""
        summary = f"{given.name}: {planned.text}{limit}\nNext:\n{times}{skills}\nTask: {given.prompt}"
        # Without the times, which move on: the approval is for what was asked.
        return Action(tool=SCHEDULE, summary=summary, digest=arguments_hash(SCHEDULE, args))

    @override
    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        given = parsed(ScheduleArgs, args)
        planned = await asyncio.to_thread(plan_times, given, now_ms=self._clock.now_ms())
        trigger_id = trigger_id_of(sha256(call.effect_key.encode()).hexdigest())
        now_ms = self._clock.now_ms()
        settings = TriggerSettings(
            name=given.name,
            when=planned.when,
            prompt=given.prompt,
            workspace=str(call.workspace),
            skills=given.skills,
            times=given.times,
        )
        created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=TRIGGER)
        made = TriggerCreated(at_ms=now_ms, settings=settings)
        # After a crash, the same call finds that it was done.
        await self._journal.append(trigger_id, [created, made], when=[IfSessionNew()])
        return ToolResult(f"Scheduled as {trigger_id}: {planned.text}. Next: {', '.join(planned.times)}.")


class Planned(Struct, frozen=True):
    """A schedule, its text, and its next five times in its zone."""

    when: When
    text: str
    times: list[str]


def plan_times(given: ScheduleArgs, *, now_ms: int) -> Planned:
    """Work out the schedule; raises BadArguments. May read a file."""
    # Runs that schedule nothing don't import these.
    from holdfast.features.automations.prompts import unknown_names
    from holdfast.features.automations.schedules import (
        BadSchedule,
        WhenFields,
        next_instants,
        schedule_text,
        when_of,
        zone_named,
    )
    from holdfast.features.automations.steps import schedule_of

    if unknown := unknown_names(given.prompt):
        raise BadArguments(f"The prompt has an unknown placeholder: {{{{{unknown[0]}}}}}.")
    try:
        when = when_of(WhenFields(cron=given.cron, every=given.every, at=given.at, zone=given.zone))
        schedule = schedule_of(when, anchor_ms=now_ms, zones=zone_named)
        found = next_instants(schedule, now_ms) if schedule is not None else []
        if not found:
            raise BadSchedule("that time has passed or never occurs")
        zone = zone_named(when.zone) if isinstance(when, CronTimes) else UTC
    except BadSchedule as error:
        raise BadArguments(f"Invalid time: {error}.") from error
    local = [datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone) for at_ms in found]
    return Planned(when, schedule_text(when), [f"{one:%a} {one.isoformat(' ', 'seconds')}" for one in local])
