"""`holdfast triggers`: the folder of a trigger, times in its zone, and one that waits for the clock."""

from collections.abc import Mapping
from pathlib import Path

from forked import fork
from holdfast import events as e
from holdfast.config.server import ServerSettings
from holdfast.config.settings import Settings
from holdfast.features.automations.doctor import held
from holdfast.features.automations.events import (
    TriggerCreated,
)
from holdfast.features.automations.values import (
    TRIGGER,
    CronTimes,
    TriggerSettings,
)
from holdfast.interfaces.feature import DoctorContext
from holdfast.interfaces.system_clock import SystemClock
from stores import SqliteStore

HOUR_MS = 3_600_000
WINTER = ("--cron", "0 8 1 1 *", "--zone", "Europe/Berlin")


async def printed(folder: Path, *words: str, environ: Mapping[str, str]) -> str:
    """What a command prints that is run in this folder and succeeds."""
    process = await fork(
        *("triggers", *words, "--data-dir", environ["HOME"] + "/data"), cwd=folder, env=environ
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return (out + err).decode()


async def test_a_trigger_keeps_the_folder_it_was_made_in_and_shows_its_own_zone(
    tmp_path: Path,
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "TZ": "UTC"}
    made = await printed(here, "add", "news", "--prompt", "News?", *WINTER, environ=environ)
    assert f"Folder: {here}\n" in made
    assert "-01-01 08:00:00+01:00\n" in made
    listed = await printed(there, "list", environ=environ)
    assert "-01-01 08:00:00+01:00" in listed
    more = (
        "--workspace",
        ".",
        "--skill",
        "reports",
        "--times",
        "2",
        "--script",
        "df -h",
        "--budget-usd",
        "0.5",
    )
    moved = await printed(there, "edit", "news", *more, environ=environ)
    assert f"Folder: {there}\n" in moved
    assert "Budget: $0.5\nSkills: reports\nScript: df -h\nRuns left: 2 of 2\n" in moved


async def test_the_doctor_names_a_trigger_that_waits_because_the_clock_was_ahead(tmp_path: Path) -> None:
    """P3: a schedule that is silent for an hour says why, and how to end it."""
    settings, clock = Settings(server=ServerSettings(data_dir=str(tmp_path))), SystemClock()
    assert await held(DoctorContext(settings, tmp_path, clock, is_offline=True)) == ()
    store = await SqliteStore.open(settings.store_path)
    when = CronTimes(expression="* * * * *")
    for name, at_ms in (("early", clock.now_ms() + HOUR_MS), ("fine", clock.now_ms())):
        await store.append(
            f"trg_{name}",
            [
                e.SessionCreated(at_ms=at_ms, epoch="0", source=TRIGGER),
                TriggerCreated(at_ms=at_ms, settings=TriggerSettings(name=name, prompt="p", when=when)),
            ],
        )
    await store.close()
    (found,) = await held(DoctorContext(settings, tmp_path, clock, is_offline=True))
    assert (found.state, found.name) == ("note", "trigger early")
    assert "the clock was ahead" in found.text
    assert "holdfast triggers resume trg_early" in found.advice
