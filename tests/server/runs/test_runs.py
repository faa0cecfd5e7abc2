"""Runs over HTTP: started, looked at, listed, continued, retried."""

import asyncio
from typing import Any

from holdfast.chaos import ChaosServer, Drop, Gate, Hang, Say, Wait, server_error
from holdfast.journal.memory_disk import MemoryDisk
from serving import PATIENT, said_to, served, target_of, text_of
from stores import MemoryStore


async def test_a_run_is_started_followed_and_shown() -> None:
    """S004-1, S004-8, S004-12: from 202 to the answer, its usage and its last event."""
    async with ChaosServer([Say("hello "), Say("world")]) as chaos, served(target_of(chaos)) as server:
        status, started = await server.post("/v1/runs", {"input": "hi"})
        assert status == 202
        assert started["status"] == "started"
        assert started["run_id"].startswith("run_")
        run_id = started["run_id"]
        _, early = await server.get(f"/v1/runs/{run_id}")
        assert early["object"] == "hermes.run"
        assert early["run_id"] == run_id
        assert early["status"] in {"queued", "running", "completed"}
        await server.all_frames(run_id)
        frames = await server.all_frames(run_id)
        assert text_of(frames) == "hello world"
        assert [frame.data["event"] for frame in frames][:2] == ["run.queued", "run.started"]
        assert frames[-1].data["event"] == "run.completed"
        assert frames[-1].data["output"] == "hello world"
        _, shown = await server.get(f"/v1/runs/{run_id}")
        assert shown["status"] == shown["outcome"] == "completed"
        assert shown["output"] == "hello world"
        assert shown["last_event"] == "run.completed"
        assert shown["usage"]["total_tokens"] == 18


async def test_bad_input_is_refused_by_name_and_leaves_nothing_behind() -> None:
    """P12, S004-2, S004-3, S004-4, S004-5: the envelope names what is wrong, and no run is made."""
    disk = MemoryDisk()
    async with ChaosServer() as chaos, served(target_of(chaos), store=MemoryStore(disk)) as server:
        refused: list[tuple[Any, str, str | None]] = [
            (b"{", "JSON", None),
            (b"\xff\xfe", "JSON", None),
            ([], "object", None),
            ("text", "object", None),
            ({}, "input", "input"),
            ({"input": "  "}, "input", "input"),
            ({"input": []}, "input", "input"),
            ({"message": ""}, "message", "message"),
            ({"input": 3}, "input", "input"),
            ({"input": [{"content": 3}]}, "input[0].content", "input[0].content"),
            ({"input": [{"role": "assistant", "content": "x"}]}, "input", "input"),
            ({"input": "x", "conversation_history": {}}, "conversation_history", "conversation_history"),
            (
                {"input": "x", "conversation_history": [{"role": "user"}]},
                "content",
                "conversation_history[0].content",
            ),
            (
                {"input": "x", "conversation_history": [{"role": "king", "content": ""}]},
                "role",
                "conversation_history[0].role",
            ),
            ({"input": "x", "session_id": "a/b"}, "session_id", "session_id"),
            ({"input": "x", "session_id": ".."}, "session_id", "session_id"),
            ({"input": "x", "session_id": ""}, "session_id", "session_id"),
            ({"input": "x", "session_id": "a" * 257}, "session_id", "session_id"),
            ({"input": "x", "session_id": "a\nb"}, "session_id", "session_id"),
            ({"input": "x", "when_busy": "panic"}, "when_busy", "when_busy"),
            ({"input": "x", "budget": {"tokens": "many"}}, "budget.tokens", "budget.tokens"),
            ({"input": "x", "workspace": "here"}, "workspace", "workspace"),
            ({"input": "x", "metadata": [1]}, "metadata", "metadata"),
        ]
        for body, word, param in refused:
            answer = await server.call("POST", "/v1/runs", body=body)
            assert answer.status == 400, body
            assert answer.code in {"invalid_request", "invalid_json"}
            assert word in answer.json["error"]["message"], answer.json
            assert answer.json["error"]["param"] == param, answer.json
        unknown = {"input": "x", "previous_response_id": "resp_nothing"}
        answer = await server.call("POST", "/v1/runs", body=unknown)
        assert (answer.status, answer.code) == (404, "response_not_found")
    assert not disk.logs
    assert not disk.runs


async def test_what_is_unknown_is_not_found() -> None:
    """S004-10, S004-15, S004-18, P12: in the envelope, whatever was asked for."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for method, path, status, code in (
            ("GET", "/v1/runs/run_unknown", 404, "run_not_found"),
            ("GET", "/v1/runs/run_unknown/events", 404, "run_not_found"),
            ("POST", "/v1/runs/run_unknown/stop", 404, "run_not_found"),
            ("POST", "/v1/runs/run_unknown/retry", 404, "run_not_found"),
            ("GET", "/nowhere.js", 404, "not_found"),
            ("GET", "/nowhere", 404, "not_found"),
            ("GET", "/v1/assistants/x", 404, "not_found"),
            ("POST", "/health", 405, "method_not_allowed"),
            ("DELETE", "/v1/runs", 405, "method_not_allowed"),
        ):
            answer = await server.call(method, path)
            assert (answer.status, answer.code) == (status, code), path


async def test_a_session_goes_on_with_its_history() -> None:
    """S004-9: an explicit session is used, shown, and remembered by the next run."""
    async with ChaosServer([Say("one")], [Say("two")]) as chaos, served(target_of(chaos)) as server:
        first = await server.ended(await server.start("count", session_id="my session"))
        assert first["session_id"] == "my session"
        await server.ended(await server.start("go on", session_id="my session"))
        said = said_to(chaos, nth=2)
        assert said[-3:] == ["count", "one", "go on"]


async def test_a_history_that_comes_along_replaces_the_sessions() -> None:
    async with (
        ChaosServer([Say("one")], [Say("two")], [Say("three")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        await server.ended(await server.start("count", session_id="s"))
        history = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
        await server.ended(await server.start("now", session_id="s", conversation_history=history))
        said = said_to(chaos, nth=2)
        assert said[-3:] == ["u", "a", "now"]
        listed = [*history, {"role": "user", "content": [{"type": "text", "text": "as a list"}]}]
        _, started = await server.post("/v1/runs", {"input": listed})
        await server.ended(started["run_id"])
        said = said_to(chaos, nth=3)
        assert said[-3:] == ["u", "a", "as a list"]


async def test_a_dropped_answer_is_superseded_and_neither_doubled_nor_lost() -> None:
    """P4, P9: the output is the clean answer, and a reader that cannot unsee gets only what is new."""
    async with ChaosServer([Say("hel"), Drop()], [Say("hello")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        assert text_of(frames) == "hello"
        assert (await server.ended(run_id))["output"] == "hello"


async def test_a_run_that_cannot_be_answered_fails_with_the_whole_trace_once() -> None:
    """P4, P9: a failure says what happened and what to do, and is not something that the assistant said."""
    async with (
        ChaosServer([server_error()], after_last="repeat") as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        assert frames[-1].data["event"] == "run.failed"
        assert text_of(frames) == ""
        shown = await server.ended(run_id)
        assert shown["status"] == "failed"
        assert "output" not in shown
        assert shown["code"] == "server_error"
        assert "sk-test" not in str(shown)


async def test_runs_are_listed_newest_first_in_pages() -> None:
    async with ChaosServer([Say("x")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        runs = [await server.start(session_id=f"s{n % 2}") for n in range(5)]
        for run_id in runs:
            await server.ended(run_id)
        seen: list[str] = []
        path = "/v1/runs?limit=2"
        while True:
            _, page = await server.get(path)
            seen += [run["run_id"] for run in page["data"]]
            if not page["has_more"]:
                break
            path = f"/v1/runs?limit=2&cursor={page['next_cursor']}"
        assert sorted(seen) == sorted(runs)
        _, page = await server.get("/v1/runs?session_id=s1&status=completed")
        assert {run["run_id"] for run in page["data"]} == {runs[1], runs[3]}
        assert (await server.get("/v1/runs?status=failed"))[1]["data"] == []
        assert (await server.get("/v1/runs?status=odd"))[0] == 400
        assert (await server.get("/v1/runs?cursor=odd"))[0] == 400
        assert (await server.get("/v1/runs?limit=0"))[0] == 400


async def test_a_busy_session_queues_steers_or_rejects() -> None:
    """P2: each input has one visible state; a queued run says its place."""
    gate = Gate()
    async with (
        ChaosServer([Wait(gate), Say("one")], [Say("two")], [Say("three")]) as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        first = await server.start("a", session_id="s")
        await gate.reached()
        second = await server.start("b", session_id="s")
        _, waiting = await server.get(f"/v1/runs/{second}")
        assert (waiting["status"], waiting["queue_position"]) == ("queued", 1)
        status, answer = await server.post(
            "/v1/runs", {"input": "c", "session_id": "s", "when_busy": "reject"}
        )
        assert (status, answer["error"]["code"]) == (409, "session_busy")
        status, steered = await server.post(f"/v1/runs/{first}/steer", {"message": "and this"})
        assert (status, steered["accepted"], steered["mode"]) == (200, True, "steer")
        assert steered["object"] == "hermes.run.steer"
        gate.open()
        assert (await server.ended(second))["status"] == "completed"
        status, late = await server.post(f"/v1/runs/{first}/messages", {"message": "late"})
        assert (status, late["error"]["code"]) == (409, "run_not_accepting_steer")
        frames = await server.all_frames(first)
        assert "run.steered" in [frame.data["event"] for frame in frames]


async def test_a_retry_rewinds_and_runs_the_same_input_again() -> None:
    async with (
        ChaosServer(*[[server_error()]] * 3, [Say("now")]) as chaos,
        served(target_of(chaos)) as server,
    ):
        run_id = await server.start("try")
        assert (await server.ended(run_id))["status"] == "failed"
        status, again = await server.post(f"/v1/runs/{run_id}/retry")
        assert status == 202
        assert again["run_id"] != run_id
        assert (await server.ended(again["run_id"]))["output"] == "now"
        assert said_to(chaos, nth=4) == ["try"]


async def test_a_restart_is_only_a_pause() -> None:
    """P6: what was said stays, the run goes on by itself in the next process, and ends once."""
    disk, gate = MemoryDisk(), Gate()
    async with ChaosServer([Say("half"), Wait(gate)], [Say("the whole")]) as chaos:
        async with served(target_of(chaos, patience=PATIENT), store=MemoryStore(disk)) as server:
            run_id = await server.start()
            await gate.reached()
        async with served(target_of(chaos), store=MemoryStore(disk)) as server:
            frames = await server.all_frames(run_id, view="native")
            shown = await server.ended(run_id)
    kinds = [frame.data["type"] for frame in frames]
    assert shown["output"] == "the whole"
    assert kinds.count("run.resumed") == kinds.count("run.ended") == kinds.count("attempt.superseded") == 1
    assert kinds.index("text.delta") < kinds.index("run.resumed")


async def test_polling_gives_the_same_events_as_the_stream() -> None:
    """P7: JSON for those who cannot stream, from any cursor."""
    async with ChaosServer([Say("one "), Say("two")]) as chaos, served(target_of(chaos)) as server:
        run_id = await server.start()
        frames = await server.all_frames(run_id)
        _, polled = await server.get(f"/v1/runs/{run_id}/events?cursor=0")
        assert [event["seq"] for event in polled["events"]] == [frame.id for frame in frames]
        assert polled["last_event_id"] == frames[-1].id
        path = f"/v1/runs/{run_id}/events?after={frames[0].id}"
        _, rest = await server.get(path, Accept="application/json")
        assert [event["event"] for event in rest["events"]] == [frame.data["event"] for frame in frames[1:]]
        _, native = await server.get(f"/v1/runs/{run_id}/events?cursor=0&view=native")
        whole = await server.all_frames(run_id, view="native")
        assert native["events"] == [frame.data for frame in whole]
        assert (await server.get(f"/v1/runs/{run_id}/events?view=odd"))[0] == 400


async def test_runs_beyond_the_slots_wait_their_turn() -> None:
    """P10: a stuck run holds up its own session only; what waits says so."""
    async with (
        ChaosServer([Hang()], after_last="repeat") as chaos,
        served(target_of(chaos, patience=PATIENT)) as server,
    ):
        stuck = await server.start("a", session_id="one")
        behind = await server.start("b", session_id="one")
        beside = await server.start("c", session_id="two")
        await chaos.seen.until_body(2)
        assert (await server.get(f"/v1/runs/{behind}"))[1]["status"] == "queued"
        assert (await server.get(f"/v1/runs/{beside}"))[1]["status"] == "running"
        stops = [server.post(f"/v1/runs/{run}/stop") for run in (stuck, beside)]
        assert [status for status, _ in await asyncio.gather(*stops)] == [200, 200]
