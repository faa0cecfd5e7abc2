"""`holdfast import hermes`: cron jobs become paused triggers, once, and what differs is said."""

import asyncio
import json
from pathlib import Path

import pytest

from features.hermes_import.home import data_dir
from holdfast.features.automations.owner import trigger_state
from holdfast.features.automations.state import Trigger
from holdfast.features.automations.values import (
    TRIGGER,
    CronTimes,
    EveryTimes,
)
from holdfast.features.hermes_import.command import import_hermes
from stores import SqliteStore

JOBS = [
    {
        "id": "a1",
        "name": "news",
        "script": "a.py",
        "deliver": "telegram",
        "prompt": "News?",
        "schedule": {"kind": "cron", "expr": "0 9 * * *"},
    },
    {"id": "b2", "prompt": "Check.", "schedule": {"kind": "interval", "minutes": 30}, "skills": ["web"]},
    {
        "id": "c3",
        "name": "old",
        "prompt": "x",
        "schedule": {"kind": "once", "run_at": "2001-01-01T00:00:00Z"},
    },
    {"id": "d4", "name": "empty", "schedule": "every 1h"},
]


async def triggers(folder: Path) -> list[Trigger]:
    store = await SqliteStore.open(folder / "holdfast.db")
    try:
        return [await trigger_state(store, row.session_id) for row in await store.logs(TRIGGER)]
    finally:
        await store.close()


def test_cron_jobs_become_paused_triggers_and_what_differs_is_listed(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / ".env").write_text("HERMES_TIMEZONE=Asia/Tokyo\n")
    (home / "cron").mkdir()
    (home / "scripts").mkdir()
    (home / "scripts" / "a.py").write_text("print(1)\n")
    (home / "cron" / "jobs.json").write_text(json.dumps({"jobs": JOBS}))
    assert import_hermes(None, {}, how="try") == 0
    said = capsys.readouterr().out
    assert "trigger 'news': cron 0 9 * * * (Asia/Tokyo), paused" in said
    assert "no channel for telegram, so add one; the result is also on the page" in said
    for _ in range(2):
        assert import_hermes(None, {}, how="do") == 0
    said = capsys.readouterr().out
    assert said.count("trigger 'Check.': every 30m, paused\n") == 1, "a second import adds nothing"
    assert "cron job 'old': its time has passed" in said
    assert "cron job 'empty': the prompt is missing" in said
    found = asyncio.run(triggers(data_dir(home)))
    assert all(one.is_paused for one in found)
    assert {(one.settings.script, one.settings.deliver) for one in found if one.settings} == {
        ("python3 - <<'END_OF_SCRIPT'\nprint(1)\nEND_OF_SCRIPT", ("telegram",)),
        ("", ()),
    }
    assert {one.settings.skills for one in found if one.settings} == {(), ("web",)}
    assert {one.settings.when for one in found if one.settings} == {
        CronTimes(expression="0 9 * * *", zone="Asia/Tokyo"),
        EveryTimes(seconds=1800),
    }
