"""The environment of child processes: what programs need, and no secrets."""

from collections.abc import Iterable, Mapping

# Names that are passed on. Everything else stays here: keys and tokens have too many names to list.
PASSED_ON = frozenset(
    [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "HOSTNAME",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "PYENV_ROOT",
        "JAVA_HOME",
        "GOPATH",
        "GOROOT",
        "GOCACHE",
        "CARGO_HOME",
        "RUSTUP_HOME",
        "NVM_DIR",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "HOLDFAST_RUN",
    ]
)
_FIXED = {
    # There is no terminal: no colors, no pager, no password prompt that waits forever.
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    # A command that only looks stores nothing, so it neither waits for a lock nor runs a hook for storing it.
    "GIT_OPTIONAL_LOCKS": "0",
}
# Git settings that a repository can't override. Each of these is harmless to a command
# that a person approved; what could not be set without breaking one (hooks, filters, ssh) is found by the
# approval policy instead.
_GIT_SETTINGS = {
    "core.fsmonitor": "false",  # a program that git runs to learn what changed
    "safe.bareRepository": "explicit",  # a folder that only looks like a repository brings no settings along
}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def child_environment(source: Mapping[str, str], *, also: Iterable[str] = ()) -> dict[str, str]:
    """The part of the given environment that a child gets; `also` names more to pass on."""
    names = PASSED_ON | set(also)
    passed = {name: value for name, value in source.items() if name in names or name.startswith("LC_")}
    path = _absolute(passed.get("PATH", _PATH)) or _PATH
    return {"LANG": "C.UTF-8", **passed, "PATH": path, **_FIXED, **_for_git()}


def _for_git() -> dict[str, str]:
    """Git settings as environment variables, which override every file."""
    found = {"GIT_CONFIG_COUNT": str(len(_GIT_SETTINGS))}
    for nth, (key, value) in enumerate(_GIT_SETTINGS.items()):
        found |= {f"GIT_CONFIG_KEY_{nth}": key, f"GIT_CONFIG_VALUE_{nth}": value}
    return found


def _absolute(path: str) -> str:
    """A PATH without relative folders, where someone may have put an `ls`."""
    return ":".join(place for place in path.split(":") if place.startswith("/"))
