"""Sessions as clients of hermes know them: under their name in an answer, and their chat as named events."""

import asyncio
import json
from typing import Any

from holdfast.chaos import CallTool, ChaosServer, Hang, Say, Think, insufficient_quota
from server.toolbox import Counted
from serving import PATIENT, Served, Setting, limited, served, target_of
from tables import for_each_row


async def told(server: Served, body: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The events of a chat, by name, as a client that takes all data for JSON reads them."""
    answer = await server.call("POST", "/api/sessions/s/chat/stream", body=body)
    assert answer.status == 200
    events: list[tuple[str, dict[str, Any]]] = []
    for block in answer.body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            events.append((fields["event"], json.loads(fields["data"])))
    return events


async def test_a_chat_is_streamed_in_the_words_of_hermes() -> None:
    script = [Think("hm"), Say("I look."), CallTool("touch", {"path": "a"})]
    async with (
        ChaosServer(script, [Say("Done.")]) as chaos,
        served(target_of(chaos), setting=Setting(tools=(Counted(),))) as server,
    ):
        events = await told(server, {"message": "hi", "system_message": "Be brief."})
        sent: Any = chaos.seen.requests[0].body
    assert "Be brief." in json.dumps(sent["messages"])
    names = [name for name, _ in events]
    said = dict(events)
    assert names.index("run.started") < names.index("message.started") < names.index("assistant.delta")
    assert names[-3:] == ["assistant.completed", "run.completed", "done"]
    assert said["message.started"]["message"]["id"] == said["assistant.delta"]["message_id"]
    assert said["tool.started"]["tool_name"] == said["tool.completed"]["tool_name"] == "touch"
    assert said["tool.progress"]["tool_name"] == "_thinking"
    assert (said["assistant.completed"]["content"], said["assistant.completed"]["completed"]) == (
        "Done.",
        True,
    )
    assert said["run.completed"]["messages"] == [{"role": "assistant", "content": "Done."}]
    assert {data["session_id"] for _, data in events} == {"s"}
    assert len({data["run_id"] for _, data in events}) == 1


async def test_a_chat_that_fails_ends_with_an_error_and_no_answer() -> None:
    """P4."""
    async with ChaosServer([insufficient_quota()]) as chaos, served(target_of(chaos)) as server:
        events = await told(server, {"message": "hi"})
    names = [name for name, _ in events]
    assert names[-3:] == ["error", "run.failed", "done"]
    assert "assistant.completed" not in names
    assert events[-3][1]["code"] == "quota_exhausted"


@for_each_row("path", ["chat", "chat/stream"])
async def test_a_chat_that_is_to_end_with_its_reader_does(path: str) -> None:
    """P5: `on_disconnect` means the same on every route that takes it."""
    async with (
        ChaosServer([Say("hal"), Hang()]) as chaos,
        served(target_of(chaos, patience=PATIENT), setting=limited(disconnect_grace_s=0)) as server,
    ):
        body = {"message": "hi", "on_disconnect": "cancel"}
        waiting = asyncio.create_task(server.call("POST", f"/api/sessions/s/{path}", body=body))
        await chaos.seen.until_request(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        (run,) = (await server.get("/v1/runs"))[1]["data"]
        shown = await server.ended_unread(run["run_id"])
        assert (shown["status"], shown["cause"]) == ("cancelled", "client_gone")


async def test_one_session_is_answered_under_its_name_too() -> None:
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        _, made = await server.post("/api/sessions", {"id": "a", "title": "A"})
        _, shown = await server.get("/api/sessions/a")
        changed = await server.call("PATCH", "/api/sessions/a", body={"title": "B"})
        _, forked = await server.post("/api/sessions/a/fork", {"id": "b"})
    assert [one["session"]["id"] for one in (made, shown, changed.json, forked)] == ["a", "a", "a", "b"]
    assert shown["session"]["started_at"] == shown["created_at"]
    assert (changed.json["session"]["title"], forked["session"]["parent_session_id"]) == ("B", "a")


async def counted(server: Served, query: str) -> list[str]:
    """The ids of all pages, as a client sees them that counts what it has."""
    seen: list[str] = []
    more = True
    while more:
        _, page = await server.get(f"/api/sessions?{query}&offset={len(seen)}")
        seen += [one["id"] for one in page["data"]]
        more = page["has_more"]
    return seen


async def test_a_client_that_counts_sessions_sees_each_once() -> None:
    """P7: without an end it would read the first page for ever."""
    async with ChaosServer() as chaos, served(target_of(chaos)) as server:
        for name in "abcde":
            await server.post("/api/sessions", {"id": name})
        assert sorted(await counted(server, "limit=2")) == list("abcde")
        for wrong in ("x", "-1", "10001", "0" * 9 + "9" * 11, "0" * 9 + "9" * 5000):
            assert (await server.call("GET", f"/api/sessions?offset={wrong}")).code == "invalid_request"


async def test_a_client_that_counts_hits_sees_each_once() -> None:
    """P7: a search that says there is more has more to give."""
    async with ChaosServer([Say("ok")], after_last="repeat") as chaos, served(target_of(chaos)) as server:
        for name in "abc":
            await server.ended(await server.start("zebra", session_id=name))
        assert sorted(await counted(server, "q=zebra&limit=1")) == list("abc")
