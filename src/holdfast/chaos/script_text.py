"""Scripts as text: `say hel; hang | say hello` is two attempts.

Steps are separated by `;`, attempts by `|` or a new line; a line that starts with `#` is a comment. A step
is its name and its arguments in order, or as `name=value`; what `say` and the like say needs no quotes
unless it holds `;`, `|` or several spaces. The names are those of the Python steps, in kebab case.
"""

import difflib
import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast, get_origin

import msgspec

from holdfast.chaos import faults, statuses, steps
from holdfast.chaos.stage import Script, Step

_Step = TypeVar("_Step")
ATTEMPTS_MAX = 1_000
STEPS_MAX = 1_000

_STEPS: Sequence[Callable[..., Step]] = (
    steps.Say,
    steps.SayWords,
    steps.Think,
    steps.CallTool,
    steps.CutCall,
    steps.Refuse,
    steps.OpenItem,
    steps.CloseItem,
    steps.Begin,
    steps.Lifecycle,
    steps.Finish,
    steps.ErrorEvent,
    steps.Pause,
    faults.Hang,
    faults.Headers,
    faults.KeepAlive,
    faults.Drip,
    faults.SayInTwoWrites,
    faults.Flood,
    faults.Raw,
    faults.Comment,
    faults.Malformed,
    faults.EndOfBody,
    faults.HangUp,
    faults.Drop,
    faults.CloseOnReuse,
    faults.ReadOnly,
    faults.ReadSlowly,
    faults.ReadRest,
    statuses.Status,
    statuses.rate_limited,
    statuses.rate_limited_s,
    statuses.rate_limited_ms,
    statuses.rate_limited_reset,
    statuses.insufficient_quota,
    statuses.overloaded,
    statuses.overloaded_s,
    statuses.server_error,
    statuses.bad_key,
    statuses.model_missing,
    statuses.context_overflow,
    statuses.too_large,
)


class BadScript(ValueError):
    """A text that is not a valid script."""


def _kebab(name: str) -> str:
    spaced = "".join(f"-{letter}" if letter.isupper() else letter for letter in name)
    return spaced.lower().replace("_", "-").strip("-")


WORDS: Mapping[str, Callable[..., Step]] = {_kebab(step.__name__): step for step in _STEPS}


def parse_attempts(text: str) -> list[Script]:
    """The attempts of a script text; raises BadScript, which names the bad step and the nearest right one."""
    return [*parse_steps(text, WORDS)]


def parse_steps(text: str, known: Mapping[str, Callable[..., _Step]]) -> list[list[_Step]]:
    """The same for a vocabulary of your own."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    parts = [part for line in lines for part in _split(_words(line), "|")]
    if not parts:
        raise BadScript("the script has no step; try: say hello")
    if len(parts) > ATTEMPTS_MAX:
        raise BadScript(f"the script has {len(parts)} attempts; at most {ATTEMPTS_MAX} are taken")
    return [_parse_attempt(part, known, number) for number, part in enumerate(parts, 1)]


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line, posix=True, punctuation_chars=";|")
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError as error:
        raise BadScript(f"a quote is not closed in: {line.strip()}") from error


def _split(words: list[str], separator: str) -> list[list[str]]:
    parts: list[list[str]] = [[]]
    for word in words:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def _parse_attempt(words: list[str], known: Mapping[str, Callable[..., _Step]], number: int) -> list[_Step]:
    parts = [part for part in _split(words, ";") if part]
    if not parts:
        raise BadScript(f"attempt {number} has no step; an answer without content is: finish")
    if len(parts) > STEPS_MAX:
        raise BadScript(f"attempt {number} has {len(parts)} steps; at most {STEPS_MAX} are taken")
    return [
        _parse_step(part, known, f"attempt {number}, step {index}") for index, part in enumerate(parts, 1)
    ]


def _parse_step(words: list[str], known: Mapping[str, Callable[..., _Step]], where: str) -> _Step:
    name, *rest = words
    build = known.get(name)
    if build is None:
        raise BadScript(f"{where}: {name!r} is not a step{nearest(name, known)}")
    parameters = inspect.signature(build).parameters
    given = _assign(rest, list(parameters), f"{where}: {name!r}")
    missing = [key for key, one in parameters.items() if one.default is one.empty and key not in given]
    if missing:
        raise BadScript(f"{where}: {name!r} needs {', '.join(missing)}")
    return build(
        **{key: _converted(word, parameters[key], f"{where}: {name!r}") for key, word in given.items()}
    )


def _assign(words: list[str], order: list[str], where: str) -> dict[str, str]:
    given: dict[str, str] = {}
    positional: list[str] = []
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in order:
            given[key] = value
        else:
            positional.append(word)
    if order[:1] == ["text"] and positional:
        positional = [" ".join(positional)]
    if len(positional) > len(order):
        known = ", ".join(order) or "no arguments"
        raise BadScript(f"{where} does not understand {positional[len(order)]!r}; it takes {known}")
    return {**given, **dict(zip(order, positional, strict=False))}


def _converted(word: str, parameter: inspect.Parameter, where: str) -> object:
    hint = cast("type[object]", parameter.annotation)
    try:
        if get_origin(hint) is Mapping:
            return msgspec.json.decode(word, type=dict[str, object])
        return msgspec.convert(word, type=hint, strict=False)
    except (msgspec.MsgspecError, TypeError) as error:
        example = """, which is JSON in quotes: '{"key": "value"}'""" if get_origin(hint) is Mapping else ""
        raise BadScript(f"{where} cannot take {word!r} as {parameter.name}{example}") from error


def nearest(name: str, known: Mapping[str, object]) -> str:
    """A hint at the known name that is closest, or at all of them."""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(sorted(known))}"
