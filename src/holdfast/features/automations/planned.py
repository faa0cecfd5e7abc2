"""The schedule that the arguments of the schedule tool describe, and its next times."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from holdfast.features.automations.prompts import unknown_names
from holdfast.features.automations.schedules import BadSchedule, next_instants
from holdfast.features.automations.steps import schedule_of
from holdfast.features.automations.time_zones import zone_named
from holdfast.features.automations.times import WhenFields, said, when_of
from holdfast.features.automations.values import CronTimes, When
from holdfast.tools.arguments import BadArguments

if TYPE_CHECKING:
    from holdfast.features.automations.tool import ScheduleArgs


class Planned(Struct, frozen=True):
    """A schedule, its text, and its next five times in its zone."""

    when: When
    text: str
    times: list[str]


def planned(given: "ScheduleArgs", *, now_ms: int) -> Planned:
    """Work out the schedule; raises BadArguments. May read a file."""
    if unknown := unknown_names(given.prompt):
        raise BadArguments(f"The prompt has an unknown placeholder: {{{{{unknown[0]}}}}}.")
    try:
        when = when_of(WhenFields(cron=given.cron, every=given.every, at=given.at, zone=given.zone))
        return Planned(when, said(when), _next_times(when, now_ms))
    except BadSchedule as error:
        raise BadArguments(f"Invalid time: {error}.") from error


def _next_times(when: When, now_ms: int) -> list[str]:
    schedule = schedule_of(when, anchor_ms=now_ms, zones=zone_named)
    found = next_instants(schedule, now_ms) if schedule is not None else []
    if not found:
        raise BadSchedule("that time has passed or never occurs")
    zone = zone_named(when.zone) if isinstance(when, CronTimes) else UTC
    local = [datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(zone) for at_ms in found]
    return [f"{one:%a} {one.isoformat(' ', 'seconds')}" for one in local]
