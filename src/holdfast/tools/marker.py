"""The mark that every process of a tool call inherits, so that it is found wherever it went."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from secrets import token_hex
from urllib.parse import quote, unquote

VARIABLE = "HOLDFAST_RUN"
_FIELDS = 4
_TAG_MIN, _TAG_MAX = 100_000, 800_000  # what the limit that carries it may well be lowered to


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """Which call of which run started a process; `nonce` tells two executions of one call apart."""

    run_id: str
    tool_call_id: str
    nonce: str
    background: bool = False  # started to outlive its call, on purpose

    @property
    def tag(self) -> int:
        """The number by which a process is known that has thrown its environment away."""
        return _TAG_MIN + int(self.nonce, 16) % (_TAG_MAX - _TAG_MIN)

    def __str__(self) -> str:
        kind = "background" if self.background else "foreground"
        return ":".join((_quoted(self.run_id), _quoted(self.tool_call_id), self.nonce, kind))


def foreground(run_id: str, tool_call_id: str) -> Marker:
    """A new mark for what must end with its call."""
    return Marker(run_id=run_id, tool_call_id=tool_call_id, nonce=token_hex(8))


def background(run_id: str, tool_call_id: str) -> Marker:
    """A new mark for what may outlive its call."""
    return replace(foreground(run_id, tool_call_id), background=True)


def marked(environment: Mapping[str, str], marker: Marker) -> dict[str, str]:
    """The environment with the mark in it."""
    # A Holdfast that runs inside a tool of another Holdfast adds its mark and keeps the outer one, so that
    # the outer stop finds what the inner one started.
    outer = environment.get(VARIABLE, "")
    return {**environment, VARIABLE: f"{outer} {marker}".strip()}


def tag_in(text: str) -> int:
    """The tag of the marker that the text stands for; 0 if it stands for none of ours."""
    marker = _parsed(text)
    try:
        return marker.tag if marker is not None else 0
    except ValueError:
        return 0  # anybody may write to an environment: the nonce is no number


def markers_in(environ: bytes) -> Iterator[Marker]:
    """The marks in an environment as /proc shows it."""
    if (VARIABLE + "=").encode() not in environ:
        return
    prefix = (VARIABLE + "=").encode()
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            for text in entry[len(prefix) :].decode("utf-8", "replace").split(" "):
                marker = _parsed(text)
                if marker is not None:
                    yield marker


def _parsed(text: str) -> Marker | None:
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
    # A tool call's id is the provider's: anything may stand in it, a NUL too.
    return quote(text, safe="")
