"""A request body as its client sent it: where its model is named, and what it asks for.

The numbers of a client's request; impossible ones are refused, because budgets rely on them.
"""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from holdfast.messages import CHARS_PER_TOKEN
from holdfast.models.wire import with_whole_characters
from holdfast.server.problems import Problem, bad_request
from holdfast.server.transport.bodies import UNREADABLE, unreadable
from holdfast.targets import Wire

COUNT_MAX = 10**9
_PENALTY_MAX = 100.0


class Range(NamedTuple):
    """The values that a number can have on any server; a provider may allow fewer."""

    low: float
    high: float
    is_whole: bool = True

    def has(self, value: object) -> bool:
        """Whether the value is a number of this range."""
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not self.low <= value <= self.high
        ):
            return False
        return not self.is_whole or value == int(value)

    def __str__(self) -> str:
        """The range in words."""
        kind = "whole number" if self.is_whole else "number"
        return f"a {kind} from {self.low:,.10g} to {self.high:,.10g}"


TOKENS = Range(0, COUNT_MAX)
UNLIMITED_TOKENS = Range(-1, COUNT_MAX)  # llama.cpp and LM Studio read -1 as no limit
ANSWERS = Range(1, 10_000)
SHARE = Range(0, 1, is_whole=False)
PENALTY = Range(-_PENALTY_MAX, _PENALTY_MAX, is_whole=False)

RANGES: Mapping[str, Range] = {
    "max_tokens": UNLIMITED_TOKENS,
    "max_completion_tokens": UNLIMITED_TOKENS,
    "max_output_tokens": TOKENS,
    "n": ANSWERS,
    "best_of": ANSWERS,
    "temperature": Range(0, 100, is_whole=False),
    "top_p": SHARE,
    "min_p": SHARE,
    "top_k": Range(-1, COUNT_MAX),
    "presence_penalty": PENALTY,
    "frequency_penalty": PENALTY,
    "repetition_penalty": PENALTY,
    "seed": Range(-(2**63), 2**64),
    "top_logprobs": Range(-1, COUNT_MAX),
    "min_tokens": TOKENS,
    "max_tool_calls": TOKENS,
    "dimensions": Range(1, COUNT_MAX),
}
INNER_RANGES: Mapping[str, Mapping[str, Range]] = {
    "thinking": {"budget_tokens": TOKENS},
    "reasoning": {"max_tokens": TOKENS},
}


class Numbers(msgspec.Struct):
    """The fields of a request that have numbers; of any type, until they are checked."""

    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n: Any = None
    best_of: Any = None
    temperature: Any = None
    top_p: Any = None
    min_p: Any = None
    top_k: Any = None
    presence_penalty: Any = None
    frequency_penalty: Any = None
    repetition_penalty: Any = None
    seed: Any = None
    top_logprobs: Any = None
    min_tokens: Any = None
    max_tool_calls: Any = None
    dimensions: Any = None
    thinking: Any = None
    reasoning: Any = None

    def check(self) -> None:
        """Raise a Problem that names a number which no server can honor."""
        for name, allowed in RANGES.items():
            value = getattr(self, name)
            if value is not None:
                _check(value, allowed, param=name)
        for outer, ranges in INNER_RANGES.items():
            inside = _table(getattr(self, outer))
            for name, allowed in ranges.items():
                _check(inside.get(name), allowed, param=f"{outer}.{name}")

    @property
    def output_tokens_max(self) -> int:
        """The most tokens of one answer, thinking included; 0 if the request sets no limit."""
        budget = _table(self.thinking).get("budget_tokens")
        limits = (self.max_tokens, self.max_completion_tokens, self.max_output_tokens, budget)
        return max(0, 0, *map(int, filter(None, limits)))

    @property
    def answers(self) -> int:
        """How many answers the provider makes."""
        return max(int(self.n or 1), int(self.best_of or 1))


def _table(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _check(value: object, allowed: Range, *, param: str) -> None:
    if value is not None and not allowed.has(value):
        raise bad_request(f"'{param}' must be {allowed}", param=param)


T = TypeVar("T")
_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_ESCAPED = re.compile(rb"\\u006[4-9a-fA-F]")  # a letter of "model" that a key may spell so
_ESCAPED_LETTER = re.compile(rb"\\u00(?:5[fF]|6[1-9a-fA-F]|7[0-9aA])")  # of a name in small letters
_REASONING = re.compile(rb'"(?:reasoning|thinking|reasoning_effort|output_config)"\s*:\s*[{"]')
_USAGE = re.compile(rb'"include_usage"\s*:\s*true')
# Readable only by the endpoint and account that created it.
_BOUND = re.compile(
    rb'"(?:previous_response_id|previous_message_id|encrypted_content|signature|file_id|container|conversation)"\s*:\s*(?:"[^"]|\{)'
    rb'|"type"\s*:\s*"(?:redacted_thinking|item_reference|compaction)"'
)
_OWN_TOOLS: dict[Wire, frozenset[str]] = {
    "chat": frozenset({"function", "custom"}),
    "responses": frozenset({"function", "custom", "namespace", "local_shell", "shell", "apply_patch"}),
    "anthropic": frozenset({"", "custom"}),
}


class _Top(Numbers):
    model: Any = msgspec.UNSET
    stream: Any = None
    tools: Any = None


class _Model(msgspec.Struct):
    model: Any = msgspec.UNSET


_TOP = msgspec.json.Decoder(_Top)
_ONE_MODEL = msgspec.json.Decoder(_Model)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_COUNTED = tuple(name for name in _Top.__struct_fields__ if name != "model")
_COUNTED_KEY = re.compile(rb'"(%b)"' % b"|".join(name.encode() for name in _COUNTED))
_MARK = "\ue000".encode()  # for private use, so in no key


class RawRequest(msgspec.Struct, frozen=True):
    """A request's bytes, split around the value of its model."""

    before: bytes
    model: str
    after: bytes
    wire: Wire
    is_streamed: bool
    asks_to_reason: bool
    includes_usage: bool  # a chat stream is to end with its usage
    output_tokens_max: int  # of one answer; 0 if it doesn't say
    answers: int
    bound_by: str  # why only one endpoint and account can answer it; empty if any can

    @property
    def body(self) -> bytes:
        """The bytes as they came."""
        return self.with_model(self.model)

    @property
    def input_tokens(self) -> int:
        """The size, roughly."""
        return (len(self.before) + len(self.after)) // CHARS_PER_TOKEN

    def with_model(self, model: str) -> bytes:
        """The bytes with another model, and nothing else changed."""
        return b"%b%b%b" % (self.before, msgspec.json.encode(model), self.after)


def model_in(body: bytes) -> str | None:
    """The model that a body names; None if it names none, or isn't a JSON object."""
    try:
        model = _decoded(_ONE_MODEL, body)[0].model
    except UNREADABLE:
        return None
    return model if isinstance(model, str) else None


def check_one_model(body: bytes) -> None:
    """Raise a Problem if a body names more than one model."""
    if model_in(body) is not None:
        _place_of_model(_decoded(_ONE_MODEL, body)[1])


def raw_request(body: bytes, wire: Wire) -> RawRequest:
    """The request in these bytes; raises a Problem if it names no model, or more than one."""
    try:
        if not body.isascii():
            body.decode()  # the decoder doesn't look into the texts that it skips
        top, readable = _decoded(_TOP, body)
    except UNREADABLE as error:
        raise unreadable(error) from None
    if not isinstance(top.model, str) or not top.model:
        raise bad_request("'model' must name a model", param="model")
    top.check()
    place = _place_if_compact(readable)
    if place is None:
        _check_once(readable)
        place = _place_of_model(readable)
    start, end = place
    return RawRequest(
        before=body[:start],
        model=top.model,
        after=body[end:],
        wire=wire,
        is_streamed=top.stream is True,
        asks_to_reason=_REASONING.search(body) is not None,
        includes_usage=b'"include_usage"' in body and _USAGE.search(body) is not None,
        output_tokens_max=top.output_tokens_max,
        answers=top.answers,
        bound_by=_bound_by(body, top, wire),
    )


def _decoded(decoder: msgspec.json.Decoder[T], body: bytes) -> tuple[T, bytes]:
    """The value, and the body that it was read from: bytes of the same length without half characters.

    A program that cuts text by UTF-16 sends them, and its provider decides what they are worth.
    """
    try:
        return decoder.decode(body), body
    except UNREADABLE:
        whole = with_whole_characters(body)
        if whole == body:
            raise
        return decoder.decode(whole), whole


def _place_if_compact(body: bytes) -> tuple[int, int] | None:
    """Where the value of the top-level model is, in a body without white space between its fields.

    Then the lengths of the fields add up to that of the body, so none of them occurs twice or is spelled with
    escapes. Searching a long conversation for such fields would take longer than decoding it.
    """
    place, at = None, 1
    for name, value in _KEYS.decode(body).items():
        start = at + len(name.encode()) + 3
        at = start + len(value) + 1
        if name == "model":
            place = start, at - 1
    return place if at == len(body) else None


def _place_of_model(body: bytes) -> tuple[int, int]:
    """Where the value of the top-level model is.

    Every value that could be it gets a number in place of itself; the decoder then says which one counts.
    Without that key there must be no other model: a server might read the other one.
    """
    found = list(_MODEL.finditer(body))
    if len(found) == 1 and body.count(b'"model"') == 1 and not _ESCAPED.search(body):
        return found[0].span(1)  # no other key can spell it
    numbered = _replaced(body, [(match.span(1), b'"%d"' % at) for at, match in enumerate(found)])
    chosen = _ONE_MODEL.decode(numbered).model
    if not (isinstance(chosen, str) and chosen.isdecimal() and int(chosen) < len(found)):
        raise _duplicate()  # an escaped key comes last
    match = found[int(chosen)]
    renamed = _replaced(body, [((match.start(), match.start() + len(b'"model"')), b'"_"')])
    if _ONE_MODEL.decode(renamed).model is not msgspec.UNSET:
        raise _duplicate()
    return match.span(1)


def _check_once(body: bytes) -> None:
    """Raise a Problem if a field that counts occurs twice: its provider may heed the one that isn't counted.

    Keys that could be such a field get a number each; the decoder then says which of them are top-level.
    """
    seen = _COUNTED_KEY.findall(body)
    is_escaped = _ESCAPED_LETTER.search(body) is not None
    if not is_escaped and len(seen) == len(set(seen)):
        return
    suspects = [name for name in _COUNTED if is_escaped or seen.count(name.encode()) > 1]
    keys = re.compile(rb'"(%b)"(?=\s*:)' % b"|".join(name.encode() for name in suspects))
    found = list(keys.finditer(body))
    marks = [(match.span(1), b"%b%b/%d" % (_MARK, match[1], at)) for at, match in enumerate(found)]
    top = _KEYS.decode(_replaced(body, marks))
    for name in suspects:
        spelled = sum(key.startswith(f"{_MARK.decode()}{name}/") for key in top)
        if spelled > 1 or name in top:  # under its own name, it is spelled with escapes
            raise _duplicate(name)


def _replaced(body: bytes, changes: list[tuple[tuple[int, int], bytes]]) -> bytes:
    pieces: list[bytes] = []
    at = 0
    for (start, end), value in changes:
        pieces += [body[at:start], value]
        at = end
    return b"".join([*pieces, body[at:]])


def _duplicate(name: str = "model") -> Problem:
    return bad_request(f"'{name}' must occur once, spelled without escapes", param=name)


def _bound_by(body: bytes, top: _Top, wire: Wire) -> str:
    """Return the field that binds the request to one endpoint and account; empty if none does."""
    if found := _BOUND.search(body):
        return found[0].decode().split('"')[3 if found[0].startswith(b'"type"') else 1]
    tools = cast("list[object]", top.tools) if isinstance(top.tools, list) else []
    kinds = [cast("dict[str, object]", tool).get("type", "") for tool in tools if isinstance(tool, dict)]
    return next((str(kind) for kind in kinds if kind not in _OWN_TOOLS[wire]), "")
