"""Ready-made scenarios, chosen by model name (`chaos/stall`) or by the header `x-chaos`.

Scripts as text: `say hel; hang | say hello` is two attempts. Steps are separated by `;`, attempts by `|` or a
new line; a line that starts with `#` is a comment. A step is its name and its arguments in order, or as
`name=value`; what `say` and the like say needs no quotes unless it holds `;`, `|` or several spaces. The
names are those of the Python steps, in kebab case.
"""

import difflib
import inspect
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast, get_origin

import msgspec
from msgspec import Struct, field

from holdfast.chaos import faults, statuses, steps
from holdfast.chaos.record import SeenRequest
from holdfast.chaos.reply import Script, Step
from holdfast.chaos.source import Attempts
from holdfast.chaos.statuses import Status

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


PREFIX = "chaos/"
HEADER = "x-chaos"
HEADERS_KEPT_MAX = 256

# Each is a script text; where it has several attempts, requests for it take them in turn, over and over.
SCENARIOS: Mapping[str, str] = {
    "ok": "say Hello from the bad model server, which is well today.",
    "slow": "say-words 'This answer takes its time but never stops.' pace_s=0.5",
    "tool": "think 'a tool would help'; call-tool get_weather '{\"city\": \"Lisbon\"}'",
    "no-first-byte": "hang",
    "headers-only": "headers; hang",
    "opening-only": "begin; hang",
    "keep-alive": "begin; keep-alive pace_s=1",
    "silent-thinking": "open-item thinking; pause 20; say I have thought.",
    "stall": "say The answer is; hang",
    "stall-once": "say The answer is; hang | say The answer is 42.",
    "drip": "drip 1 pace_s=0.02; say Byte by byte.",
    "drop": "say The answer is; drop",
    "drop-once": "say The answer is; drop | say The answer is 42.",
    "end-without-marker": "say The answer is; end-of-body",
    "cut-call": 'cut-call get_weather \'{"city": "Lisbon"}\'; end-of-body',
    "malformed": "say The answer is; malformed",
    "flood": "flood; say That was much.",
    "error-event": "say The answer is; error-event",
    "rate-limit": "rate-limited-s 2 | say The answer is 42.",
    "rate-limit-always": "rate-limited-s 30",
    "quota": "insufficient-quota",
    "overload": "overloaded 529",
    "error": "server-error 500",
    "bad-key": "bad-key",
    "context-overflow": "context-overflow",
    "refuse": "refuse",
    "filter": "say I would; finish filtered",
    "truncate": "say The answer would be long; finish length",
    "empty": "finish",
    "repeat-end": "say The answer is 42.; finish times=2",
    "slow-upload": "read-slowly 10",
    "early-answer": "read-only 1000; too-large",
}


class ScenarioSource(Struct):
    """Scripts by header or model name; without either, the given default text."""

    default: str | None = None
    _attempts: dict[str, Attempts] = field(default_factory=dict[str, Attempts])

    def at_headers(self, request: SeenRequest) -> Script | None:
        """Return the header's scenario; only the header can name one that begins before the body is read."""
        asked = request.headers.get(HEADER)
        if asked is not None:
            return self._take(SCENARIOS.get(asked.removeprefix(PREFIX), asked))
        return None if self.default is None else self._take(self.default)

    def at_body(self, request: SeenRequest) -> Script:
        """Return the model name's scenario."""
        name = request.model.removeprefix(PREFIX)
        if name not in SCENARIOS:
            message = f"there is no scenario {request.model!r}{nearest(name, SCENARIOS)}"
            return [Status(404, message=message, code="model_not_found")]
        return self._take(SCENARIOS[name])

    def _take(self, text: str) -> Script:
        if text not in self._attempts:
            if len(self._attempts) >= HEADERS_KEPT_MAX:
                del self._attempts[next(iter(self._attempts))]
            try:
                self._attempts[text] = Attempts(parse_attempts(text), "cycle")
            except BadScript as error:
                return [Status(400, message=str(error), code="bad_script")]
        return self._attempts[text].take()
