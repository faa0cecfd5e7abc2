"""Requests as each wire wants them, checked against the types of the official packages."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.messages import (
    AskedTool,
    AssistantMessage,
    Message,
    ModelRequest,
    SaidText,
    Thought,
    ToolMessage,
    UserMessage,
)
from holdfast.targets import Target, Wire
from tables import for_each_row

from .asking import (
    CODEX,
    OPAQUE,
    PARTS,
    PNG,
    WIRES,
    asked,
    body_of,
    build,
    check_official,
    conversation,
    target,
)


@for_each_row("wire", WIRES)
def test_a_request_is_what_the_official_packages_would_send(wire: Wire) -> None:
    check_official(wire, body_of(conversation(wire), target(wire)))
    thoughtful = ModelRequest(messages=(UserMessage("hi"),), reasoning_effort="high")
    check_official(wire, body_of(thoughtful, target(wire)))


_MESSAGES = (
    UserMessage("hi"),
    UserMessage(" "),
    UserMessage("look", PARTS),
    AssistantMessage((SaidText("hello"),)),
    AssistantMessage((Thought("hm", {"signature": "s", "encrypted_content": "e"}, "another"),)),
    AssistantMessage((SaidText("so"), AskedTool("t1", "shell", {"command": "ls"}))),
    ToolMessage("t1", "shell", "a.txt"),
    ToolMessage("t1", "shell", "a picture", parts=PARTS),
)


@for_each_row("wire", WIRES)
@given(st.lists(st.sampled_from(_MESSAGES), max_size=8))
def test_a_message_that_was_sent_before_is_sent_in_the_same_bytes(wire: Wire, chosen: list[Message]) -> None:
    """Each message keeps its JSON, whatever stood beside it when it was sent first."""
    fresh = asked(*[replace(message) for message in chosen], UserMessage("next"))
    kept = asked(*chosen, UserMessage("next"))
    for name in (target(wire), replace(target(wire), name="another")):
        for _ in range(2):
            assert build(kept, name).body == build(fresh, name).body
            fresh = asked(*[replace(message) for message in chosen], UserMessage("next"))


@for_each_row(
    ("wire", "base_url", "url"),
    [
        ("chat", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"),
        (
            "chat",
            "https://x.openai.azure.com/openai/v1?api-version=1",
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=1",
        ),
        ("responses", CODEX, "https://chatgpt.com/backend-api/codex/responses"),
        ("anthropic", "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("anthropic", "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("anthropic", "https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
    ],
)
def test_where_a_request_goes(wire: Wire, base_url: str, url: str) -> None:
    assert build(asked(UserMessage("hi")), target(wire, base_url)).url == url


@for_each_row("wire", WIRES)
def test_the_credential_and_the_targets_own_headers(wire: Wire) -> None:
    request = asked(UserMessage("hi"))
    headers = build(request, target(wire)).headers
    if wire == "anthropic":
        assert headers["x-api-key"] == "sk-1"
        assert headers["anthropic-version"] == "2023-06-01"
    else:
        assert headers["authorization"] == "Bearer sk-1"
    own = build(request, target(wire, headers={"Authorization": "Custom", "X-A": "b"})).headers
    assert (own["authorization"], own["x-a"]) == ("Custom", "b")
    keyless = Target(name="n", wire=wire, base_url="http://localhost", model="m")
    assert not {"authorization", "x-api-key"} & build(request, keyless).headers.keys()


def test_chat_asks_for_a_stream_and_its_usage() -> None:
    body = body_of(conversation("chat"), target("chat"))
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_completion_tokens"] == 1000
    assert body["prompt_cache_key"] == "session-1"
    assert body["messages"][0] == {"role": "system", "content": "Be brief."}


def test_chat_dialects_differ_by_host() -> None:
    request = conversation("chat")
    local = body_of(request, target("chat", "http://localhost:11434/v1"))
    assert local["max_tokens"] == 1000
    assert "prompt_cache_key" not in local
    mistral = body_of(request, target("chat", "https://api.mistral.ai/v1"))
    assert "stream_options" not in mistral
    ids = [call["id"] for call in mistral["messages"][2]["tool_calls"]]
    assert all(len(each) == 9 and each.isalnum() for each in ids)
    assert [message["tool_call_id"] for message in mistral["messages"] if message["role"] == "tool"] == ids
    assert "prompt_cache_key" in body_of(request, target("chat", "https://openrouter.ai/api/v1"))
    for name in ("openai", "cognitiveservices"):
        azure = body_of(request, target("chat", f"https://x.{name}.azure.com/openai/v1"))
        assert azure["max_completion_tokens"] == 1000


def test_chat_puts_what_a_tool_shows_after_the_last_result() -> None:
    messages = body_of(conversation("chat"), target("chat"))["messages"]
    assert [message["role"] for message in messages] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
    ]
    assert messages[4]["content"] == "(no output)"
    kinds = [part["type"] for part in messages[5]["content"]]
    assert kinds == ["text", "image_url", "text"]
    assert messages[2]["tool_calls"][1]["function"]["arguments"] == '{"path":'


def test_chat_sends_thinking_back_only_with_calls_and_only_to_its_target() -> None:
    thought = Thought("hm", {"field": "reasoning_content"}, "main")
    call = (AskedTool("c", "read"), ToolMessage("c", "read", "x"))
    with_call = asked(UserMessage("a"), AssistantMessage((thought, call[0])), call[1])
    assert body_of(with_call, target("chat"))["messages"][1]["reasoning_content"] == "hm"
    without = asked(UserMessage("a"), AssistantMessage((thought, SaidText("b"))), UserMessage("c"))
    assert "reasoning_content" not in body_of(without, target("chat"))["messages"][1]
    foreign = Thought("hm", {"field": "reasoning_content"}, "other")
    other = asked(UserMessage("a"), AssistantMessage((foreign, call[0])), call[1])
    assert "reasoning_content" not in body_of(other, target("chat"))["messages"][1]


def test_chat_sends_back_what_openrouter_and_gemini_want_back() -> None:
    details = Thought(
        "hm", {"field": "reasoning", "reasoning_details": '[{"type":"reasoning.text"}]'}, "main"
    )
    extra = {"extra_content": '{"google":{"thought_signature":"s"}}'}
    call = AskedTool("c", "read", opaque=extra, target="main")
    foreign = AskedTool("d", "read", opaque=extra, target="other")
    request = asked(
        UserMessage("a"),
        AssistantMessage((details, call, foreign)),
        ToolMessage("c", "read", "x"),
        ToolMessage("d", "read", "x"),
    )
    answer = body_of(request, target("chat"))["messages"][1]
    assert answer["reasoning_details"] == [{"type": "reasoning.text"}]
    assert answer["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}
    assert "extra_content" not in answer["tool_calls"][1]
    assert "reasoning" not in answer


def test_responses_stores_nothing_and_takes_encrypted_thinking_along() -> None:
    body = body_of(conversation("responses"), target("responses"))
    assert body["store"] is False
    assert body["stream"] is True
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["instructions"] == "Be brief."
    assert body["tools"][0]["strict"] is False
    reasoning = next(item for item in body["input"] if item.get("type") == "reasoning")
    assert reasoning == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }
    results = [item["output"] for item in body["input"] if item.get("type") == "function_call_output"]
    assert [part["type"] for part in results[0]] == ["input_text", "input_image"]
    assert results[1] == "(no output)"


def with_phases(by: str) -> ModelRequest:
    said = AssistantMessage((SaidText("I look.", "commentary", by), SaidText("It is so.")))
    return asked(UserMessage("a"), said, UserMessage("c"))


ELSEWHERE = "http://127.0.0.1:8000/v1"


@for_each_row(
    ("by", "base_url", "goes"),
    [
        ("main", ELSEWHERE, True),
        ("other", ELSEWHERE, False),
        ("other", CODEX, True),
        ("other", "https://api.openai.com/v1", True),
        ("other", "https://api.openai.com.example/v1", False),
    ],
)
def test_responses_sends_a_phase_back_to_whom_it_came_from_and_to_its_relatives(
    by: str, base_url: str, *, goes: bool
) -> None:
    body = body_of(with_phases(by), target("responses", base_url))
    phase = {"phase": "commentary"} if goes else {}
    assert body["input"][1:3] == [
        {"role": "assistant", "content": "I look.", **phase},
        {"role": "assistant", "content": "It is so."},
    ]
    check_official("responses", body)


@for_each_row("wire", ["chat", "anthropic"])
def test_the_other_wires_know_no_phase(wire: Wire) -> None:
    assert b"commentary" not in build(with_phases("main"), target(wire)).body


def test_responses_says_nothing_of_reasoning_when_it_is_off() -> None:
    body = body_of(asked(UserMessage("a"), reasoning_effort="off"), target("responses"))
    assert "include" not in body
    assert "reasoning" not in body


def test_the_codex_dialect() -> None:
    built = build(conversation("responses"), target("responses", CODEX))
    body = json.loads(built.body)
    assert not {"max_output_tokens", "temperature"} & body.keys()
    assert body["store"] is False
    assert built.headers["session-id"] == "session-1"
    bare = body_of(asked(UserMessage("hi")), target("responses", "http://127.0.0.1:9/backend-api/codex"))
    assert bare["instructions"]
    assert bare["tool_choice"] == "auto"


@for_each_row("wire", WIRES)
def test_thinking_of_another_target_is_never_sent(wire: Wire) -> None:
    foreign = Thought(
        "secret-thought", OPAQUE[wire] | {"encrypted_content": "gAAA", "signature": "s"}, "other"
    )
    request = asked(UserMessage("a"), AssistantMessage((foreign, SaidText("b"))), UserMessage("c"))
    sent = build(request, target(wire)).body
    assert b"secret-thought" not in sent
    assert b"gAAA" not in sent


@for_each_row("wire", WIRES)
def test_a_request_never_ends_with_the_assistant(wire: Wire) -> None:
    for request in (asked(), asked(UserMessage("a"), AssistantMessage((SaidText("b"),)))):
        with pytest.raises(AssertionError):
            build(request, target(wire))


@for_each_row("wire", WIRES)
def test_attachments_are_shown_or_named(wire: Wire) -> None:
    sent = build(asked(UserMessage("", PARTS)), target(wire)).body.decode()
    assert base64.b64encode(PNG).decode() in sent
    assert base64.b64encode(b"%PDF").decode() in sent
    assert "File a.txt:\\nGrüße" in sent
    assert "[a.bin: application/octet-stream, 2 bytes, not shown]" in sent
    assert "[gone.png: no longer available]" in sent


@for_each_row("wire", WIRES)
def test_ids_from_elsewhere_are_made_to_fit_and_still_match(wire: Wire) -> None:
    odd = "call|with:signs" + "x" * 300
    request = asked(
        UserMessage("a"), AssistantMessage((AskedTool(odd, "read"),)), ToolMessage(odd, "read", "ok")
    )
    sent = build(request, target(wire)).body.decode()
    assert odd not in sent
    check_official(wire, json.loads(sent))


@for_each_row("wire", ["chat", "anthropic"])
def test_adjacent_messages_of_one_side_are_one(wire: Wire) -> None:
    request = asked(
        UserMessage("a"),
        UserMessage("b"),
        AssistantMessage((SaidText("c"),)),
        AssistantMessage((SaidText("d"),)),
        UserMessage("e"),
    )
    roles = [message["role"] for message in body_of(request, target(wire))["messages"]]
    assert roles == ["user", "assistant", "user"]


def test_the_key_is_in_no_url_and_no_body() -> None:
    for wire in WIRES:
        built = build(conversation(wire), target(wire))
        assert "sk-1" not in built.url
        assert b"sk-1" not in built.body
