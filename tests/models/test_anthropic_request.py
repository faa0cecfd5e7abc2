"""Requests on the Anthropic wire: breakpoints, alternation, thinking."""

import json
from typing import Any

from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    ModelRequest,
    SaidText,
    Thought,
    ToolMessage,
    UserMessage,
)
from holdfast.values import TextPart
from tables import for_each_row

from .asking import asked, body_of, check_official, conversation, target


def test_anthropic_has_at_most_four_breakpoints_at_the_ends_of_what_repeats() -> None:
    body = body_of(conversation("anthropic"), target("anthropic"))
    assert json.dumps(body).count('"cache_control"') == 4
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["messages"][-1]["content"][-1]
    assert "cache_control" in body["messages"][0]["content"][-1]


def test_anthropic_puts_results_first_in_one_user_message() -> None:
    messages = body_of(conversation("anthropic"), target("anthropic"))["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert [block["type"] for block in messages[2]["content"]] == ["tool_result", "tool_result", "text"]
    first, second = messages[2]["content"][:2]
    assert [block["type"] for block in first["content"]] == ["text", "image"]
    assert "content" not in second
    assert second["is_error"] is True
    assert [block["type"] for block in messages[1]["content"]] == [
        "thinking",
        "text",
        "tool_use",
        "text",
        "tool_use",
    ]
    assert messages[1]["content"][4]["input"] == {}
    assert '{"path":' in messages[1]["content"][3]["text"]


def test_anthropic_sends_no_empty_text() -> None:
    request = asked(
        AssistantMessage((SaidText("first"),)),
        UserMessage(" "),
        AssistantMessage((SaidText(""), Thought("t", {"signature": "s"}, "main"))),
        UserMessage("", (TextPart(""),)),
        instructions="  ",
    )
    body = body_of(request, target("anthropic"))
    assert "system" not in body
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "user"]
    texts = [block["text"] for message in body["messages"] for block in message["content"]]
    assert all(text.strip() for text in texts)


@for_each_row(
    ("effort", "expected"),
    [
        (
            "high",
            {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"}},
        ),
        (
            "4000",
            {"thinking": {"type": "enabled", "budget_tokens": 4000}, "max_tokens": 5000},
        ),
        ("", {"max_tokens": 1000}),
        ("off", {"max_tokens": 1000}),
    ],
)
def test_anthropic_thinks_by_effort_or_by_budget(effort: str, expected: dict[str, object]) -> None:
    request = asked(UserMessage("a"), reasoning_effort=effort, max_output_tokens=1000, temperature=0.5)
    body = body_of(request, target("anthropic"))
    assert body.items() >= expected.items()
    check_official("anthropic", body)
    elsewhere = body_of(request, target("anthropic", "http://localhost:1"))
    assert ("temperature" in elsewhere) == (effort in {"", "off"})


def test_anthropic_asks_for_no_budget_amid_calls_that_have_no_thinking() -> None:
    def continued(*items: Any) -> ModelRequest:
        call = AskedTool("c", "read")
        return asked(
            UserMessage("a"),
            AssistantMessage((*items, call)),
            ToolMessage("c", "read", "x"),
            reasoning_effort="2000",
        )

    assert "thinking" not in body_of(continued(), target("anthropic"))
    assert "thinking" not in body_of(
        continued(Thought("t", {"signature": "s"}, "other")), target("anthropic")
    )
    assert "thinking" not in body_of(continued(Thought("t", {}, "main")), target("anthropic"))
    assert "thinking" in body_of(continued(Thought("t", {"signature": "s"}, "main")), target("anthropic"))


def test_redacted_thinking_goes_back_as_it_came() -> None:
    redacted = Thought("", {"redacted": "zz"}, "main")
    request = asked(UserMessage("a"), AssistantMessage((redacted, SaidText("b"))), UserMessage("c"))
    block = body_of(request, target("anthropic"))["messages"][1]["content"][0]
    assert block == {"type": "redacted_thinking", "data": "zz"}
