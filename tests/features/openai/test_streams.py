"""What plain OpenAI clients see of a stream: frames that are chunks, and an end that says which end it is."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import openai
import pytest

from features.openai.official_client import client_of
from holdfast.chaos import CallTool, ChaosServer, Gate, Hang, Say, Think, Wait
from holdfast.interfaces.system_clock import SystemClock
from holdfast.interfaces.tool import ToolCall, ToolResult
from holdfast.journal.memory_disk import MemoryDisk
from holdfast.server.options import Limits, ServerOptions
from server.toolbox import Counted
from serving import PATIENT, Setting, said_to, served, target_of
from stores import MemoryStore
from tables import for_each_row

GRACE_S = 12_345.0
HI: Any = [{"role": "user", "content": "hi"}]


class GraceIsOver(SystemClock):
    """A clock on which the grace of readers who left is over at once."""

    def __init__(self) -> None:
        self.waited = asyncio.Event()

    async def sleep_s(self, seconds: float) -> None:
        if seconds == GRACE_S:
            self.waited.set()
        else:
            await super().sleep_s(seconds)


@for_each_row("path", ["/v1/chat/completions", "/v1/responses"])
async def test_a_stream_that_the_server_cuts_off_says_so(path: str) -> None:
    """P4: to the package the bare end of a stream is the end of the answer."""
    gate = Gate()
    async with (
        ChaosServer([Say("half an answer"), Wait(gate)]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        body = {"messages": HI, "input": "hi", "stream": True}
        reading = asyncio.create_task(server.call("POST", path, body=body))
        await gate.reached()
        await server.until_streams(1)
        server.streams.end()
        text = (await reading).body.decode()
    frames = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    if path == "/v1/responses":
        assert json.loads(frames[-1])["type"] == "error"
        assert json.loads(frames[-1])["code"] == "stream_ended"
        assert [json.loads(frame)["sequence_number"] for frame in frames] == list(range(len(frames)))
    else:
        assert frames[-1] == "[DONE]"
        assert json.loads(frames[-2])["error"]["code"] == "stream_ended"


async def test_the_package_raises_where_a_stream_is_cut_off() -> None:
    """P4."""
    gate = Gate()
    async with (
        ChaosServer([Say("half an answer"), Wait(gate)]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        client_of(server) as client,
    ):
        stream = await client.chat.completions.create(model="holdfast", messages=HI, stream=True)
        await gate.reached()
        server.streams.end()
        with pytest.raises(openai.APIError, match="but the run continues"):
            async for _ in stream:
                pass


class Failing(Counted):
    """Fails each time."""

    async def run(self, args: Mapping[str, object], call: ToolCall) -> ToolResult:
        await super().run(args, call)
        return ToolResult("no", ok=False)


async def test_a_tool_that_fails_does_not_end_the_package_s_stream() -> None:
    """P4: the package takes whatever is called an error for the end."""
    async with (
        ChaosServer([CallTool("touch", {})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Failing(),))) as server,
        client_of(server) as client,
    ):
        stream = await client.chat.completions.create(model="holdfast", messages=HI, stream=True)
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks).endswith("done")
    assert any(getattr(chunk, "failed", False) for chunk in chunks)


async def test_a_run_that_was_stopped_is_not_begun_again_by_the_package() -> None:
    """P5: the package sends again what fails with such a status, unless it is told not to."""
    async with (
        ChaosServer([Say("hal"), Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        client_of(server, max_retries=2) as client,
    ):
        waiting = asyncio.create_task(client.chat.completions.create(model="holdfast", messages=HI))
        await chaos.seen.until_request(1)
        (run,) = (await server.get("/v1/runs"))[1]["data"]
        await server.post(f"/v1/runs/{run['run_id']}/stop")
        with pytest.raises(openai.ConflictError) as stopped:
            await waiting
        assert stopped.value.code == "cancelled"
        assert len((await server.get("/v1/runs"))[1]["data"]) == 1


@for_each_row(("headers", "told"), [({}, "false"), ({"Idempotency-Key": "k"}, None)])
async def test_who_waits_while_the_server_goes_is_told_which_run_it_was(
    headers: dict[str, str], told: str | None
) -> None:
    """P6: sent again without a key it would be a second run beside the one that goes on."""
    async with (
        ChaosServer([Say("hal"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        call = server.call("POST", "/v1/chat/completions", body={"messages": HI}, headers=headers)
        waiting = asyncio.create_task(call)
        await chaos.seen.until_request(1)
        (run,) = (await server.get("/v1/runs"))[1]["data"]
        server.streams.end()
        answer = await waiting
        assert (answer.code, answer.headers["X-Hermes-Run-Id"]) == ("shutting_down", run["run_id"])
        assert answer.headers.get("X-Should-Retry") == told


async def test_what_is_said_before_and_after_a_tool_does_not_run_together() -> None:
    async with (
        ChaosServer(
            [CallTool("touch", {})], [Say("I look."), CallTool("touch", {})], [Say("Done.")]
        ) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
        client_of(server) as client,
    ):
        stream = await client.chat.completions.create(model="holdfast", messages=HI, stream=True)
        said = [chunk.choices[0].delta.content or "" async for chunk in stream]
    assert "".join(said) == "I look.\n\nDone."


async def test_tool_progress_is_what_clients_of_hermes_know_and_says_nothing_to_others() -> None:
    """Each frame has a choice, since that is where users of the package look without asking."""
    async with (
        ChaosServer([CallTool("touch", {"path": "a.txt"})], [Say("done")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        answer = await server.call("POST", "/v1/chat/completions", body={"messages": HI, "stream": True})
    blocks = answer.body.decode().split("\n\n")
    name = "event: hermes.tool.progress\ndata: "
    told = [json.loads(block.removeprefix(name)) for block in blocks if block.startswith(name)]
    assert [(one["tool"], one["status"]) for one in told] == [("touch", "running"), ("touch", "completed")]
    assert told[0]["label"] == "a.txt"
    assert told[0]["toolCallId"] == told[1]["toolCallId"] != ""
    assert [one["choices"][0]["delta"] for one in told] == [{}, {}]
    finish = json.loads(blocks[-3].removeprefix("data: "))
    assert finish["choices"][0]["finish_reason"] == "stop"
    assert finish["usage"]["total_tokens"] > 0


async def test_who_follows_a_run_keeps_it_when_the_plain_client_has_left() -> None:
    """P7: a reader that comes back by another door within the grace is a reader."""
    gate, clock = Gate(), GraceIsOver()
    setting = Setting(clock=clock, options=ServerOptions(limits=Limits(disconnect_grace_s=GRACE_S)))
    async with (
        ChaosServer([Say("hal"), Wait(gate), Say("f")]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=setting) as server,
    ):
        body = {"messages": HI, "stream": True}
        async with server.http.post(f"{server.url}/v1/chat/completions", json=body) as plain:
            run_id = plain.headers["X-Hermes-Run-Id"]
            follower = asyncio.create_task(server.all_frames(run_id))
            await server.until_streams(2)
        await clock.waited.wait()
        gate.open()
        frames = await follower
        assert frames[-1].data["event"] == "run.completed"
        assert frames[-1].data["output"] == "half"


async def test_what_a_compaction_thinks_is_no_part_of_the_answer() -> None:
    """The summary itself is not shown either."""
    story = "tell me more " * 200
    async with (
        ChaosServer(
            [Say("a story " * 300)],
            [Think("private thoughts about the summary"), Say("## Task\na summary")],
            [Think("hm"), Say("the end")],
            after_last="repeat",
        ) as chaos,
        served(target_of(chaos), setting=Setting(context_window=1500)) as server,
        client_of(server) as client,
    ):
        session = {"X-Hermes-Session-Id": "s"}
        for text in (story, "go on"):
            body: Any = [{"role": "user", "content": text}]
            stream = await client.chat.completions.create(
                model="holdfast", messages=body, stream=True, extra_headers=session
            )
            deltas: list[Any] = [chunk.choices[0].delta async for chunk in stream]
        thought = "".join(getattr(delta, "reasoning_content", None) or "" for delta in deltas)
        said = "".join(delta.content or "" for delta in deltas)
        newest = (await server.get("/v1/runs"))[1]["data"][0]["run_id"]
        events = await server.all_frames(newest, view="native")
    assert "compaction" in [frame.data.get("purpose") for frame in events]
    assert (thought, said) == ("hm", "the end")


async def test_what_is_said_before_and_after_a_message_to_the_run_does_not_run_together() -> None:
    """P7: a stream says what the whole answer says."""
    gate = Gate()
    script = [[Say("One."), Wait(gate)], [Say("Two.")]]
    async with (
        ChaosServer(*script) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
        client_of(server) as client,
    ):
        stream = await client.responses.create(model="holdfast", input="hi", stream=True)
        events: list[Any] = []
        async for event in stream:
            events.append(event)
            if event.type == "response.output_text.delta" and not gate.is_open:
                run_id = events[0].response.id.replace("resp_", "run_")
                assert (await server.post(f"/v1/runs/{run_id}/steer", {"message": "and?"}))[0] == 200
                gate.open()
        (done,) = [event.text for event in events if event.type == "response.output_text.done"]
        assert done == events[-1].response.output_text == "One.\n\nTwo."


async def test_a_run_in_another_session_knows_the_response_that_it_goes_on_after() -> None:
    """P2: also where that response is the newest of its own session."""
    async with (
        ChaosServer([Say("x")], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
        client_of(server) as client,
    ):
        first = await client.responses.create(model="holdfast", input="one")
        await server.ended(await server.start("two", session_id="other", previous_response_id=first.id))
        assert said_to(chaos, nth=2) == ["one", "x", "two"]


async def test_who_only_looks_at_a_run_does_not_end_it_by_leaving() -> None:
    """P7: its own client was lost with an earlier process, and nobody said that it lives for its readers."""
    disk, gate, clock = MemoryDisk(), Gate(), GraceIsOver()
    options = ServerOptions(limits=Limits(disconnect_grace_s=GRACE_S))
    async with ChaosServer([Say("x"), Hang()], [Say("x"), Wait(gate), Say("y")]) as chaos:
        target = target_of(chaos, patience=PATIENT)
        async with served(target, store=MemoryStore(disk)) as server:
            body = {"messages": HI, "stream": True}
            asking = asyncio.create_task(server.call("POST", "/v1/chat/completions", body=body))
            await chaos.seen.until_request(1)
        await asking
        setting = Setting(options=options, clock=clock)
        async with served(target, store=MemoryStore(disk), setting=setting) as server:
            await gate.reached()
            (run,) = (await server.get("/v1/runs"))[1]["data"]
            await server.until(run["run_id"], "message.delta")
            await server.until_streams(0)
            gate.open()
            assert (await server.ended(run["run_id"]))["status"] == "completed"
    assert not clock.waited.is_set()
