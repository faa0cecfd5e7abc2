"""Finds the hosts that a command connects to: in its words, or in the settings of package managers and git.

A person approves exactly these, so a command that would be blocked without them needs one approval, not two.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from holdfast.policy.host_rules import EVERY_HOST, plain_name
from holdfast.sandbox.workspace_scan import beginning_of

HOSTS_MAX = 20
_COMMAND_CHARS_MAX = 4_000  # longer commands aren't searched for hosts
_FILE_BYTES_MAX = 64 * 1024
_FETCH = frozenset(("curl", "wget", "aria2c", "http", "https"))
_GIT_FETCHES = frozenset(("clone", "fetch", "pull", "push", "ls-remote", "submodule"))
_PACKAGE_MANAGERS = frozenset(
    (
        *("pip", "pip3", "uv", "poetry", "pdm", "pipenv", "npm", "pnpm", "bun", "yarn"),
        *("cargo", "gem", "bundle", "go", "mvn", "composer", "dotnet"),
    )
)
_NPM_SETTINGS = ("npm_config_registry", "NPM_CONFIG_REGISTRY")
_SETTINGS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("pip", "pip3", "pipenv"), ("PIP_INDEX_URL",)),
    "uv": ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX"),
    **dict.fromkeys(("npm", "pnpm", "bun"), _NPM_SETTINGS),
    "yarn": ("YARN_NPM_REGISTRY_SERVER", *_NPM_SETTINGS),
    "go": ("GOPROXY",),
}
_READ_NPMRC = frozenset(("npm", "pnpm", "bun", "yarn"))
_INSTALLS = frozenset(
    (
        "install",
        "i",
        "ci",
        "add",
        "sync",
        "get",
        "fetch",
        "update",
        "download",
        "upgrade",
        "require",
        "restore",
    )
)
_OFFLINE = frozenset(("--offline", "--no-index"))
_URL = re.compile(r"(?:git\+)?https?://(?:[^@/\s]*@)?([A-Za-z0-9][A-Za-z0-9.-]*)(?::(\d{1,5}))?(?:[/?#]|$)")
_BETWEEN = re.compile(r"[\s,|]+")
_NPMRC = re.compile(rb"^\s*(@[^:\s]+:)?registry\s*=\s*(\S+)", re.MULTILINE)
_REMOTE = re.compile(rb'^\s*\[\s*remote\s+"([^"\n]+)"\s*\]|^\s*url\s*=\s*(\S+)', re.MULTILINE)
_LOOPBACK = re.compile(r"localhost|.*\.localhost|127\..*|0\.0\.0\.0")
_ENDS_A_COMMAND = frozenset(";&|()")


def hosts_of(command: str, *, environment: Mapping[str, str], workspace: Path) -> tuple[str, ...]:
    """The hosts that a command connects to, each a name, name:port or EVERY_HOST. Reads settings: blocks."""
    found: dict[str, None] = {}
    for words in _simple_commands(command):
        if not (_is_fetch(words) or _is_install(words)):
            continue
        named = [host for word in words[1:] if (host := _host(word))]
        if not named and not any(map(_URL.match, words)) and _OFFLINE.isdisjoint(words):
            named = list(_configured(words, environment, workspace))
        found |= dict.fromkeys(named)
    return tuple(found)[:HOSTS_MAX]


def may_install(command: str) -> bool:
    """Whether a command may make a package manager or git download something."""
    return any(
        _is_install(words) or (words[0] == "git" and _is_fetch(words)) for words in _simple_commands(command)
    )


def is_loopback(host: str) -> bool:
    """Whether a host name is this machine's."""
    return _LOOPBACK.fullmatch(host) is not None


def _is_fetch(words: list[str]) -> bool:
    """Whether a program that is given addresses connects to them."""
    program = words[0].rpartition("/")[2]
    return program in _FETCH or (program == "git" and not _GIT_FETCHES.isdisjoint(words[1:4]))


def _is_install(words: list[str]) -> bool:
    words = _package_manager(words)
    program = words[0].rpartition("/")[2]
    alone = program in {"yarn", "bundle"} and len(words) == 1
    return program in _PACKAGE_MANAGERS and (alone or not _INSTALLS.isdisjoint(words[1:4]))


def _package_manager(words: list[str]) -> list[str]:
    return words[2:] if words[0].startswith("python") and words[1:3] == ["-m", "pip"] else words


def _host(word: str) -> str:
    """The host of an address, or of the one that an option is given; empty if there is none."""
    match = _URL.match(word.rpartition("=")[2] if word.startswith("-") else word)
    if match is None or is_loopback(match[1]):
        return ""
    port = match[2] if match[2] not in {None, "80", "443"} else ""
    return f"{plain_name(match[1])}:{port}".rstrip(":")


def _configured(words: list[str], environment: Mapping[str, str], workspace: Path) -> Iterator[str]:
    """The hosts that a program is set to connect to if its words name none."""
    words = _package_manager(words)
    program = words[0].rpartition("/")[2]
    if program == "git":
        yield from _remote_hosts(words, workspace)
        return
    texts = [environment.get(name, "") for name in _SETTINGS.get(program, ())]
    hosts = [host for text in texts for url in _BETWEEN.split(text) if (host := _host(url))]
    scoped: list[str] = []
    if program in _READ_NPMRC:
        for scope, url in _NPMRC.findall(_contents(workspace / ".npmrc")):
            (scoped if scope else hosts).append(_host(url.decode("utf-8", "replace")))
    # Its default registry, and the hosts that this refers to, are known to the program alone.
    yield from filter(None, (*(hosts or (EVERY_HOST,)), *scoped))


def _remote_hosts(words: list[str], workspace: Path) -> Iterator[str]:
    """Yield the host of the remote in a git command, or of `origin`."""
    remotes: dict[str, str] = {}
    name = ""
    for section, url in _REMOTE.findall(_contents(workspace / ".git" / "config")):
        name = section.decode("utf-8", "replace") or name
        if url and (host := _host(url.decode("utf-8", "replace"))):
            remotes.setdefault(name, host)
    chosen = next((word for word in words if word in remotes), "origin")
    if chosen in remotes:
        yield remotes[chosen]


def _contents(path: Path) -> bytes:
    return beginning_of(str(path), bytes_max=_FILE_BYTES_MAX)


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each command in a command line, without assignments; nothing if it can't be read."""
    if len(command) > _COMMAND_CHARS_MAX:
        return
    lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        for word in (*lexer, ";"):
            if _ENDS_A_COMMAND.isdisjoint(word) or not _ENDS_A_COMMAND.issuperset(word):
                words += [word] if words or not re.match(r"\w+=", word) else []
                continue
            if words:
                yield words
            words = []
    except ValueError:
        return  # an open quote
