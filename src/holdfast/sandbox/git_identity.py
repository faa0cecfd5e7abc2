"""Who commits: the name and the address of your git settings, where your home folder is out of reach."""

import json
import subprocess
from collections.abc import Mapping

_KEYS = ("name", "email")
_ASK_S = 5.0


def git_identity(environment: Mapping[str, str]) -> str:
    """The part of a git configuration that names the user; empty if none is set. Starts git, so it blocks."""
    found = _settings(environment)
    lines = [f"\t{key} = {json.dumps(found[key], ensure_ascii=False)}" for key in _KEYS if found.get(key)]
    return "\n".join(["[user]", *lines, ""]) if lines else ""


def _settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The printable values of the keys; of several values, git uses the last."""
    try:
        asked = subprocess.run(
            ("git", "config", "--global", "--includes", "-z", "--get-regexp", r"^user\.(name|email)$"),  # noqa: S607 - as everywhere else
            env=dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_ASK_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}  # no git, so nobody commits either
    pairs = (entry.partition("\n") for entry in asked.stdout.split("\0"))
    values = {name.removeprefix("user."): value.strip() for name, _, value in pairs}
    return {key: value for key, value in values.items() if value.isprintable()}
