"""The jobs of hermes-agent as triggers: what their fields mean here, and what has no meaning."""

import re
from collections.abc import Mapping
from typing import Any, cast, get_args

from holdfast.features.automations.schedules import BadSchedule
from holdfast.features.automations.times import WhenFields, iso, seconds_of, when_of
from holdfast.features.automations.values import (
    SKILL_NAME,
    AtTime,
    CronTimes,
    EveryTimes,
    TriggerSettings,
    When,
)
from holdfast.features.channels.deps import Kind

# Fields of a job that mean nothing here, and what to do instead.
WITHOUT_MEANING: Mapping[str, str] = {
    "script": "its script wasn't taken over: add it with `holdfast triggers edit NAME --script COMMAND`",
    "provider": "the provider is that of the default target",
    "base_url": "the address is that of the target",
}


_PLATFORMS = frozenset(get_args(Kind))


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
    return place.partition(":")[0] in _PLATFORMS


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
