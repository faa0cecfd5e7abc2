"""Tags processes by lowering a resource limit that hardly anything needs and every descendant inherits.

Unlike an environment variable, the limit survives when a daemon clears its environment.
"""

import os
import posixpath
import resource
import subprocess
import sys
from contextlib import suppress

from holdfast.tools.shell.marker import Marker, foreground
from holdfast.tools.shell.process_table import ON_LINUX, tag_in_limits

BASH = "/bin/bash"
_CHECK_S = 10.0


def tagged(argv: tuple[str, ...], marker: Marker) -> tuple[str, ...]:
    """The same command for bash, which tags itself before it starts anything."""
    if not ON_LINUX or not argv or posixpath.basename(argv[0]) != "bash":
        return argv
    return (argv[0], "-c", 'ulimit -S -q "$0" 2>/dev/null; exec "$@"', str(marker.tag), *argv)


def put_tag(pid: int, marker: Marker) -> None:
    """Tag a program other than bash; it has just started, so its children inherit the tag."""
    if sys.platform == "linux":
        # Gone already, or its hard limit is lower: then its mark and its group must do.
        with suppress(OSError, ValueError):
            _, hard = resource.prlimit(pid, resource.RLIMIT_MSGQUEUE)
            resource.prlimit(pid, resource.RLIMIT_MSGQUEUE, (marker.tag, hard))


def why_daemons_hide(bash: str = BASH) -> str:
    """Why a daemon that cleared its environment cannot be found after a crash; empty if it can. Blocks."""
    if not ON_LINUX:
        return "on this system, processes that left their process group cannot be found after a crash"
    marker = foreground("check", "check")
    command = tagged((bash, "-c", "cat /proc/self/limits"), marker)
    try:
        checked = subprocess.run(  # noqa: S603 - nothing of anybody else's stands in it
            command, env={"PATH": os.defpath}, capture_output=True, check=False, timeout=_CHECK_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"daemons that clear their environment cannot be found after a crash ({error})"
    if tag_in_limits(checked.stdout) != marker.tag:
        return (
            "daemons that clear their environment cannot be found after a crash (`ulimit -q` has no effect)"
        )
    return ""
