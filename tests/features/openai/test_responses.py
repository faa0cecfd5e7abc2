"""Responses with the real openai package: what the object says, going on, coming back, cancelling."""

import json
from typing import Any

import openai
import pytest

from features.openai.official_client import client_of
from holdfast import events as e
from holdfast.chaos import CallTool, ChaosServer, Finish, Gate, Hang, Say, Wait
from holdfast.interfaces.journal import StoreFull
from holdfast.server.options import ServerOptions
from server.toolbox import Counted
from serving import PATIENT, Setting, limited, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row


async def test_a_response_says_what_it_was_asked_with_then_and_later() -> None:
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(
            model="holdfast",
            input="hi",
            instructions="Be brief.",
            temperature=0.5,
            max_output_tokens=9,
            reasoning={"effort": "low"},
            metadata={"k": "v"},
            conversation="c",
        )
        second = await client.responses.create(model="holdfast", input="and?", previous_response_id=first.id)
        again = [await client.responses.retrieve(one.id) for one in (first, second)]
        hidden = await client.responses.create(model="holdfast", input="hi", store=False)
    assert again == [first, second]
    assert (first.instructions, first.temperature, first.max_output_tokens) == ("Be brief.", 0.5, 9)
    assert (first.metadata, first.reasoning and first.reasoning.effort) == ({"k": "v"}, "low")
    assert first.conversation is not None
    assert first.conversation.id == "c"
    assert first.completed_at is not None
    assert first.usage is not None
    assert first.usage.input_tokens_details.cache_write_tokens == 0
    assert again[1].previous_response_id == first.id
    assert hidden.to_dict()["store"] is False


# The fields that the Open Responses specification requires; those with a type must not be null.
REQUIRED: dict[str, type | None] = {
    **dict.fromkeys(("id", "object", "status", "model", "truncation", "service_tier"), str),
    **dict.fromkeys(("temperature", "top_p", "presence_penalty", "frequency_penalty"), float),
    **dict.fromkeys(("created_at", "top_logprobs"), int),
    **dict.fromkeys(("parallel_tool_calls", "store", "background"), bool),
    **dict.fromkeys(("output", "tools"), list),
    **dict.fromkeys(("text", "tool_choice", "metadata", "reasoning"), dict),
    **dict.fromkeys(("completed_at", "incomplete_details", "previous_response_id", "instructions", "error")),
    **dict.fromkeys(
        ("usage", "max_output_tokens", "max_tool_calls", "safety_identifier", "prompt_cache_key")
    ),
}
TOOL = {"type": "function", "name": "weather", "parameters": {"type": "object"}}


async def test_every_response_object_has_the_fields_that_the_specification_requires() -> None:
    """P12: typed clients read an answer of the agent like any other."""
    choice = {"type": "function", "name": "weather"}
    body = {"model": "holdfast", "input": "hi", "tools": [TOOL], "tool_choice": choice, "top_p": 0.5}
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        shown = [(await server.post("/v1/responses", body))[1]]
        answer = await server.call("POST", "/v1/responses", body=body | {"stream": True})
    frames = [
        json.loads(line[6:]) for line in answer.body.decode().splitlines() if line.startswith("data: {")
    ]
    shown += [frame["response"] for frame in frames if "response" in frame]
    assert len(shown) == 4
    for response in shown:
        wrong = {
            name: response.get(name, "missing")
            for name, kind in REQUIRED.items()
            if name not in response or (kind and not isinstance(response[name], kind))
        }
        assert not wrong
        assert (response["top_p"], response["temperature"], response["tool_choice"]) == (0.5, 1.0, choice)
        assert response["tools"] == [TOOL | {"description": None, "strict": False}]


async def test_the_items_of_a_stream_are_those_of_the_response_and_no_other_response_has_them() -> None:
    """P7: a client that keeps items by their ids neither loses one nor shows one twice."""
    script = [Say("I look."), CallTool("touch", {"n": 1})]
    async with (
        ChaosServer(script, [Say("Done.")], script, [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
        client_of(server) as client,
    ):
        ids: list[list[str]] = []
        for _ in range(2):
            stream = await client.responses.create(model="holdfast", input="hi", stream=True)
            events: list[Any] = [event async for event in stream]
            done = [event.item for event in events if event.type == "response.output_item.done"]
            assert events[-1].response.output == done[1:]
            assert (await client.responses.retrieve(events[0].response.id)).output == done[1:]
            ids.append([item.id for item in done])
    assert len({*ids[0], *ids[1]}) == 6


@for_each_row(("ending", "status"), [(Finish("length"), "incomplete"), (Hang(), "cancelled")])
async def test_a_message_that_is_not_whole_is_not_called_completed(ending: Any, status: str) -> None:
    """P4: neither in the stream nor in the response, and a failed one says why."""
    async with (
        ChaosServer([Say("half"), ending], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        client_of(server) as client,
    ):
        events: list[Any] = []
        async for event in await client.responses.create(model="holdfast", input="hi", stream=True):
            events.append(event)
            if event.type == "response.output_text.delta" and status == "cancelled":
                await server.post(f"/v1/runs/{events[0].response.id.replace('resp_', 'run_')}/stop")
        last = events[-1].response
        shown: Any = await client.responses.retrieve(last.id)
    assert (last.status, shown.status) == (status, status)
    assert [item.status for item in shown.output] == ["incomplete"]
    (done,) = [event.item for event in events if event.type == "response.output_item.done"]
    assert done.status == "incomplete"
    assert (last.error is not None) == (status == "cancelled")


async def test_a_response_in_the_background_is_answered_at_once_and_read_later() -> None:
    gate = Gate()
    async with (
        ChaosServer([Say("done "), Wait(gate), Say("later")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0)) as server,
        client_of(server) as client,
    ):
        begun = await client.responses.create(model="holdfast", input="hi", background=True)
        assert begun.status in {"queued", "in_progress"}
        await gate.reached()
        assert (await client.responses.retrieve(begun.id)).status == "in_progress"
        gate.open()
        await server.ended(begun.id.replace("resp_", "run_"))
        shown = await client.responses.retrieve(begun.id)
        assert (shown.status, shown.output_text, shown.background) == ("completed", "done later", True)
        with pytest.raises(openai.BadRequestError) as refused:
            await client.responses.create(model="holdfast", input="hi", background=True, store=False)
        assert refused.value.param == "store"


async def test_a_stream_goes_on_after_any_event_and_tells_the_end_in_any_case() -> None:
    """P7: with the package's own cursor."""
    async with (
        ChaosServer([Say("one "), Say("two")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        stream = await client.responses.create(model="holdfast", input="hi", stream=True)
        events: list[Any] = [event async for event in stream]
        response = events[0].response.id
        for seen in range(len(events)):
            again = await client.responses.retrieve(response, stream=True, starting_after=seen)
            assert [event async for event in again] == (events[seen + 1 :] or events[-1:])
        with pytest.raises(openai.BadRequestError):
            await client.responses.retrieve(response, extra_query={"starting_after": "x"})


async def test_a_response_is_cancelled_and_one_that_is_over_stays_as_it_is() -> None:
    """P5."""
    async with (
        ChaosServer([Say("half"), Hang()], [Say("whole")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        client_of(server) as client,
    ):
        begun = await client.responses.create(model="holdfast", input="hi", background=True)
        await chaos.seen.until_request(1)
        assert (await client.responses.cancel(begun.id)).status == "cancelled"
        assert (await client.responses.cancel(begun.id)).status == "cancelled"
        whole = await client.responses.create(model="holdfast", input="hi")
        assert (await client.responses.cancel(whole.id)).status == "completed"
        with pytest.raises(openai.NotFoundError):
            await client.responses.cancel("resp_nowhere")


async def test_what_hermes_clients_send_in_a_response_is_understood() -> None:
    """A history of their own, texts among the items, messages without a role."""
    history = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for given in (["three"], [{"type": None, "content": "three"}], "three"):
            body = {"input": given, "conversation_history": history}
            assert (await server.post("/v1/responses", body))[0] == 200
            assert said_to(chaos, nth=len(chaos.seen.requests)) == ["one", "two", "three"]
        both = {"input": "x", "previous_response_id": "resp_x", "conversation": "c"}
        status, answer = await server.post("/v1/responses", both)
        assert (status, answer["error"]["param"]) == (400, "conversation")


@for_each_row(
    ("path", "body", "param"),
    [
        ("responses", {"input": [{"role": "user", "content": [{"type": "x"}]}]}, "input[0].content[0]"),
        (
            "responses",
            {"input": [{"type": "reasoning"}, {"role": "wizard", "content": "x"}, "y"]},
            "input[1].role",
        ),
        (
            "chat/completions",
            {
                "messages": [
                    {"role": "system", "content": "s"},
                    {"role": "user", "content": [{"type": "x"}]},
                    {"role": "user", "content": "y"},
                ]
            },
            "messages[1].content[0]",
        ),
        ("responses", {"input": ["x", {"type": "computer_call", "call_id": "c"}]}, "input[1].type"),
        ("responses", {"input": "x", "conversation": "a/b"}, "conversation"),
    ],
)
async def test_what_is_wrong_is_named_by_the_place_where_the_client_put_it(
    path: str, body: Any, param: str
) -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        status, answer = await server.post(f"/v1/{path}", body)
        assert (status, answer["error"]["param"]) == (400, param)
        assert f"'{param}'" in answer["error"]["message"]


async def test_a_refusal_in_a_history_is_something_that_was_said() -> None:
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": None, "refusal": "never"},
        {"role": "user", "content": "three"},
    ]
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        assert (await server.post("/v1/chat/completions", {"messages": messages}))[0] == 200
        assert said_to(chaos, nth=1) == ["one", "no", "two", "never", "three"]


async def test_a_session_of_other_letters_is_found_again_by_the_header_that_named_it() -> None:
    """P2: what was said there is known."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        body = {"messages": [{"role": "user", "content": "one"}], "session_id": "Gespräch 7%"}
        first = await server.call("POST", "/v1/chat/completions", body=body)
        for nth, named in ((2, first.headers["X-Hermes-Session-Id"]), (3, "Gespräch 7%")):
            again = {"messages": [{"role": "user", "content": "more"}]}
            headers = {"X-Hermes-Session-Id": named}
            await server.call("POST", "/v1/chat/completions", body=again, headers=headers)
            assert said_to(chaos, nth=nth) == ["one", "x", *["more", "x"] * (nth - 2), "more"]
        assert [one["id"] for one in (await server.get("/api/sessions"))[1]["data"]] == ["Gespräch 7%"]


async def test_a_model_is_found_by_its_name() -> None:
    setting = Setting(options=ServerOptions(model="vendor/model"))
    async with (
        ChaosServer() as chaos,
        served(target_of(chaos), setting=setting) as server,
        client_of(server) as client,
    ):
        assert (await client.models.retrieve("vendor/model")).id == "vendor/model"
        with pytest.raises(openai.NotFoundError) as missing:
            await client.models.retrieve("gpt-1")
        assert (missing.value.code, missing.value.param) == ("model_not_found", "model")


async def test_a_history_that_came_with_the_first_request_is_known_in_the_next() -> None:
    """P6: the log of the session alone does not hold it."""
    history = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        _, first = await server.post("/v1/responses", {"input": "three", "conversation_history": history})
        await server.post("/v1/responses", {"input": "four", "previous_response_id": first["id"]})
        messages = [*history, {"role": "user", "content": "three"}]
        more = [*messages, {"role": "assistant", "content": "x"}, {"role": "user", "content": "four"}]
        for body in ({"messages": messages}, {"messages": more}):
            headers = {"X-Hermes-Session-Id": "s"}
            await server.call("POST", "/v1/chat/completions", body=body, headers=headers)
        for nth in (2, 4):
            assert said_to(chaos, nth=nth) == ["one", "two", "three", "x", "four"]


@for_each_row(("named", "header"), [({"conversation": "c"}, ""), ({}, "c")])
async def test_what_a_conversation_began_with_is_known_in_all_its_requests(
    named: dict[str, str], header: str
) -> None:
    """P6: also if the first request told more than its last item, and the next ones only what is new."""
    begun: list[Any] = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}, "three"]
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for given in (begun, "four", "five"):
            body, headers = {"input": given, **named}, {"X-Hermes-Session-Id": header} if header else {}
            assert (await server.call("POST", "/v1/responses", body=body, headers=headers)).status == 200
        assert said_to(chaos, nth=2) == ["one", "two", "three", "x", "four"]
        assert said_to(chaos, nth=3) == ["one", "two", "three", "x", "four", "x", "five"]


@for_each_row("given", ["two", [{"role": "user", "content": "greeting"}, "two"]])
async def test_what_was_taken_back_is_not_told_and_what_stands_is(given: Any) -> None:
    """P4: a history that a request brought is of its run, and goes with it."""
    store = MemoryStore()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
    ):
        for one in ("one", given, "three"):
            assert (await server.post("/v1/responses", {"input": one, "conversation": "c"}))[0] == 200
        to_seq = next(one.seq for one in await store.read("c") if isinstance(one.event, e.RunEnded))
        assert (await server.post("/api/sessions/c/rewind", {"to_seq": to_seq}))[0] == 200
        body = {"input": [{"role": "user", "content": "a"}, "b"], "conversation": "c"}
        assert (await server.post("/v1/responses", body))[0] == 200
        assert said_to(chaos, nth=4) == ["one", "x", "a\n\nb"]


@for_each_row("how", ["retried", "rewound"])
async def test_nobody_goes_on_after_a_response_that_was_taken_back(how: str) -> None:
    """P4: without it the next answer would know of nothing, and nobody would be told."""
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        _, first = await server.post("/v1/responses", {"input": "one", "conversation": "c"})
        if how == "retried":
            _, again = await server.post(f"/v1/runs/{first['id'].replace('resp_', 'run_')}/retry")
            await server.ended(again["run_id"])
        else:
            assert (await server.post("/api/sessions/c/rewind", {"to_seq": 1}))[0] == 200
        asked = len(chaos.seen.requests)
        for path in ("responses", "runs"):
            body = {"input": "two", "previous_response_id": first["id"]}
            refused = await server.call("POST", f"/v1/{path}", body=body)
            assert (refused.status, refused.code) == (409, "response_rewound")
            assert refused.headers["X-Should-Retry"] == "false"
        assert len(chaos.seen.requests) == asked


class FullForNotes(MemoryStore):
    """Has no room for the next note of a session."""

    is_full = False

    async def put_note(self, key: str, value: bytes) -> None:
        if self.is_full and key.startswith("session/"):
            self.is_full = False
            raise StoreFull("full")
        await super().put_note(key, value)


async def test_a_response_whose_note_finds_no_room_is_not_run_twice() -> None:
    """P2: its run is accepted, whatever else could not be kept."""
    store = FullForNotes()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
        client_of(server, max_retries=2) as client,
    ):
        first = await client.responses.create(model="holdfast", input="one")
        store.is_full = True
        await client.responses.create(model="holdfast", input="two", previous_response_id=first.id)
        assert len(chaos.seen.requests) == 2


async def test_a_run_whose_response_could_not_be_hidden_is_told_and_not_run_twice() -> None:
    """P2, P11: the package would send it again, and so it is told not to."""
    store = FullForNotes()
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos), store=store) as server,
        client_of(server, max_retries=2) as client,
    ):
        store.is_full = True
        with pytest.raises(openai.InternalServerError, match="hiding its response failed") as told:
            await client.responses.create(model="holdfast", input="one", store=False)
        assert (told.value.status_code, told.value.code) == (503, "store_unavailable")
        await server.ended(told.value.response.headers["X-Hermes-Run-Id"])
        assert len(chaos.seen.requests) == 1
