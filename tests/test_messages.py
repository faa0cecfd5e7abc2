"""The estimated size of a request: every kind of content counts."""

from holdfast.messages import (
    FILE_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    AskedTool,
    AssistantMessage,
    ModelRequest,
    SaidText,
    ToolMessage,
    ToolSpec,
    UserMessage,
)
from holdfast.values import FilePart, ImagePart, OutputFormat, TextPart


def test_instructions_and_tools_count_by_their_length() -> None:
    tool = ToolSpec("abcd", "e" * 14, schema={})
    request = ModelRequest(messages=(), instructions="i" * 20, tools=(tool,))
    assert request.input_tokens == (20 + 4 + 14 + 2) // 4


def test_the_schema_of_the_answer_counts() -> None:
    schema: dict[str, object] = {"type": "object"}
    request = ModelRequest(messages=(), output=OutputFormat(schema=schema))
    assert request.input_tokens == len('{"type":"object"}') // 4


def test_attachments_count_as_what_they_usually_cost() -> None:
    parts = (
        TextPart("t" * 40),
        ImagePart(blob="b", media_type="image/png"),
        FilePart(blob="c", media_type="application/pdf", name="d"),
    )
    said = UserMessage("u" * 8, parts)
    assert ModelRequest(messages=(said,)).input_tokens == (
        MESSAGE_TOKENS + 2 + 10 + IMAGE_TOKENS + FILE_TOKENS
    )


def test_what_the_model_said_and_asked_for_counts() -> None:
    said = AssistantMessage((SaidText("s" * 10), AskedTool("t", "name", args={"a": 1}, bad_args="bad")))
    assert ModelRequest(messages=(said,)).input_tokens == MESSAGE_TOKENS + (10 + 4 + 7 + 3) // 4


def test_a_name_that_the_client_declared_is_the_clients() -> None:
    request = ModelRequest(messages=(), client_tools=frozenset({"shell"}))
    assert [request.owner_of(name) for name in ("shell", "read_file")] == ["client", "holdfast"]


def test_a_message_knows_its_size_its_calls_and_what_it_was_turned_into() -> None:
    result = ToolMessage("t1", "shell", "a" * 40)
    assert result.tokens == MESSAGE_TOKENS + 10
    answer = AssistantMessage((SaidText("so"), AskedTool("t1", "shell")))
    assert answer.tool_ids == ("t1",)
    answer.encoded["main dialect"] = b"{}"
    assert answer.encoded == {"main dialect": b"{}"}
    assert answer == AssistantMessage(answer.items)


def test_a_tools_digest_changes_with_each_part_of_its_declaration() -> None:
    tool = ToolSpec("add", "Add two numbers.", {"type": "object"})
    others = (
        ToolSpec("sum", "Add two numbers.", {"type": "object"}),
        ToolSpec("add", "Add numbers.", {"type": "object"}),
        ToolSpec("add", "Add two numbers.", {"type": "object", "properties": {}}),
    )
    assert tool.digest == ToolSpec("add", "Add two numbers.", {"type": "object"}).digest
    assert len({tool.digest, *(other.digest for other in others)}) == 4


def test_a_tool_keeps_its_declaration_on_each_wire() -> None:
    tool = ToolSpec("add", "Add two numbers.", {"type": "object"})
    tool.encoded["chat"] = b"{}"
    assert tool.encoded == {"chat": b"{}"}
