"""Time zones by name, from the system's database or the one that comes with the package."""

from datetime import tzinfo
from zoneinfo import ZoneInfo

from holdfast.features.automations.schedules import BadSchedule


def zone_named(name: str) -> tzinfo:
    """The time zone; raises BadSchedule. Reads a file."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError) as error:
        raise BadSchedule(f"there is no time zone {name[:100]!r}; an example is Europe/Berlin") from error
