"""Makes the profiles of MCP servers: they see the system and your home folder, but no secrets.

A server is a program that you chose, and it must go on working as before. So whatever its command line or its
environment names is writable, and what package runners write goes to folders of its own.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from holdfast.policy.secret_names import is_secret
from holdfast.sandbox.network_proxy import read_inside
from holdfast.sandbox.profile import Profile, ServerAccess
from holdfast.sandbox.system_files import SYSTEM_FOLDERS, is_below, is_in, outermost, toolchains
from holdfast.sandbox.workspace_scan import WorkspaceScan

HOME_DEPTH_MAX = 4
_HOME_ENTRIES_MAX = 100_000
# They start a server in a container, through a socket that leads around every sandbox.
_CONTAINER_ENGINES = frozenset(("docker", "podman", "nerdctl"))
_CACHES = (".npm", ".cache")
# What well-known servers keep in the home folder: the sign-ins of mcp-remote are of no use to anybody else.
_KEPT_IN_HOME = {"mcp-remote": ".mcp-auth"}
_NOT_WRITABLE = (*SYSTEM_FOLDERS, "/etc", "/proc", "/sys", "/dev", "/run", "/boot")
_REPLACED = ("/tmp", "/var/tmp", "/run", "/etc")  # noqa: S108 - a server has its own
_BETWEEN = re.compile(r"[\s=:,;'\"]+")
_WORDS_MAX = 500


class ServerProfiles:
    """Makes the profile of each server. Looks at files, so it blocks.

    `folder` is where the servers' own caches are kept, `own` what of Holdfast no server ever reaches.
    """

    def __init__(self, home: Path, folder: Path, *, own: Iterable[str] = ()) -> None:
        self._home = os.path.realpath(home)
        self._folder = folder.absolute()  # a server may start in another folder
        self._own = tuple(map(os.path.realpath, own))
        self._home_scan = WorkspaceScan(entries_max=_HOME_ENTRIES_MAX, depth_max=HOME_DEPTH_MAX)
        self._scan = WorkspaceScan()

    def profile(
        self,
        label: str,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        cwd: str,
        access: ServerAccess,
    ) -> Profile | None:
        """What this server may reach; None if it starts a container, which is confined by itself.

        `environment` is what its configuration declares.
        """
        if command[0].rpartition("/")[2] in _CONTAINER_ENGINES:
            return None
        home = self._home if os.path.isdir(self._home) and self._home != "/" else "/tmp/home"  # noqa: PTH112, S108
        words = (*command[1:], *environment.values())
        write = {*_existing(access.write), *_granted(_named(words, cwd), home), *self._in_home(command)}
        named = {*_existing(access.read), *(path for path in _named(words, cwd) if is_secret(path))}
        caches = [f"{home}/{name}" for name in _CACHES]
        if access.caches:
            write |= set(_existing(caches))
        found = [self._home_scan.look(home), *(self._scan.look(path) for path in sorted(write))]
        secret = {path for each in found for path in each.secret} | set(self._own)
        masked = {path for path in secret if not is_in(path, named) and path not in write}
        read = [path for path in _entries(home) if path not in masked and path not in caches]
        read += [*_programs(command[0], home, cwd), *(read_inside() if access.network == "hosts" else ())]
        masked = {path for path in masked if self._is_seen(path, read, write)}
        return Profile(
            workspace="",
            cwd=cwd,
            home=home,
            base="whole",
            kept=tuple(self._kept(label, [path for path in caches if path not in write])),
            write=tuple(sorted(write)),
            read=(*dict.fromkeys(read), *sorted(named)),
            masked=tuple(sorted(outermost(masked))),
            network=access.network,
            hosts=access.hosts,
            unmasked=sum(each.unmasked for each in found),
            searched=all(each.searched for each in found),
        )

    def _kept(self, label: str, caches: list[str]) -> Iterator[tuple[str, str]]:
        for path in caches:
            own = self._folder / label / path.rpartition("/")[2]
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            yield str(own), path

    def _in_home(self, command: tuple[str, ...]) -> Iterator[str]:
        for word in command:
            name = _KEPT_IN_HOME.get(word.partition("@")[0])
            if name is not None:
                yield from _existing([f"{self._home}/{name}"])

    def _is_seen(self, path: str, read: list[str], write: set[str]) -> bool:
        """Whether it is there to be hidden; of a replaced folder, only what is mounted in it is."""
        is_replaced = is_in(path, (self._home, *_REPLACED))
        return os.path.lexists(path) and (not is_replaced or is_in(path, (*read, *write)))


def _named(words: Iterable[str], cwd: str) -> Iterator[str]:
    """The real paths that words name: existing ones, and ones that can be made in an existing folder."""
    for word in list(words)[:_WORDS_MAX]:
        for text in {word, *_BETWEEN.split(word)}:
            if "\0" in text or not text:
                continue
            path = os.path.realpath(os.path.join(cwd, os.path.expanduser(text)))  # noqa: PTH111, PTH118
            is_path = text.startswith(("/", "~/", "./", "../"))
            if os.path.lexists(path) or (is_path and os.path.isdir(os.path.dirname(path))):  # noqa: PTH112, PTH120
                yield path


def _granted(named: Iterable[str], home: str) -> Iterator[str]:
    """Return the writable folder: the given one, or the one that contains the file."""
    for path in named:
        if is_in(path, _NOT_WRITABLE) or is_secret(path):
            continue
        folder = path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120
        is_named = folder == path
        if not is_below(home, folder) or (folder == home and is_named):
            yield folder
        elif not is_named and os.path.isfile(path):  # noqa: PTH113
            yield path


def _programs(program: str, home: str, cwd: str) -> Iterator[str]:
    """Where a program that is named by its path is installed, if that isn't there anyway."""
    if "/" in program:
        place = os.path.dirname(os.path.normpath(os.path.join(cwd, program)))  # noqa: PTH118, PTH120
        yield from toolchains(home, {"PATH": place})


def _entries(folder: str) -> list[str]:
    """Return the entries of the home folder; of links, only those that lead outside, to nothing secret."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((entry.path, entry.is_symlink()) for entry in entries)
    except OSError:
        return []
    return [path for path, is_link in found if not is_link or _leads_out(path, folder)]


def _leads_out(link: str, folder: str) -> bool:
    real = os.path.realpath(link)
    return os.path.exists(real) and not is_below(real, folder) and not is_secret(real)  # noqa: PTH110


def _existing(paths: Iterable[str]) -> Iterator[str]:
    return (real for path in paths if os.path.lexists(real := os.path.realpath(path)))
