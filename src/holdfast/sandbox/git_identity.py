"""Who commits: the name and the address of your git settings, where your home folder is out of reach."""

import json
import subprocess
from collections.abc import Mapping

_KEYS = ("name", "email")
_ASK_S = 5.0


def git_identity(environment: Mapping[str, str]) -> str:
    """The part of a git configuration that names the user; empty if none is set. Starts git, so it blocks."""
    found = {key: value for key in _KEYS if (value := _setting(f"user.{key}", environment))}
    lines = [f"\t{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in found.items()]
    return "\n".join(["[user]", *lines, ""]) if lines else ""


def _setting(key: str, environment: Mapping[str, str]) -> str:
    try:
        asked = subprocess.run(  # noqa: S603 - nothing of anybody else's is in it
            ("git", "config", "--global", "--includes", "--get", key),  # noqa: S607 - as everywhere else
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
        return ""  # no git, so nobody commits either
    value = asked.stdout.strip()
    return value if asked.returncode == 0 and value.isprintable() else ""
