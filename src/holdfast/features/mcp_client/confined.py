"""MCP servers in the sandbox: what each one runs in, and what the sandbox kept a server from."""

import logging
import os
import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from holdfast.config.mcp_servers import McpServerConfig
from holdfast.sandbox.confinement import Confinement
from holdfast.sandbox.profile import Profile
from holdfast.sandbox.sandbox import Sandbox
from holdfast.sandbox.server_profiles import ServerProfiles
from holdfast.sandbox.system_files import is_in

_log = logging.getLogger(__name__)

_NAMED_MAX = 5
_PATH = re.compile(r"(?<![\w/])/[^\s'\"`:,;()\[\]{}<>|]{2,400}")
_REFUSED = re.compile(
    r"read-only file system|permission denied|EROFS|EACCES|EPERM|not permitted", re.IGNORECASE
)
_MISSING = re.compile(r"no such file|not found|ENOENT|does not exist", re.IGNORECASE)
_SOCKETS = re.compile(r"\.sock\b|AF_UNIX|unix socket|/run/|EACCES.*socket|docker daemon", re.IGNORECASE)
_SETTING = "[mcp_servers.sandbox]"


class ServerConfiner(Struct, frozen=True):
    """Confines the MCP servers of one Holdfast."""

    opened: Callable[[], Sandbox]  # blocks until it's tested
    profiles: ServerProfiles

    def confinement(self, label: str, config: McpServerConfig) -> Confinement | None:
        """Return a server's confinement; None without a sandbox. Reads files, so it blocks.

        Only bubblewrap can hide the secrets of an otherwise readable home folder.
        """
        if config.access is None or (sandbox := self.opened()).backend != "bubblewrap":
            return None
        cwd = os.path.realpath(config.cwd or os.getcwd())  # noqa: PTH109
        profile = self.profiles.profile(label, config.command, config.env, cwd=cwd, access=config.access)
        if profile and profile.shortfall:
            _log.warning("MCP server %s: %s", label, profile.shortfall)
        return Confinement(sandbox, profile) if profile else None


def variables(confinement: Confinement | None) -> dict[str, str]:
    """Return the sandbox's variables for a server's environment: uv keeps its tools next to its cache."""
    return {"UV_TOOL_DIR": f"{confinement.profile.home}/.cache/uv-tools"} if confinement else {}


def blocked(profile: Profile, said: str) -> str:
    """Guess from a server's output what the sandbox blocked. Blocks."""
    found = list(dict.fromkeys(_blocked(profile, said)))[:_NAMED_MAX]
    if found:
        return f'the sandbox {" and ".join(found)}; set mode = "off" there to run it without a sandbox'
    if profile.network == "on" and _SOCKETS.search(said):
        return (
            f'the sandbox blocks Unix sockets; set mode = "off" under {_SETTING} to run it without a sandbox'
        )
    return f'it ran in the sandbox; if that\'s the cause, set mode = "off" under {_SETTING}'


def _blocked(profile: Profile, said: str) -> Iterator[str]:
    for line in said.splitlines():
        for path in map(str.rstrip, _PATH.findall(line), [".)'\""] * 99):
            hidden = is_in(path, profile.masked) or _is_left_out(path, profile)
            if hidden and (_MISSING.search(line) or _REFUSED.search(line)):
                yield f"hides {path} (add it to read under {_SETTING})"
            elif _REFUSED.search(line) and not is_in(
                path, (*profile.write, *(inside for _, inside in profile.kept))
            ):
                yield f"kept it from changing {path} (add it to write under {_SETTING})"


def _is_left_out(path: str, profile: Profile) -> bool:
    """Whether it is a secret of the home folder, or in another /tmp, /run or /etc."""
    shown = (*profile.read, *profile.write, *(inside for _, inside in profile.kept))
    elsewhere = (profile.home, "/tmp", "/run", "/etc")  # noqa: S108 - the command has its own
    if path == profile.home or not os.path.lexists(path) or is_in(path, shown):
        return False
    return is_in(path, elsewhere)
