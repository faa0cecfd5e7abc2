"""Reads the command lines that people wait for without the parser, whose import takes longer than all else.

What it does not know for sure it leaves to the parser, which has the errors, the help and all the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from holdfast.cli.launch import Chat, Run, Serve, Start

PORT_DIGITS = 5
_COMMON = {
    "--model": "model",
    "--workspace": "workspace",
    "--data-dir": "data_dir",
    "--config": "config",
}
_SESSION = {"--session": "session", "-s": "session"}


@dataclass(frozen=True, slots=True)
class _Shape:
    """A command's options, by the field that each fills."""

    make: Callable[..., Start]
    texts: Mapping[str, str]
    flags: Mapping[str, str] = field(default_factory=dict[str, str])


_SHAPES: Mapping[str, _Shape] = MappingProxyType(
    {
        "run": _Shape(Run, _COMMON | _SESSION, {"--json": "as_json"}),
        "chat": _Shape(Chat, _COMMON | _SESSION),
        "serve": _Shape(Serve, _COMMON | {"--host": "host"}, {"--no-auth": "no_auth"}),
    }
)


def quick(line: Sequence[str]) -> Start | None:
    """What the line asks for, if it is one of these and has nothing unusual."""
    if not line or line[0].partition("=")[0] in _SHAPES["chat"].texts:
        return _read(_SHAPES["chat"], line)  # without a command it is the chat, with its options
    shape = _SHAPES.get(line[0])
    return None if shape is None else _read(shape, line[1:])


def _read(shape: _Shape, line: Sequence[str]) -> Start | None:
    given: dict[str, Any] = {}
    words: list[str] = []
    rest = iter(line)
    for word in rest:
        name, equals, behind = word.partition("=")
        if word in shape.flags:
            given[shape.flags[word]] = True
        elif name in shape.texts and (name.startswith("--") or not equals):
            value = behind if equals else next(rest, "")
            if value.startswith("-") or not value:
                return None
            given[shape.texts[name]] = value
        elif word == "--port" and shape.make is Serve:
            value = next(rest, "")
            if not (value.isascii() and value.isdigit()) or len(value) > PORT_DIGITS:
                return None
            given["port"] = int(value)
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    if words and shape.make is not Run:
        return None
    return shape.make(**given, words=words) if words else shape.make(**given)
