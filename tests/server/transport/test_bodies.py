"""Bodies of very many pieces are refused by their shape; a text is one piece whatever is written in it."""

import json
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.api.sessions import RewindRequest
from holdfast.server.options import Limits
from holdfast.server.problems import Problem
from holdfast.server.transport.bodies import parsed

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(st.characters(codec="utf-8") | st.sampled_from('"\\,[]{}')),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)

MANY = {
    "strings": b'{"input": [%b]}' % b",".join([b'"a"'] * 200_000),
    "strings that end in a backslash": b'{"input": [%b]}' % b",".join([b'"\\\\"'] * 200_000),
    "strings of quotes": b'{"input": [%b]}' % b",".join([b'"\\""'] * 200_000),
    "numbers": b'{"input": [%b]}' % b",".join([b"1"] * 200_000),
    "names": b'{"input": {%b}}' % b",".join(b'"%d":1' % nth for nth in range(200_000)),
}
LARGE = {
    "one long text": 'a, b [c] {d} "e" \\\\ \\" \n' * 100_000,
    "JSON in a text": json.dumps([{"name": "value"}] * 100_000),
}


@pytest.mark.parametrize("body", MANY.values(), ids=MANY)
async def test_a_body_of_very_many_values_is_refused_before_anything_is_made_of_them(body: bytes) -> None:
    """P10, P12: it would hold up everyone else for longer than its length lets expect."""
    with pytest.raises(Problem, match="more than 100000 values") as refused:
        await parsed(body, Limits(), dict[str, Any])
    assert (refused.value.status, refused.value.code) == (400, "json_too_large")


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE)
async def test_a_text_counts_as_one_value_whatever_is_written_in_it(text: str) -> None:
    body = json.dumps({"input": text, "more": [text[:99_999]] * 20}).encode()
    assert (await parsed(body, Limits(), dict[str, Any]))["input"] == text


async def test_a_whole_number_is_accepted_as_a_float() -> None:
    """JSON has one kind of number, and some encoders write 2 as 2.0."""
    body = b'{"to_seq": 2.0, "names": ["x"]}'
    assert await parsed(body, Limits(), dict[str, int | list[str]]) == {"to_seq": 2, "names": ["x"]}
    with pytest.raises(Problem, match="it must be a whole number"):
        await parsed(b'{"to_seq": 2.5}', Limits(), RewindRequest)


@given(value=JSON, ascii_only=st.booleans())
async def test_values_are_counted_as_they_are(value: Any, *, ascii_only: bool) -> None:
    """No text is taken for more or for less than it is, however it is escaped."""
    body = json.dumps([value], ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    most = max(commas_of([value]), strings_of([value]))
    fits = Limits(json_values_max=most)
    assert await parsed(body, fits, list[Any]) == [value]
    if most:
        with pytest.raises(Problem):
            await parsed(body, replace(fits, json_values_max=most - 1), list[Any])


def inside(value: object) -> list[object]:
    """The values in a list or a table."""
    if isinstance(value, dict):
        return list(cast("dict[str, object]", value).values())
    return cast("list[object]", value) if isinstance(value, list) else []


def strings_of(value: object) -> int:
    """How many strings there are, names too."""
    held = inside(value)
    names = 0 if isinstance(value, list) else len(held)
    return isinstance(value, str) + names + sum(map(strings_of, held))


def commas_of(value: object) -> int:
    """How many commas stand between values."""
    return max(0, len(inside(value)) - 1) + sum(map(commas_of, inside(value)))
