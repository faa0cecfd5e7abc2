"""The marker that every process of a tool call inherits, so that it can be found.

Tags processes by lowering a resource limit that hardly anything needs and every descendant inherits. Unlike
an environment variable, the limit survives when a daemon clears its environment.
"""

import os
import posixpath
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import blake2b
from secrets import token_hex
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

from holdfast.tools.shell.process_table import ON_LINUX, tag_in_limits

VARIABLE = "HOLDFAST_RUN"
_FIELDS = 4
# A limit may well be lowered to such a number; which half it is in tells the two kinds apart.
_TAG_MIN, _TAGS = 100_000, 350_000


class Marker(Struct, frozen=True, kw_only=True):
    """Which call of which run started a process; `nonce` distinguishes executions of one call."""

    run_id: str
    tool_call_id: str
    nonce: str
    background: bool = False  # started to outlive its call, on purpose

    @property
    def tag(self) -> int:
        """The number that identifies a process that has cleared its environment.

        In the foreground it depends on the call alone, so that a server can compute it for what an earlier
        one started. Each background process has its own: its whole marker is stored, and others of the same
        call may run at the same time.
        """
        named = f"{_quoted(self.run_id)}:{_quoted(self.tool_call_id)}"
        if self.background:
            named += f":{self.nonce}"
        number = int.from_bytes(blake2b(named.encode(), digest_size=8).digest()) % _TAGS
        return _TAG_MIN + number + (_TAGS if self.background else 0)

    def __str__(self) -> str:
        kind = "background" if self.background else "foreground"
        return ":".join((_quoted(self.run_id), _quoted(self.tool_call_id), self.nonce, kind))


def foreground(run_id: str, tool_call_id: str) -> Marker:
    """A new marker for a process that must end with its call."""
    return Marker(run_id=run_id, tool_call_id=tool_call_id, nonce=token_hex(8))


def background(run_id: str, tool_call_id: str) -> Marker:
    """A new marker for a process that may outlive its call."""
    return replace(foreground(run_id, tool_call_id), background=True)


def marked(environment: Mapping[str, str], marker: Marker) -> dict[str, str]:
    """The environment with the marker in it."""
    # A Holdfast that runs inside a tool of another Holdfast adds its mark and keeps the outer one, so that
    # the outer stop finds what the inner one started.
    outer = environment.get(VARIABLE, "")
    return {**environment, VARIABLE: f"{outer} {marker}".strip()}


def foreground_tag(run_id: str, tool_call_id: str) -> int:
    """The tag of all executions of one call in the foreground."""
    return Marker(run_id=run_id, tool_call_id=tool_call_id, nonce="").tag


def is_background(tag: int) -> bool:
    """Whether a tag belongs to a process that may outlive its call."""
    return _TAG_MIN + _TAGS <= tag < _TAG_MIN + 2 * _TAGS


def is_foreground(tag: int) -> bool:
    """Whether a tag belongs to a process that must end with its call."""
    return _TAG_MIN <= tag < _TAG_MIN + _TAGS


def tag_in(text: str) -> int:
    """The tag of the marker in the text; 0 if it is not a marker."""
    marker = parsed(text)
    return marker.tag if marker is not None else 0


def markers_in(environ: bytes) -> Iterator[Marker]:
    """The markers in an environment as /proc shows it."""
    if (VARIABLE + "=").encode() not in environ:
        return
    prefix = (VARIABLE + "=").encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            for text in entry[len(prefix) :].decode("utf-8", "replace").split(" "):
                marker = parsed(text)
                if marker is not None:
                    yield marker


def parsed(text: str) -> Marker | None:
    """The marker in the text; None if it is not a marker."""
    fields = text.split(":")
    if len(fields) != _FIELDS or fields[3] not in {"background", "foreground"}:
        return None
    return Marker(
        run_id=unquote(fields[0]),
        tool_call_id=unquote(fields[1]),
        nonce=fields[2],
        background=fields[3] == "background",
    )


def _quoted(text: str) -> str:
    # A tool call's id is the provider's and can contain anything, even a NUL.
    return quote(text, safe="")


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
