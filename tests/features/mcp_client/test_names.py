"""What the model is told of other people's tools."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.features.mcp_client.tool_specs import (
    DESCRIPTION_CHARS_MAX,
    SCHEMA_BYTES_MAX,
    ToolLeftOut,
    plain,
    spec_for,
)
from holdfast.policy.tool_names import mcp_labels, mcp_tool_names

NAMES = st.lists(st.text(max_size=90), unique=True, max_size=12)


@given(NAMES, NAMES)
def test_every_name_is_legal_unique_and_tells_its_server(servers: list[str], tools: list[str]) -> None:
    given_labels = mcp_labels(servers)
    assert len(set(given_labels.values())) == len(servers)
    seen: set[str] = set()
    for label in given_labels.values():
        for name in mcp_tool_names(label, tools).values():
            assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)
            assert name.removeprefix("mcp__").partition("__")[0] == label
            assert name not in seen
            seen.add(name)


@given(st.data())
def test_names_do_not_depend_on_the_order_of_a_list(data: st.DataObject) -> None:
    tools = data.draw(st.lists(st.text(alphabet="ab_ .", max_size=4), unique=True, max_size=8))
    assert mcp_tool_names("s", data.draw(st.permutations(tools))) == mcp_tool_names("s", tools)


def test_text_is_made_plain() -> None:
    texts = [
        ("plain", "plain"),
        ("a\x00b\x1b[31mc\x1b]0;x\x07d", "abcd"),
        ("left\u202eright\u200b", "leftright"),
        ("tags \U000e0041\U000e0042 hidden", "tags  hidden"),
        ("two\nlines", "two lines"),
        ("x" * 50, "x" * 19 + "…"),
    ]
    assert [(text, plain(text, chars_max=20)) for text, _ in texts] == texts


def test_a_description_says_whose_it_is_and_ends_somewhere() -> None:
    spec = spec_for("mcp__s__t", "s", description="Reads.\n" + "x" * 10_000, schema={"type": "object"})
    assert spec.description.startswith("[from the MCP server s] Reads.\nxxx")
    assert len(spec.description) <= DESCRIPTION_CHARS_MAX + 30
    assert spec.schema == {"type": "object", "properties": {}}


def test_a_schema_is_passed_on_without_what_providers_refuse() -> None:
    schema: dict[str, object] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "anyOf": [{"required": ["a"]}],
        "properties": {"a": {"type": "string", "description": "A\u202e thing", "enum": ["\u202e"]}},
        "required": ["a"],
    }
    assert spec_for("n", "s", description="", schema=schema).schema == {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "A thing", "enum": ["\u202e"]}},
        "required": ["a"],
    }


def test_a_legal_schema_that_providers_refuse_is_put_in_plainer_words() -> None:
    schemas: list[tuple[dict[str, object], dict[str, object]]] = [
        ({"properties": {"x": True, "y": False, "z": 5}}, {"properties": {"x": {}, "z": {}}}),
        ({"properties": {"x": {}}, "required": 5}, {"properties": {"x": {}}}),
        ({"properties": {"x": {}}, "required": [5, "x"]}, {"properties": {"x": {}}, "required": ["x"]}),
    ]
    for odd, told in schemas:
        assert spec_for("n", "s", description="", schema=odd).schema == {**told, "type": "object"}, odd


def _nested(depth: int) -> dict[str, object]:
    schema: dict[str, object] = {}
    for _ in range(depth):
        schema = {"items": schema}
    return {"type": "object", "properties": {"a": schema}}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"properties": {"a": {"description": "x" * SCHEMA_BYTES_MAX}}}, "bytes, more than"),
        ({"properties": {"no good": {}}}, "argument named 'no good'"),
        (_nested(100), "nested too deeply"),
        (_nested(100_000), "isn't JSON|more than"),
    ],
    ids=["long", "odd", "deep", "deeper"],
)
def test_a_tool_that_would_spoil_the_whole_request_is_left_out(schema: dict[str, object], why: str) -> None:
    with pytest.raises(ToolLeftOut, match=why):
        spec_for("n", "s", description="", schema=schema)
