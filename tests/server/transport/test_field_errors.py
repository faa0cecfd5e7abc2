"""What is wrong with a field is said in the words of JSON, never in Python's."""

from typing import Annotated, Literal

import msgspec
import pytest

from holdfast.server.transport.field_errors import choices_of, field_problem
from tables import for_each_row


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=1)] = 1


class Body(msgspec.Struct):
    input: str | list[str] | None
    name: Annotated[str, msgspec.Meta(min_length=1)] = "x"
    tags: Annotated[list[str], msgspec.Meta(max_length=2)] = []
    on: bool = False
    mode: Literal["queue", "steer"] = "queue"
    inner: Inner | None = None
    ratio: float = 0.0


@for_each_row(
    ("body", "param", "sentence"),
    [
        ('{"input": 7}', "input", "Invalid 'input': it must be text or a list or null, not a whole number"),
        ('{"input": ["a", 7]}', "input[1]", "Invalid 'input[1]': it must be text, not a whole number"),
        ("{}", "input", "'input' is missing"),
        ('{"input": "", "name": ""}', "name", "Invalid 'name': it must be text with at least 1 character"),
        (
            '{"input": "", "tags": ["", "", ""]}',
            "tags",
            "Invalid 'tags': it must be a list with at most 2 entries",
        ),
        ('{"input": "", "on": "yes"}', "on", "Invalid 'on': it must be true or false, not text"),
        (
            '{"input": "", "mode": "now"}',
            "mode",
            "Invalid 'mode': it must be one of queue, steer, not 'now'",
        ),
        (
            '{"input": "", "inner": {"size": 0}}',
            "inner.size",
            "Invalid 'inner.size': it must be a whole number, at least 1",
        ),
        ('{"input": "", "inner": {"sizes": 1}}', "inner", "Invalid 'inner': unknown field 'sizes'"),
        ('{"input": "", "ratio": {}}', "ratio", "Invalid 'ratio': it must be a number, not an object"),
        ("[]", None, "The body must be a JSON object, not a list"),
    ],
)
def test_an_error_names_the_field_and_what_it_must_be(body: str, param: str | None, sentence: str) -> None:
    """P12."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(body, type=Body)
    problem = field_problem(caught.value, choices=choices_of(Body))
    assert (problem.param, problem.message) == (param, sentence)


def test_a_field_of_a_part_is_named_with_the_part() -> None:
    """P12."""
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.convert({"size": "x"}, Inner)
    problem = field_problem(caught.value, inside="parts[0]")
    assert problem.message == "Invalid 'parts[0].size': it must be a whole number, not text"
