"""Runs over HTTP: started, followed from any cursor, looked at, stopped."""

import asyncio

from holdfast.chaos import ChaosServer, ClosedBy, Drop, Gate, Hang, Say, Wait, server_error
from holdfast.journal.memory import MemoryDisk, MemoryStore
from serving import Frame, served, target_of


def text_of(frames: list[Frame]) -> str:
    return "".join(frame.data["delta"] for frame in frames if frame.data["event"] == "message.delta")


async def test_a_run_is_started_followed_and_shown() -> None:
    async with ChaosServer([Say("hello "), Say("world")]) as chaos, served(target_of(chaos)) as server:
        status, started = await server.post("/v1/runs", {"input": "hi"})
        assert status == 202
        assert started["status"] == "started"
        assert started["run_id"].startswith("run_")
        frames = await server.all_frames(started["run_id"])
        assert text_of(frames) == "hello world"
        assert frames[-1].data["event"] == "run.completed"
        assert frames[-1].data["output"] == "hello world"
        _, shown = await server.get(f"/v1/runs/{started['run_id']}")
        assert shown["object"] == "hermes.run"
        assert shown["status"] == "completed"
        assert shown["output"] == "hello world"
        assert shown["last_event"] == "run.completed"
        assert shown["usage"]["total_tokens"] == 18


async def test_every_cursor_gives_the_same_log() -> None:
    """P7: a reader that comes at any point, live or after the end, sees the same frames."""
    gate = Gate()
    script = [Say("one "), Say("two "), Wait(gate), Say("three")]
    async with ChaosServer(script) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        live = asyncio.create_task(server.all_frames(run_id, view="native"))
        hermes = asyncio.create_task(server.all_frames(run_id))
        await gate.reached()
        gate.open()
        whole = await live
        assert [frame.data["type"] for frame in whole][-1] == "run.ended"
        assert await server.all_frames(run_id, view="native") == whole
        for cursor in whole[:-1]:
            rest = await server.all_frames(run_id, view="native", after=cursor.id)
            assert rest == [frame for frame in whole if frame.id > cursor.id]
        shown = await hermes
        for cursor in shown[:-1]:
            rest = await server.all_frames(run_id, after=cursor.id)
            assert rest == [frame for frame in shown if frame.id > cursor.id]


async def test_the_terminal_cursor_has_nothing_to_add_and_a_foreign_one_replays() -> None:
    """P7: 204 stops a browser's EventSource; a cursor that this log never gave out skips nothing."""
    async with ChaosServer([Say("x")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        whole = await server.all_frames(run_id)
        async with server.http.get(
            f"{server.url}/v1/runs/{run_id}/events", headers={"Last-Event-ID": str(whole[-1].id)}
        ) as answer:
            assert answer.status == 204
        assert await server.all_frames(run_id, after=10**9) == whole


async def test_a_stop_ends_the_run_and_closes_the_upstream_connection() -> None:
    """P5: after the stop nothing more is asked of the model, and the reader sees the end."""
    async with ChaosServer([Say("hal"), Hang()]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        reading = asyncio.create_task(server.all_frames(run_id))
        await chaos.seen.until_body(1)
        status, answer = await server.post(f"/v1/runs/{run_id}/stop")
        assert (status, answer["status"]) == (200, "stopping")
        frames = await reading
        assert frames[-1].data["event"] == "run.cancelled"
        assert await chaos.seen.until_closed(1) in {ClosedBy.PEER, ClosedBy.PEER_RESET}
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert shown["status"] == "cancelled"
        assert (await server.post(f"/v1/runs/{run_id}/stop"))[0] == 404
        assert len(chaos.seen.requests) == 1


async def test_a_dropped_answer_is_superseded_and_neither_doubled_nor_lost() -> None:
    """P4, P9: the output is the clean answer, and the retry leaves no chatter in it."""
    async with ChaosServer([Say("hel"), Drop()], [Say("hello")]) as chaos, served(target_of(chaos)) as server:
        shown = await server.ended(await server.start())
        assert shown["output"] == "hello"
        assert shown["status"] == "completed"


async def test_a_run_that_cannot_be_answered_fails_with_the_whole_trace_once() -> None:
    """P4, P9: a failure says what happened and what to do, and is not something that the assistant said."""
    async with (
        ChaosServer([server_error()], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        assert frames[-1].data["event"] == "run.failed"
        assert frames[-1].data["code"] == "server_error"
        assert frames[-1].data["error"].count("attempt 1 ") == 1
        assert "output" not in frames[-1].data


async def test_bad_input_gets_the_envelope_and_leaves_nothing_behind() -> None:
    """P12: the message names the field; no session and no run is made."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos, served(target_of(chaos), store=MemoryStore(disk)) as server:
        for body, word in (
            (b"{", "JSON"),
            ([], "object"),
            ({}, "input"),
            ({"input": "  "}, "input"),
            ({"input": 3}, "input"),
            ({"input": "x", "conversation_history": {}}, "conversation_history"),
            ({"input": "x", "session_id": "a/b"}, "session_id"),
        ):
            status, answer = await server.post("/v1/runs", body)
            assert status == 400, body
            assert set(answer["error"]) == {"message", "type", "param", "code"}
            assert word in answer["error"]["message"]
        assert (await server.get("/v1/runs/run_unknown"))[0] == 404
        assert (await server.get("/nowhere"))[1]["error"]["code"] == "not_found"
        assert (await server.post("/health"))[1]["error"]["code"] == "method_not_allowed"
    assert not disk.logs
    assert not disk.runs


async def test_a_restart_is_only_a_pause() -> None:
    """P6: what was said stays, the run goes on by itself in the next process, and ends once."""
    disk, gate = MemoryDisk(), Gate()
    async with ChaosServer([Say("half"), Wait(gate)], [Say("the whole")]) as chaos:
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            run_id = await server.start()
            await gate.reached()
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            frames = await server.all_frames(run_id, view="native")
            shown = await server.ended(run_id)
    kinds = [frame.data["type"] for frame in frames]
    assert shown["output"] == "the whole"
    assert kinds.count("run.resumed") == kinds.count("run.ended") == kinds.count("attempt.superseded") == 1
    assert kinds.index("text.delta") < kinds.index("run.resumed")
