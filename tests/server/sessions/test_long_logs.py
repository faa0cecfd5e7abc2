"""Logs of many thousand events over HTTP: in pieces, each page from its cursor, and nobody is held up."""

from typing import cast

from holdfast import events as e
from holdfast.chaos import ChaosServer
from holdfast.interfaces.journal import IfSessionNew
from holdfast.server.sessions.exports import ANSWER_BYTES_MAX, RECORDS_AT_ONCE
from scene import Scene
from serving import Served, served, target_of
from stores import MemoryStore

DELTAS = 5 * RECORDS_AT_ONCE


async def with_log(*, text: str = "word ") -> MemoryStore:
    """A store with one long finished run."""
    scene = Scene()
    scene.put(e.SessionCreated, epoch="e")
    scene.send("hi", run_id="r1")
    scene.call()
    scene.pieces(*[f"{text}{nth} " for nth in range(DELTAS)])
    scene.of_run(e.TextDone, segment=0, text="all of it")
    scene.tool("t1", "~~~~\nnot the end of it")
    scene.of_run(e.CallEnded, call_id="c1", finish="stop")
    scene.ends()
    store = MemoryStore()
    events = [event for _, event in scene.log]
    await store.append("s", cast("list[e.Input]", events), when=[IfSessionNew()])
    return store


async def pieces_of(server: Served, path: str) -> int:
    """In how many pieces the server sent its answer."""
    async with server.http.get(server.url + path) as answer:
        return sum([is_end async for _, is_end in answer.content.iter_chunks()])


async def test_a_long_export_is_whole_valid_and_sent_in_pieces() -> None:
    """P7, P10: the log as JSON and as a document; a tool cannot write itself out of its fence."""
    store = await with_log()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        count = await store.last_seq("s")
        answer = await server.call("GET", "/api/sessions/s/export")
        assert await pieces_of(server, "/api/sessions/s/export") > DELTAS // RECORDS_AT_ONCE
        assert [event["seq"] for event in answer.json["events"]] == list(range(1, count + 1))
        assert answer.json["session"]["id"] == "s"
        text = (await server.call("GET", "/api/sessions/s/export?format=md")).body.decode()
        assert "\n~~~~~\n~~~~\nnot the end of it\n~~~~~\n" in text
    await store.close()


async def test_pages_of_a_long_run_follow_on_each_other_in_both_views() -> None:
    """P7: polled by cursor, nothing is missing and nothing comes twice."""
    store = await with_log()
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        for view in ("native", "hermes"):
            seen: list[int] = []
            cursor = 0
            while True:
                _, page = await server.get(f"/v1/runs/r1/events?view={view}&cursor={cursor}")
                if not page["events"]:
                    break
                seen += [event["seq"] for event in page["events"]]
                assert {event["run_id"] for event in page["events"]} == {"r1"}
                cursor = page["cursor"]
            assert seen == sorted(set(seen))
            assert len(seen) >= DELTAS
            assert page["last_event_id"] == cursor == await store.last_seq("s")
    await store.close()


async def test_one_answer_holds_only_so_many_bytes_of_a_log() -> None:
    """P10: whoever wants the rest goes on from the last seq."""
    store = await with_log(text="x" * (3 * ANSWER_BYTES_MAX // DELTAS))
    async with ChaosServer() as chaos, served(target_of(chaos), store=store) as server:
        for path in ("/api/sessions/s/events?limit=1000&after=", "/v1/runs/r1/events?view=native&cursor="):
            at, answers = 0, 0
            while at < await store.last_seq("s"):
                answer = await server.call("GET", f"{path}{at}")
                assert len(answer.body) < 1.5 * ANSWER_BYTES_MAX
                at, answers = answer.json["events"][-1]["seq"], answers + 1
            assert answers >= 3
    await store.close()
