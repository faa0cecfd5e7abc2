"""The places of a profile, and the environment from which a process or task finds them.

All paths of Holdfast follow from this environment, so nothing is shared by accident.
"""

import os
import re
from pathlib import Path

from holdfast.config.environment import CONFIG, PREFIX, PROFILE
from holdfast.config.files import FILE_NAME, PROFILES, config_home, own_environ, root_of, scoped
from holdfast.config.load import load, read_environment
from holdfast.config.sources import BadConfiguration
from holdfast.tools.shell.marker import VARIABLE as MARK

MAIN = "default"  # the main configuration
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
PROFILES_MAX = 100
_MAIN_ONLY = (PREFIX, "API_SERVER_", "HERMES_")  # variables of the main configuration


def main_environ() -> dict[str, str]:
    """Return the environment of the main configuration."""
    return {name: value for name, value in own_environ().items() if name != PROFILE}


def folder_of(name: str) -> Path:
    """Return the configuration folder of a profile, whether or not it exists."""
    return config_home(main_environ()) / PROFILES / name


def profile_names() -> list[str]:
    """Return the profiles that exist. Blocks."""
    folder = config_home(main_environ()) / PROFILES
    try:
        with os.scandir(folder) as entries:
            found = sorted(entry.name for entry in entries if NAME.fullmatch(entry.name))
    except OSError:
        return []
    return [name for name in found if (folder / name / FILE_NAME).is_file()][:PROFILES_MAX]


def environ_of(name: str, data_dir: Path) -> dict[str, str]:
    """Return the environment of a profile, whose data is in a subfolder of the main data directory."""
    environ = {
        key: value for key, value in main_environ().items() if key == MARK or not key.startswith(_MAIN_ONLY)
    }
    return environ | {
        PROFILE: name,
        CONFIG: str(folder_of(name) / FILE_NAME),
        f"{PREFIX}DATA_DIR": str(data_dir / PROFILES / name),
    }


def main_data_dir() -> Path:
    """Return the data directory of the main configuration. Raises BadConfiguration. Blocks."""
    with scoped(main_environ()):
        # A process that works for a profile can start another one.
        return root_of(load(read_environment({})).settings.data_dir)


def choose(name: str) -> None:
    """Make this process work for the profile. Raises BadConfiguration if there is none. Blocks."""
    if name == MAIN:
        chosen = (
            (PROFILE, CONFIG, f"{PREFIX}DATA_DIR") if own_environ().get(PROFILE, MAIN) != MAIN else (PROFILE,)
        )
        for variable in chosen:  # as a process that works for a profile has them
            os.environ.pop(variable, None)  # noqa: TID251  # this is the edge
        return
    known = profile_names()
    if name not in known:
        listed = ", ".join(known) or "none"
        text = f"there is no profile {name!r} (profiles: {listed}); add it with `holdfast profiles add`"
        raise BadConfiguration([text])
    environ = environ_of(name, main_data_dir())
    os.environ.clear()  # noqa: TID251  # this is the edge
    os.environ.update(environ)  # noqa: TID251
