"""The real openai and anthropic packages read every wire as they read the real services."""

from collections.abc import AsyncIterator

import aiohttp
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from holdfast.chaos import CallTool, ChaosOptions, ChaosServer, Refuse, ReportedUsage, Say, Script, Think

USAGE = ReportedUsage(input_tokens=100, output_tokens=20, cached_tokens=40, reasoning_tokens=9)
TURN: Script = [
    Think("let me see", signature="sig==", encrypted="enc==", chunk_chars=4),
    Say("I look it up.", chunk_chars=3),
    CallTool("search", {"query": "naïve café", "limit": 3}, id="call_a"),
    CallTool("read", {"path": "notes/x"}),
]


@pytest.fixture
async def chaos() -> AsyncIterator[ChaosServer]:
    options = ChaosOptions(usage=USAGE)
    async with ChaosServer(TURN, [Say("hello")], [Refuse("no")], options=options) as server:
        yield server


@pytest.fixture
async def openai(chaos: ChaosServer) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=chaos.base_url, api_key="sk-test", max_retries=0) as client:
        yield client


@pytest.fixture
async def anthropic(chaos: ChaosServer) -> AsyncIterator[AsyncAnthropic]:
    async with AsyncAnthropic(base_url=chaos.url, api_key="sk-test", max_retries=0) as client:
        yield client


async def test_responses_streams_reasoning_text_and_calls_to_the_openai_package(openai: AsyncOpenAI) -> None:
    kinds: list[str] = []
    text = ""
    async with openai.responses.stream(model="m", input="hi") as stream:
        async for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = await stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert text == "I look it up." == final.output_text
    reasoning, message, first, second = final.output
    assert reasoning.type == "reasoning"
    assert (reasoning.summary[0].text, reasoning.encrypted_content) == ("let me see", "enc==")
    assert message.type == "message"
    assert message.status == "completed"
    assert first.type == "function_call"
    assert (first.name, first.call_id) == ("search", "call_a")
    assert first.arguments == '{"query":"naïve café","limit":3}'
    assert second.type == "function_call"
    assert second.call_id != first.call_id
    assert final.usage is not None
    assert final.usage.total_tokens == 120
    assert final.usage.input_tokens_details.cached_tokens == 40
    assert final.usage.output_tokens_details.reasoning_tokens == 9


async def test_responses_numbers_its_events_without_a_gap(openai: AsyncOpenAI) -> None:
    stream = await openai.responses.create(model="m", input="hi", stream=True)
    numbers = [event.sequence_number async for event in stream]
    assert numbers == list(range(len(numbers)))


async def test_responses_without_a_stream(openai: AsyncOpenAI) -> None:
    final = await openai.responses.create(model="m", input="hi")
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert (final.status, final.output_text, final.model) == ("completed", "I look it up.", "m")
    plain = await openai.responses.create(model="m", input="hi")
    assert plain.output_text == "hello"
    refused = await openai.responses.create(model="m", input="hi")
    message = refused.output[0]
    assert message.type == "message"
    assert message.content[0].type == "refusal"
    assert message.content[0].refusal == "no"


async def test_chat_completions_streams_to_the_openai_package(openai: AsyncOpenAI) -> None:
    reasoning = ""
    async with openai.chat.completions.stream(
        model="m", messages=[{"role": "user", "content": "hi"}], stream_options={"include_usage": True}
    ) as stream:
        async for event in stream:
            if event.type == "chunk" and event.chunk.choices:
                delta = event.chunk.choices[0].delta.model_extra or {}
                reasoning += str(delta.get("reasoning_content", ""))
        final = await stream.get_final_completion()
    choice = final.choices[0]
    assert reasoning == "let me see"
    assert (choice.message.content, choice.finish_reason) == ("I look it up.", "tool_calls")
    calls = choice.message.tool_calls or []
    assert [(call.function.name, call.function.arguments) for call in calls] == [
        ("search", '{"query":"naïve café","limit":3}'),
        ("read", '{"path":"notes/x"}'),
    ]
    assert final.usage is not None
    assert final.usage.total_tokens == 120


async def test_chat_completions_send_the_usage_chunk_only_when_asked(openai: AsyncOpenAI) -> None:
    stream = await openai.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hi"}], stream=True
    )
    chunks = [chunk async for chunk in stream]
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    stream = await openai.chat.completions.create(
        model="m",
        messages=[{"role": "user", "content": "hi"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-2].choices[0].finish_reason == "stop"


async def test_chat_completions_without_a_stream(openai: AsyncOpenAI) -> None:
    final = await openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    message = final.choices[0].message
    assert (message.content, final.choices[0].finish_reason) == ("I look it up.", "tool_calls")
    assert (message.model_extra or {})["reasoning_content"] == "let me see"
    assert [call.id for call in message.tool_calls or []] == ["call_a", "call_1_1"]
    await openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    refused = await openai.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
    assert (refused.choices[0].message.refusal, refused.choices[0].message.content) == ("no", None)


async def test_anthropic_streams_to_the_anthropic_package(anthropic: AsyncAnthropic) -> None:
    async with anthropic.messages.stream(
        model="m", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
    ) as stream:
        text = "".join([piece async for piece in stream.text_stream])
        final = await stream.get_final_message()
    assert text == "I look it up."
    redacted, thinking, said, first, second = final.content
    assert redacted.type == "redacted_thinking"
    assert redacted.data == "enc=="
    assert thinking.type == "thinking"
    assert (thinking.thinking, thinking.signature) == ("let me see", "sig==")
    assert said.type == "text"
    assert first.type == "tool_use"
    assert (first.id, first.name, first.input) == ("call_a", "search", {"query": "naïve café", "limit": 3})
    assert second.type == "tool_use"
    assert final.stop_reason == "tool_use"
    assert (final.usage.input_tokens, final.usage.cache_read_input_tokens) == (60, 40)
    assert final.usage.output_tokens == 20


async def test_anthropic_without_a_stream(anthropic: AsyncAnthropic) -> None:
    final = await anthropic.messages.create(
        model="m", max_tokens=100, messages=[{"role": "user", "content": "hi"}]
    )
    kinds = [block.type for block in final.content]
    assert kinds == ["redacted_thinking", "thinking", "text", "tool_use", "tool_use"]
    assert final.stop_reason == "tool_use"
    await anthropic.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    refused = await anthropic.messages.create(
        model="m", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
    )
    assert refused.stop_reason == "refusal"
    assert refused.stop_details is not None
    assert refused.stop_details.explanation == "no"


async def test_models_are_listed_for_both_packages(
    chaos: ChaosServer, openai: AsyncOpenAI, anthropic: AsyncAnthropic
) -> None:
    assert [model.id async for model in openai.models.list()] == ["chaos"]
    assert [model.id async for model in anthropic.models.list()] == ["chaos"]
    assert [seen.path.partition("?")[0] for seen in chaos.seen.others] == ["/v1/models"] * 2
    assert chaos.seen.requests == []


async def test_a_client_that_wants_a_websocket_is_told_to_use_http(chaos: ChaosServer) -> None:
    """Codex tries one first, and takes any other answer for a failure."""
    async with aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{chaos.url}/v1/responses")
    assert refused.value.status == 426
    assert chaos.seen.requests == []
