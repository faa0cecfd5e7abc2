"""Conversations, token counts and summaries of the Responses protocol, with the official client."""

from typing import Any

import openai
import pytest
from msgspec.structs import replace

from features.openai.official_client import client_of
from features.relay.relaying import openai_client, relaying, target_on
from holdfast.chaos import CallTool, ChaosServer, Say, server_error
from server.toolbox import Counted
from serving import Setting, served, target_of
from tables import for_each_row

WEATHER: Any = {"type": "function", "name": "weather", "description": "d", "parameters": {"type": "object"}}


async def test_a_conversation_is_a_session_and_its_items_are_what_was_said_there() -> None:
    """P7: the ids of its items are those of the responses."""
    own = Counted()
    script = [Say("Let me look."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("Done.")], [CallTool("weather", {})], [Say("Warm.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(own,))) as server,
        client_of(server) as client,
    ):
        made = await client.conversations.create(metadata={"topic": "demo"})
        assert (made.object, made.metadata) == ("conversation", {"topic": "demo"})
        assert (await server.get(f"/api/sessions/{made.id}"))[0] == 200
        first = await client.responses.create(model="holdfast", input="touch it", conversation=made.id)
        asked = await client.responses.create(
            model="holdfast", input="warm?", conversation=made.id, tools=[WEATHER]
        )
        call: Any = asked.output[-1]
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "21"}
        last = await client.responses.create(model="holdfast", input=[result], conversation=made.id)
        assert last.output_text == "Warm."

        items: list[Any] = [
            one async for one in client.conversations.items.list(made.id, order="asc", limit=2)
        ]
        kinds = [(one.type, getattr(one, "role", "")) for one in items]
        assert kinds == [
            ("message", "user"),
            ("message", "assistant"),
            ("mcp_call", ""),
            ("message", "assistant"),
            ("message", "user"),
            ("function_call", ""),
            ("function_call_output", ""),
            ("message", "assistant"),
        ]
        assert [one.content[0].text for one in items if one.type == "message"] == [
            "touch it", "Let me look.", "Done.", "warm?", "Warm."
        ]  # fmt: skip
        assert {one.id for one in first.output} <= {one.id for one in items}
        assert {one.id for one in [*asked.output, *last.output]} <= {one.id for one in items}
        assert len({one.id for one in items}) == len(items)
        newest = await client.conversations.items.list(made.id)
        assert [one.id for one in newest.data] == [one.id for one in reversed(items)]
        again: Any = await client.conversations.items.retrieve(items[3].id, conversation_id=made.id)
        assert again.content[0].text == "Done."

        changed = await client.conversations.update(made.id, metadata={"topic": "other"})
        assert changed.metadata == {"topic": "other"}
        assert (await client.conversations.retrieve(made.id)).metadata == {"topic": "other"}
        gone = await client.conversations.delete(made.id)
        assert (gone.deleted, gone.object) == (True, "conversation.deleted")
        with pytest.raises(openai.NotFoundError):
            await client.conversations.retrieve(made.id)
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.list(made.id)


async def test_what_a_conversation_cant_do_is_said_plainly() -> None:
    item: Any = {"type": "message", "role": "user", "content": "hi"}
    async with ChaosServer() as chaos, served(target_of(chaos)) as server, client_of(server) as client:
        with pytest.raises(openai.BadRequestError, match="'items' can't be added here") as refused:
            await client.conversations.create(items=[item])
        assert refused.value.param == "items"
        made = await client.conversations.create()
        assert made.metadata == {}
        with pytest.raises(openai.APIStatusError, match="a conversation is a log"):
            await client.conversations.items.create(made.id, items=[item])
        with pytest.raises(openai.APIStatusError, match="a conversation is a log"):
            await client.conversations.items.delete("msg_1", conversation_id=made.id)
        with pytest.raises(openai.NotFoundError, match="Item not found"):
            await client.conversations.items.retrieve("msg_1", conversation_id=made.id)
        assert (await client.conversations.items.list(made.id)).data == []


async def test_a_conversation_is_made_once_under_one_idempotency_key() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        key = {"Idempotency-Key": "one"}
        first = await server.call("POST", "/v1/conversations", body={}, headers=key)
        again = await server.call("POST", "/v1/conversations", body={}, headers=key)
        assert (first.status, again.status, first.json["id"]) == (200, 200, again.json["id"])
        assert len((await server.get("/api/sessions"))[1]["data"]) == 1


async def test_input_tokens_are_estimated_for_an_agent_and_grow_with_what_it_is_given() -> None:
    async with (
        ChaosServer([Say("word " * 4000)]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        raw = await client.responses.input_tokens.with_raw_response.count(model="holdfast", input="hi")
        small = raw.parse()
        assert (small.object, raw.headers["X-Holdfast-Estimate"]) == ("response.input_tokens", "true")
        tooled = await client.responses.input_tokens.count(model="holdfast", input="hi", tools=[WEATHER])
        assert tooled.input_tokens > small.input_tokens
        told = await client.responses.create(model="holdfast", input="go")
        after = await client.responses.input_tokens.count(
            model="holdfast", input="hi", previous_response_id=told.id
        )
        assert after.input_tokens > small.input_tokens + 4000
        assert len(chaos.seen.requests) == 1


async def test_a_relayed_models_tokens_are_its_providers_or_an_estimate() -> None:
    async with (
        ChaosServer() as chaos,
        relaying(target_on(chaos, "responses"), target_on(chaos, "chat", name="other")) as server,
        openai_client(server) as client,
    ):
        # The bad model server has no such route, and its own words come back.
        with pytest.raises(openai.NotFoundError, match="/v1/responses/input_tokens is not here"):
            await client.responses.input_tokens.count(model="main", input="hi")
        assert (await client.responses.input_tokens.count(model="other", input="hi")).input_tokens > 0
        with pytest.raises(openai.NotFoundError, match="/v1/responses/compact is not here"):
            await client.responses.compact(model="main", input="hi")
        with pytest.raises(openai.NotFoundError, match="uses another protocol"):
            await client.responses.compact(model="other", input="hi")


async def test_a_compaction_is_sent_back_in_place_of_the_conversation() -> None:
    """P4: a summary that fails is an error, and the stored conversation is as it was."""
    async with (
        ChaosServer(
            [Say("Paris.")], [Say("## Task\nWe spoke of Paris.")], [Say("Yes.")], [Say("Still.")]
        ) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="capital of France?")
        short = await client.responses.compact(model="holdfast", previous_response_id=first.id)
        assert (short.object, [one.type for one in short.output]) == (
            "response.compaction", ["message", "compaction"]
        )  # fmt: skip
        assert short.usage.output_tokens > 0
        assert "Paris." in str(chaos.seen.requests[1].body)
        items: Any = [one.model_dump(exclude_none=True, warnings=False) for one in short.output]
        told = await client.responses.create(
            model="holdfast", input=[*items, {"role": "user", "content": "sure?"}]
        )
        assert told.output_text == "Yes."
        sent: Any = chaos.seen.requests[2].body
        said: list[str] = [one["content"] for one in sent["messages"] if one["role"] == "user"]
        words = ["capital of France?", "We spoke of Paris.", "sure?"]
        assert [word for word in words if word in "".join(said)] == words
        assert "".join(said).index(words[0]) < "".join(said).index(words[1]) < "".join(said).index(words[2])
        went_on = await client.responses.create(
            model="holdfast", input="and now?", previous_response_id=first.id
        )
        assert went_on.output_text == "Still."
        assert "Paris." in str(chaos.seen.requests[3].body)


async def test_a_compaction_takes_items_and_fails_honestly() -> None:
    items: Any = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    async with (
        ChaosServer([Say("## Task\nShort.")], [server_error()], after_last="repeat") as chaos,
        served(replace(target_of(chaos), retry=replace(target_of(chaos).retry, attempts_max=1))) as server,
        client_of(server) as client,
    ):
        short = await client.responses.compact(model="holdfast", input=items, instructions="keep names")
        assert [one.type for one in short.output] == ["message", "compaction"]
        assert "keep names" in str(chaos.seen.requests[0].body)
        with pytest.raises(openai.APIStatusError) as failed:
            await client.responses.compact(model="holdfast", input=items)
        assert failed.value.code == "server_error"
        with pytest.raises(openai.BadRequestError, match="Nothing to summarize"):
            await client.responses.compact(model="holdfast")
        foreign: Any = [
            {"type": "compaction", "encrypted_content": "gAAAA"},
            {"role": "user", "content": "?"},
        ]
        with pytest.raises(openai.BadRequestError, match="this server didn't create this compaction"):
            await client.responses.create(model="holdfast", input=foreign)


@for_each_row(
    ("method", "path", "words"),
    [
        ("POST", "/chat/completions", "Did you mean /v1/chat/completions?"),
        ("POST", "/v1/v1/responses", "Did you mean /v1/responses?"),
        ("GET", "/models", "Did you mean /v1/models?"),
        ("POST", "/v1/chat/completions/", "Did you mean /v1/chat/completions?"),
        ("POST", "/v1/files", "doesn't serve files"),
        ("GET", "/v1/files/file-1/content", "doesn't serve files"),
        ("POST", "/v1/images/generations", "doesn't serve image generation"),
        ("POST", "/v1/threads/t/runs", "use /v1/conversations"),
        ("POST", "/v1/messages/batches", "doesn't serve batches of messages"),
        ("GET", "/v1/chat/completions/chatcmpl-1", "stored chat completions"),
        ("POST", "/v1/nothing", "Route not found"),
    ],
)
async def test_an_unknown_path_says_what_isnt_served_and_what_may_be_meant(
    method: str, path: str, words: str
) -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        answer = await server.call(method, path)
        assert answer.status == 404, answer.body
        assert words in answer.json["error"]["message"]
