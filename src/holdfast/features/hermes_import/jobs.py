"""The cron jobs of hermes-agent: each becomes a paused trigger, with a list of what differs."""

import os
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from pathlib import Path
from typing import Any, Self, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast import events as e
from holdfast.features.automations.events import (
    TriggerCreated,
)
from holdfast.features.automations.jobs import differences, settings_of
from holdfast.features.automations.schedules import BadSchedule, schedule_text, zone_named
from holdfast.features.automations.steps import schedule_of
from holdfast.features.automations.values import (
    TRIGGER,
    CronTimes,
    TriggerSettings,
    trigger_id_of,
)
from holdfast.features.hermes_import.home_files import read_home_file
from holdfast.interfaces.ids import new_epoch
from holdfast.interfaces.journal import Appended, IfSessionNew, Journal
from holdfast.redaction import Redactor

FILE_BYTES_MAX = 16 * 1024 * 1024
JOBS_MAX = 1_000
SCRIPT_CHARS_MAX = 10_000
_END = "END_OF_SCRIPT"
ZONE = "its times are in UTC; to change this, run `holdfast triggers edit NAME --zone ZONE`"


class HermesJob(Struct, frozen=True):
    """A job as a trigger, and what is different."""

    trigger_id: str
    settings: TriggerSettings
    differs: tuple[str, ...]

    @property
    def line(self) -> str:
        """The job in one line, for people."""
        differs = "".join(f"; {why}" for why in self.differs)
        return f"trigger {self.settings.name!r}: {schedule_text(self.settings.when)}, paused{differs}"

    def noting_absent(self, channels: AbstractSet[str]) -> Self:
        """The job, which also differs if a chat that gets its result is of none of these channels."""
        places = [one for one in self.settings.deliver if "://" not in one]
        absent = [one for one in places if one.partition(":")[0] not in channels]
        why = f"no channel for {', '.join(absent)}, so add one; the result is also on the page"
        return replace(self, differs=(*self.differs, why)) if absent else self


class HermesJobs(Struct):
    """The jobs of a home directory; `problems` says which can't be used."""

    jobs: list[HermesJob] = field(default_factory=list[HermesJob])
    problems: list[str] = field(default_factory=list[str])


def read_jobs(home: Path, *, now_ms: int, zone: str = "") -> HermesJobs:
    """Read the file of jobs, if there is one."""
    path, found = home / "cron" / "jobs.json", HermesJobs()
    try:
        raw = read_home_file(home, path, bytes_max=FILE_BYTES_MAX)
        table: Any = msgspec.json.decode(raw)
    except FileNotFoundError:
        return found
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
        found.problems.append(f"{path}: {error}")
        return found
    for job in _jobs_in(table):
        try:
            found.jobs.append(_job(job, now_ms, script=_script(home, job), zone=zone))
        except (BadSchedule, ValueError) as error:
            found.problems.append(f"cron job {str(job.get('name') or job.get('id'))[:100]!r}: {error}")
    return found


def local_zone() -> str:
    """Return this machine's time zone, in which hermes-agent's jobs run; empty if unknown. Blocks."""
    _, _, name = os.path.realpath("/etc/localtime").partition("/zoneinfo/")
    try:
        zone_named(name)
    except BadSchedule:
        return ""
    return name


def _jobs_in(table: Any) -> Iterator[Mapping[str, Any]]:
    listed: Any = cast("dict[str, Any]", table).get("jobs") if isinstance(table, dict) else table
    items = cast("Sequence[Any]", listed) if isinstance(listed, list) else ()
    for item in items[:JOBS_MAX]:
        if isinstance(item, dict):
            yield cast("dict[str, Any]", item)


def _script(home: Path, job: Mapping[str, Any]) -> str:
    """Return the script with its whole text, because the sandbox hides the home folder."""
    name = str(job.get("script") or "")
    if not name:
        return ""
    path = home / "scripts" / name
    try:
        text = read_home_file(home, path, bytes_max=SCRIPT_CHARS_MAX).decode().strip()
    except (OSError, ValueError):
        return ""
    if path.suffix in {".sh", ".bash"}:
        return text
    return f"python3 - <<'{_END}'\n{text}\n{_END}" if path.suffix == ".py" and _END not in text else ""


def _job(job: Mapping[str, Any], now_ms: int, *, script: str, zone: str) -> HermesJob:
    settings = replace(settings_of(job, now_ms=now_ms), script=script)
    if zone and isinstance(settings.when, CronTimes):
        settings = replace(settings, when=replace(settings.when, zone=zone))
    job = {name: value for name, value in job.items() if name != "script" or not script}
    schedule = schedule_of(settings.when, anchor_ms=now_ms, zones=zone_named)
    if schedule is None or schedule.after(now_ms) is None:
        raise BadSchedule("its time has passed or never comes")
    name = str(job.get("id") or settings.name)
    digest = sha256(f"hermes/{name}".encode("utf-8", "surrogatepass")).hexdigest()
    in_utc = [ZONE] if isinstance(settings.when, CronTimes) and not zone else []
    return HermesJob(trigger_id_of(digest), settings, (*in_utc, *differences(job)))


async def store_jobs(
    journal: Journal, jobs: Sequence[HermesJob], *, owner: str, hidden: Redactor, now_ms: int
) -> list[HermesJob]:
    """Store them as paused triggers of the key `owner`; return those that weren't there."""
    added: list[HermesJob] = []
    for job in jobs:
        created = e.SessionCreated(at_ms=now_ms, epoch=new_epoch(), source=TRIGGER)
        made = TriggerCreated(at_ms=now_ms, settings=job.settings, paused=True, key=owner)
        inputs = [created, cast("TriggerCreated", hidden.redact(made))]
        result = await journal.append(job.trigger_id, inputs, when=[IfSessionNew()])
        if isinstance(result, Appended):
            added.append(job)
    return added
