"""The marker that every process of a tool call inherits, so that it can be found."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from secrets import token_hex
from urllib.parse import quote, unquote

from msgspec import Struct
from msgspec.structs import replace

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
