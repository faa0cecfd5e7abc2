"""The declarations of tools: short, because every run pays for them, and complete enough to call a tool."""

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import Meta

from holdfast.features.delegation.tools import child_tools
from holdfast.interfaces.tool import Tool
from holdfast.messages import ToolSpec
from holdfast.tools.arguments import BadArguments, parsed, spec_of
from holdfast.tools.ask import AskUser
from holdfast.tools.files.edits import EditFile, WriteFile
from holdfast.tools.files.listing import ListFiles
from holdfast.tools.files.read_file import ReadFile
from holdfast.tools.files.search import SearchFiles
from holdfast.tools.shell.tool import Shell, ShellJobs, ShellKill
from holdfast.tools.web.tool import FetchUrl

TOOLS: tuple[type[Tool] | Tool, ...] = (
    *(Shell, ShellJobs, ShellKill, ReadFile, WriteFile, EditFile, ListFiles, SearchFiles, FetchUrl, AskUser),
    *child_tools(),
)
BYTES_MAX = 5_700


class Inner(msgspec.Struct, frozen=True):
    """For people who read the code."""

    count: Annotated[int, Meta(ge=1, le=9, description="How many.")] = 3
    name: str = ""


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    """For people, too."""

    title: Annotated[str, Meta(min_length=1, max_length=5)]
    inner: Inner = Inner()
    maybe: Annotated[Inner | None, Meta(description="If any.")] = None
    many: tuple[Inner, ...] = ()
    minimum: int = 0


def test_a_declaration_has_what_a_model_needs_and_nothing_else() -> None:
    count = {"type": "integer", "description": "How many.", "default": 3}
    inner = {"type": "object", "properties": {"count": count, "name": {"type": "string"}}}
    assert spec_of("t", "A tool.", args=Outer).schema == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "inner": {**inner, "default": {"count": 3, "name": ""}},
            "maybe": {**inner, "description": "If any."},
            "many": {"type": "array", "items": inner},
            "minimum": {"type": "integer"},
        },
        "required": ["title"],
    }


def test_limits_that_arent_declared_are_checked_and_named() -> None:
    with pytest.raises(BadArguments, match="at most 5 characters"):
        parsed(Outer, {"title": "much too long"})
    with pytest.raises(BadArguments, match="unknown field"):
        parsed(Outer, {"title": "t", "other": 1})


def specs() -> list[ToolSpec]:
    return [tool.spec for tool in TOOLS]


def test_every_reference_is_resolved_and_every_argument_has_a_type() -> None:
    for spec in specs():
        assert b"$" not in spec.schema_json, spec.name
        properties: Any = spec.schema["properties"]
        assert all("type" in one or "enum" in one for one in properties.values()), spec.name


def test_the_declarations_stay_short() -> None:
    size = sum(len(spec.name) + len(spec.description) + len(spec.schema_json) for spec in specs())
    assert size <= BYTES_MAX
