"""The real openai package against our server: chat completions and responses, whole and streamed."""

import asyncio
import base64
from collections.abc import Sequence
from typing import Any

import openai
import pytest

from features.openai.official_client import client_of
from holdfast.chaos import (
    CallTool,
    ChaosServer,
    Drop,
    Finish,
    Hang,
    Refuse,
    Say,
    insufficient_quota,
    rate_limited_s,
)
from holdfast.events import Input, StopRequested
from holdfast.interfaces.journal import StoreLocked
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import ApiKey, ServerOptions
from server.toolbox import Counted
from serving import PATIENT, AsksAbout, Setting, limited, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row


def user(text: str) -> Any:
    return [{"role": "user", "content": text}]


async def said_by(client: openai.AsyncOpenAI, *, stream: bool) -> str:
    if not stream:
        answer = await client.chat.completions.create(model="holdfast", messages=user("hi"))
        return answer.choices[0].message.content or ""
    chunks = await client.chat.completions.create(model="holdfast", messages=user("hi"), stream=True)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in chunks])


async def test_a_chat_completion_whole() -> None:
    async with (
        ChaosServer([Say("hello")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        messages: Any = [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one"},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": [{"type": "text", "text": "three"}]},
        ]
        raw = await client.chat.completions.with_raw_response.create(model="holdfast", messages=messages)
        answer = raw.parse()
        assert answer.choices[0].message.content == "hello"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage is not None
        assert answer.usage.total_tokens == 18
        assert said_to(chaos, nth=1) == ["one", "two", "three"]
        run_id = raw.headers["X-Hermes-Run-Id"]
        assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "completed"
        assert (await server.get("/api/sessions"))[1]["data"] == []
        assert len((await server.get("/api/sessions?all=true"))[1]["data"]) == 1


async def test_a_chat_completion_streamed() -> None:
    tool = Counted()
    async with (
        ChaosServer([Say("let me see"), CallTool("touch", {"n": 1})], [Say("do"), Say("ne")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(tool,))) as server,
        client_of(server) as client,
    ):
        stream = await client.chat.completions.create(
            model="holdfast", messages=user("hi"), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        spoken = [chunk for chunk in chunks if chunk.choices]
        assert spoken[0].choices[0].delta.role == "assistant"
        assert all(chunk.choices is not None for chunk in chunks), "each frame is a chunk to the package"
        assert "".join(chunk.choices[0].delta.content or "" for chunk in spoken) == "let me see\n\ndone"
        assert spoken[-1].choices[0].finish_reason == "stop"
        assert chunks[-1].usage is not None
    assert tool.done == [{"n": 1}]


async def test_tool_progress_stands_beside_the_chunks() -> None:
    async with (
        ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        body = {"messages": user("hi"), "stream": True}
        answer = await server.call("POST", "/v1/chat/completions", body=body)
        assert answer.body.count(b"event: hermes.tool.progress\n") == 2
        assert b'"event":"tool.started","tool":"touch"' in answer.body
        assert answer.body.endswith(b"data: [DONE]\n\n")


async def test_a_session_header_goes_on_and_strangers_with_the_same_words_do_not_meet() -> None:
    async with (
        ChaosServer([Say("a")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        raw = await client.chat.completions.with_raw_response.create(model="holdfast", messages=user("hi"))
        session = {"X-Hermes-Session-Id": raw.headers["X-Hermes-Session-Id"]}
        await client.chat.completions.create(model="holdfast", messages=user("and"), extra_headers=session)
        assert said_to(chaos, nth=2) == ["hi", "a", "and"]
        other = await client.chat.completions.with_raw_response.create(model="holdfast", messages=user("hi"))
        assert other.headers["X-Hermes-Session-Id"] != session["X-Hermes-Session-Id"]
        assert said_to(chaos, nth=3) == ["hi"]


@for_each_row("stream", [False, True])
async def test_a_failed_run_is_an_error_and_never_an_answer(stream: bool) -> None:  # noqa: FBT001
    """P4: with a status that says what to do, or an error in the stream."""
    async with (
        ChaosServer([insufficient_quota()], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        with pytest.raises(openai.APIError) as caught:
            await said_by(client, stream=stream)
        assert "sk-test" not in str(caught.value)
        assert caught.value.code == "quota_exhausted"


async def test_how_it_finished_is_told_truthfully() -> None:
    async with (
        ChaosServer([Refuse("no")], [Say("x"), Finish("length")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        refused = await client.responses.create(model="holdfast", input="hi")
        assert refused.status == "incomplete"
        cut = await client.chat.completions.create(model="holdfast", messages=user("hi"))
        assert cut.choices[0].finish_reason == "length"


async def test_what_a_client_sends_wrong_is_named() -> None:
    """P12."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        wrong: list[tuple[str, Any, str]] = [
            ("chat/completions", {}, "messages"),
            ("chat/completions", {"messages": []}, "messages"),
            ("chat/completions", {"messages": [{"content": "x"}]}, "messages[0].role"),
            ("chat/completions", {"messages": [{"role": "user", "content": ""}]}, "messages[0].content"),
            ("responses", {}, "input"),
            ("responses", {"input": ""}, "input"),
            ("responses", {"input": "x", "previous_response_id": "resp_no"}, "previous_response_id"),
        ]
        for path, body, param in wrong:
            answer = await server.call("POST", f"/v1/{path}", body=body)
            assert answer.status in {400, 404}
            assert answer.json["error"]["param"] == param, answer.json


async def test_a_response_is_made_continued_shown_and_deleted() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="a", instructions="Be brief.")
        assert (first.output_text, first.status) == ("one", "completed")
        second = await client.responses.create(model="holdfast", input="b", previous_response_id=first.id)
        assert said_to(chaos, nth=2) == ["a", "one", "b"]
        branch = await client.responses.create(model="holdfast", input="c", previous_response_id=first.id)
        assert said_to(chaos, nth=3) == ["a", "one", "c"]
        assert branch.output_text == "three"
        shown = await client.responses.retrieve(second.id)
        assert shown.output_text == "two"
        await client.responses.delete(second.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(second.id)


async def test_a_response_is_streamed_with_numbers_parts_and_arguments() -> None:
    tool = Counted()
    async with (
        ChaosServer([Say("hm"), CallTool("touch", {"n": 1})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(tool,))) as server,
        client_of(server) as client,
    ):
        stream = await client.responses.create(model="holdfast", input="hi", stream=True)
        events = [event async for event in stream]
        assert [event.sequence_number for event in events] == list(range(len(events)))
        kinds = [event.type for event in events]
        assert kinds[:2] == ["response.created", "response.in_progress"]
        assert "response.mcp_call_arguments.done" in kinds
        assert kinds[-1] == "response.completed"
        last: Any = events[-1]
        assert last.response.output_text == "done"
        done: list[Any] = [event for event in events if event.type == "response.output_item.done"]
        assert [event.output_index for event in done] == [0, 1, 2]
        streamed = [event.item for event in done]
        assert [item.type for item in streamed] == ["message", "mcp_call", "message"]
        assert last.response.output == streamed[1:]
        async with client.responses.stream(model="holdfast", input="again") as failing:
            final = [event.type async for event in failing]
        assert final[-1] == "response.failed"


async def test_a_dropped_stream_of_the_provider_is_mended_for_plain_clients_too() -> None:
    """P4: the difference is said once."""
    async with (
        ChaosServer([Say("hello world"), Drop()], [Say("hello there")]) as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        assert await said_by(client, stream=True) == "hello world\n\n[answer restarted]\n\nhello there"


async def test_a_plain_client_that_leaves_stops_its_run_after_a_grace() -> None:
    async with (
        ChaosServer([Say("hal"), Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0.01)) as server,
    ):
        for fields, status in (({}, "cancelled"), ({"on_disconnect": "detach"}, "running")):
            body: dict[str, Any] = {"messages": user("hi"), "stream": True, **fields}
            async with server.http.post(f"{server.url}/v1/chat/completions", json=body) as answer:
                run_id = answer.headers["X-Hermes-Run-Id"]
                await answer.content.readline()
            if status == "cancelled":
                shown = await server.ended_unread(run_id)
                assert (shown["status"], shown["cause"]) == ("cancelled", "client_gone")
            else:
                await server.until_streams(0)
                assert (await server.get(f"/v1/runs/{run_id}"))[1]["status"] == "running"


async def test_a_store_that_is_locked_when_the_client_leaves_only_delays_the_stop() -> None:
    """P5: the run does not go on for nobody."""
    refused: list[Input] = []

    class LockedAtStop(MemoryStore):
        async def append(self, session_id: str, inputs: Sequence[Input], **rest: Any) -> Any:
            if isinstance(inputs[0], StopRequested) and not refused:
                refused.append(inputs[0])
                raise StoreLocked("a backup has the file")
            return await super().append(session_id, inputs, **rest)

    setting = limited(disconnect_grace_s=0.01)
    async with (
        ChaosServer([Say("hal"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), store=LockedAtStop(), setting=setting) as server,
    ):
        body = {"messages": user("hi"), "stream": True}
        async with server.http.post(f"{server.url}/v1/chat/completions", json=body) as answer:
            run_id = answer.headers["X-Hermes-Run-Id"]
            await answer.content.readline()
        shown = await server.ended_unread(run_id)
        assert (shown["status"], shown["cause"], len(refused)) == ("cancelled", "client_gone", 1)


@for_each_row("path", ["/v1/chat/completions", "/v1/responses"])
async def test_a_client_that_waits_for_the_whole_and_leaves_stops_its_run_too(path: str) -> None:
    """P5: nobody would ever read the answer."""
    async with (
        ChaosServer([Say("hal"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0.01)) as server,
    ):
        body = {"messages": user("hi"), "input": "hi"}
        waiting = asyncio.create_task(server.call("POST", path, body=body))
        await chaos.seen.until_request(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        (run,) = (await server.get("/v1/runs"))[1]["data"]
        shown = await server.ended_unread(run["run_id"])
        assert (shown["status"], shown["cause"]) == ("cancelled", "client_gone")


@for_each_row("path", ["/v1/chat/completions", "/v1/responses", "/api/sessions/s/chat"])
async def test_who_waits_for_a_whole_answer_does_not_hold_up_a_shutdown(path: str) -> None:
    """P3, P6: the client is told to come back, and the run goes on with the next server."""
    disk = MemoryDisk()
    async with ChaosServer([Say("hal"), Hang()], [Say("whole")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk)) as server:
            body = {"messages": user("hi"), "input": "hi"}
            waiting = asyncio.create_task(server.call("POST", path, body=body))
            await chaos.seen.until_request(1)
            (run,) = (await server.get("/v1/runs"))[1]["data"]
            server.streams.end()
            answer = await waiting
            assert (answer.status, answer.code) == (503, "shutting_down")
        async with served(target, store=MemoryStore(disk)) as server:
            assert (await server.ended(run["run_id"]))["output"] == "whole"


async def test_models_are_listed() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server, client_of(server) as client:
        listed = [model.id async for model in client.models.list()]
        assert listed == ["holdfast", "holdfast/main", "main", "m"]
        shown = [await client.models.retrieve(name) for name in (*listed, "hermes-agent")]
        assert [model.owned_by for model in shown] == [*["holdfast"] * 2, *["holdfast-relay"] * 2, "holdfast"]


async def test_a_model_that_is_not_there_is_refused_and_the_others_are_named() -> None:
    async with (
        ChaosServer([Say("hello")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        for model in ("holdfast", "hermes-agent", "holdfast/main"):
            await client.chat.completions.create(model=model, messages=user("hi"))
            await client.responses.create(model=model, input="hi")
        with pytest.raises(
            openai.NotFoundError, match="This server has: holdfast, holdfast/main, main"
        ) as refused:
            await client.chat.completions.create(model="gpt-0", messages=user("hi"))
        assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.NotFoundError, match="Model not found: gpt-0"):
            await client.responses.create(model="gpt-0", input="hi", stream=True)
        assert chaos.seen.requests_seen == 6
        # A client of hermes-agent, which never looked at the name.
        session = {"X-Hermes-Session-Id": "mine"}
        await client.chat.completions.create(model="gpt-0", messages=user("hi"), extra_headers=session)


PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and so on").decode()


async def test_images_and_parameters_of_the_package_reach_the_model() -> None:
    async with (
        ChaosServer([Say("a cat")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        url = f"data:image/png;base64,{PNG}"
        looked: Any = [
            {"type": "text", "text": "what is it?"},
            {"type": "image_url", "image_url": {"url": url, "detail": "low"}},
        ]
        answer = await client.chat.completions.create(
            model="holdfast",
            messages=[{"role": "user", "content": looked}],
            temperature=0.1,
            max_completion_tokens=50,
            reasoning_effort="low",
        )
        assert answer.choices[0].message.content == "a cat"
        given: Any = [{"type": "input_text", "text": "and it?"}, {"type": "input_image", "image_url": url}]
        response = await client.responses.create(
            model="holdfast",
            input=[{"role": "user", "content": given}],
            temperature=0.1,
            max_output_tokens=50,
            reasoning={"effort": "low"},
        )
        assert response.output_text == "a cat"
        for nth in (0, 1):
            body: Any = chaos.seen.requests[nth].body
            assert (body["temperature"], body["max_tokens"], body["reasoning_effort"]) == (0.1, 50, "low")
            assert body["messages"][-1]["content"][1] == {"type": "image_url", "image_url": {"url": url}}


async def test_errors_are_the_exceptions_that_the_package_has_for_them() -> None:
    """P12, P11: the status and the code say what to do, and nothing of the key is in them."""
    setting = Setting(options=ServerOptions(keys=(ApiKey("me", "any"),)))
    async with (
        ChaosServer([rate_limited_s(600)], after_last="repeat") as chaos,
        served(target_of(chaos), setting=setting) as server,
        client_of(server) as client,
    ):
        stranger = client.with_options(api_key="sk-wrong-key-of-a-stranger")
        with pytest.raises(openai.AuthenticationError) as refused:
            await stranger.models.list()
        assert refused.value.code == "invalid_api_key"
        assert "stranger" not in str(refused.value)
        with pytest.raises(openai.BadRequestError) as bad:
            await client.chat.completions.create(model="holdfast", messages=user("hi"), temperature=9)
        assert bad.value.param == "temperature"
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_nowhere")
        key = {"Idempotency-Key": "one"}
        started = asyncio.create_task(
            client.chat.completions.create(model="holdfast", messages=user("a"), extra_headers=key)
        )
        await chaos.seen.until_request(1)
        with pytest.raises(openai.ConflictError) as conflict:
            await client.chat.completions.create(model="holdfast", messages=user("b"), extra_headers=key)
        assert conflict.value.code == "idempotency_key_conflict"
        started.cancel()
        await asyncio.wait([started])


async def test_a_tool_that_asks_is_approved_beside_a_plain_stream() -> None:
    """P8: the stream waits, the run is found by its header, and the answer goes on where it stood."""
    tool = Counted()
    setting = Setting(tools=(tool,), judge=AsksAbout(frozenset({"touch"})))
    async with (
        ChaosServer([CallTool("touch", {"n": 2})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=setting) as server,
        client_of(server) as client,
    ):
        async with client.chat.completions.with_streaming_response.create(
            model="holdfast", messages=user("do it"), stream=True
        ) as answer:
            run_id = answer.headers["X-Hermes-Run-Id"]
            stream = await answer.parse()
            asked = await server.until(run_id, "approval.request")
            body = {"choice": "once", "approval_id": asked.data["approval_id"]}
            assert (await server.post(f"/v1/runs/{run_id}/approval", body))[0] == 200
            said = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        page = f"{server.url}/s/{answer.headers['X-Hermes-Session-Id']}"
        waits = "[Waiting for a person to approve this: touch {'n': 2}]"
        assert "".join(said) == f"{waits}\n\nApprove or deny it here: <{page}>\n\ndone"
    assert tool.done == [{"n": 2}]
