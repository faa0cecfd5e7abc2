"""Jobs of hermes-agent as triggers: the same times, and a list of what differs."""

from typing import Any

import pytest

from holdfast.features.automations.jobs import differences, schedule_text, schedule_when, settings_of
from holdfast.features.automations.schedules import BadSchedule
from holdfast.features.automations.values import (
    AtTime,
    CronTimes,
    EveryTimes,
    OnWebhook,
    When,
)

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize(
    ("schedule", "when", "shown"),
    [
        ("every 2h", EveryTimes(seconds=7200), "every 120m"),
        ("Every 10 minutes", EveryTimes(seconds=600), "every 10m"),
        ("0 9 * * 1-5", CronTimes(expression="0 9 * * 1-5"), "0 9 * * 1-5"),
        ("30m", AtTime(at_ms=NOW_MS + 1_800_000), "once at 2027-01-15T08:30:00+00:00"),
        ("2027-01-15T09:00:00+01:00", AtTime(at_ms=NOW_MS), "once at 2027-01-15T08:00:00+00:00"),
        ({"kind": "cron", "expr": "0 9  * * *"}, CronTimes(expression="0 9 * * *"), "0 9 * * *"),
        ({"kind": "interval", "minutes": 5}, EveryTimes(seconds=300), "every 5m"),
        ({"kind": "once", "run_at": "2027-01-15T08:00:00+00:00"}, AtTime(at_ms=NOW_MS), None),
    ],
)
def test_a_schedule_means_the_same_time(schedule: object, when: When, shown: str | None) -> None:
    assert schedule_when(schedule, now_ms=NOW_MS) == when
    if shown is not None:
        assert schedule_text(when) == shown
    assert schedule_text(OnWebhook()) == ""


@pytest.mark.parametrize("schedule", [None, "", "soon", {"kind": "moon"}, {"kind": "once"}, {}])
def test_a_schedule_that_nobody_understands_is_refused(schedule: object) -> None:
    with pytest.raises(BadSchedule):
        schedule_when(schedule, now_ms=NOW_MS)


def test_what_has_no_meaning_here_is_said_and_the_rest_is_kept() -> None:
    job: dict[str, Any] = {
        "prompt": "Say {{x}}",
        "schedule": "every 1h",
        "deliver": "telegram:-5:17, origin, signal:1",
        "origin": {"platform": "slack", "chat_id": "D1"},
        "skills": ["a", "B c"],
        "skill": "a",
        "repeat": {"times": 5, "completed": 3},
        "script": "check.py",
    }
    settings = settings_of(job, now_ms=NOW_MS)
    assert (settings.name, settings.prompt) == ("Say {{x}}", "Say { {x}}")
    assert (settings.skills, settings.times) == (("a",), 2)
    assert settings.deliver == ("telegram:-5/17", "slack:D1")
    assert [one.partition(":")[0] for one in differences(job)] == [
        "its script wasn't taken over",
        "results can't go to 'signal",
        "the skill 'B c' has no valid name",
    ]
    assert differences({"deliver": "local", "repeat": None}) == []
    assert settings_of(job | {"skills": None, "repeat": 4}, now_ms=NOW_MS).times == 4
    assert settings_of(job | {"skills": None}, now_ms=NOW_MS).skills == ("a",)
    with pytest.raises(BadSchedule):
        settings_of({"schedule": "every 1h"}, now_ms=NOW_MS)
